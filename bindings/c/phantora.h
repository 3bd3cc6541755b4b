#ifndef PHANTORA_H
#define PHANTORA_H

/** @file
 * Phantora from C11, and from any language that calls C: simulation of jobs on GPU clusters.
 * bindings/c/README.md has a program that uses it.
 *
 * Times are whole picoseconds, sizes are bytes. Text is UTF-8 and ends with a zero.
 *
 * Handles are opaque. Who creates one destroys it; destroying sets the variable to NULL, and does
 * nothing where it is NULL already. Distinct handles may be used by distinct threads at a time; of
 * one handle only what takes it as const.
 *
 * Structs begin with their size, which the caller sets to sizeof: a program and a library of
 * different versions understand one another. A field that is zero means the default that is written
 * beside it, so that {.struct_size = sizeof(...), .m = 5} will do. A library refuses a struct that
 * is larger than its own and says something in fields that it does not know. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Before what the library exports. */
#if defined(_WIN32) || !defined(__GNUC__)
#define PHANTORA_API
#else
#define PHANTORA_API __attribute__((visibility("default")))
#endif

/* C lets an enum hold any number, and each is taken or refused by a status. C++ does so only where
 * the type is fixed: here the one that C compilers choose. */
#ifdef __cplusplus
#define PHANTORA_ENUM : unsigned
extern "C" {
#else
#define PHANTORA_ENUM
#endif

/* ---- Errors ---- */

/* Every function that can fail returns one. What it was to give is then unchanged. */
typedef enum phantora_status PHANTORA_ENUM {
  PHANTORA_OK = 0,
  PHANTORA_INVALID_ARGUMENT = 1, /* an argument that the function does not take */
  PHANTORA_BAD_CONFIG = 2,       /* text that cannot be read: a cluster, a workload, JSON */
  PHANTORA_NO_COST = 3,          /* a kernel that has no price */
  PHANTORA_NO_ROUTE = 4,         /* no path joins two GPUs */
  PHANTORA_FAILED = 5,           /* anything else that went wrong, as ranks that wait for ever */
  PHANTORA_OUT_OF_MEMORY = 6,
  PHANTORA_INTERNAL = 255 /* an error in the library */
} phantora_status;

/* What the last call of this thread that failed had to say; never NULL. Valid until another fails
 * in the thread. */
PHANTORA_API const char* phantora_last_error(void);

/* "1.2.3" of the library that is loaded. */
PHANTORA_API const char* phantora_version(void);

/* Releases text and bytes that a function gave; NULL is a no-op. */
PHANTORA_API void phantora_free(void* memory);

/* ---- One call for any language ---- */

/* Runs what a JSON object asks for and gives the report as JSON, to be released by phantora_free.
 * bindings/json/README.md has the fields of both. */
PHANTORA_API phantora_status phantora_simulate_json(const char* request, char** response);

/* ---- Kernels ---- */

/* A handle: what a kernel is, or how long it takes. */
typedef struct phantora_kernel phantora_kernel;

/* Types of elements. */
typedef enum phantora_element PHANTORA_ENUM {
  PHANTORA_BF16 = 0,
  PHANTORA_FP16 = 1,
  PHANTORA_FP32 = 2,
  PHANTORA_FP64 = 3,
  PHANTORA_FP8_E4M3 = 4,
  PHANTORA_FP8_E5M2 = 5
} phantora_element;

/* Which of a layer's kernels. Attention and softmax have one backward pass, the first. */
typedef enum phantora_pass PHANTORA_ENUM {
  PHANTORA_FORWARD = 0,
  PHANTORA_BACKWARD_INPUT = 1,
  PHANTORA_BACKWARD_WEIGHT = 2
} phantora_pass;

/* Which units do the FLOP of a kernel of one's own. */
typedef enum phantora_arithmetic PHANTORA_ENUM {
  PHANTORA_ARITHMETIC_NONE = 0, /* not told: those of fp32 */
  PHANTORA_ARITHMETIC_FP8 = 1,
  PHANTORA_ARITHMETIC_HALF = 2,
  PHANTORA_ARITHMETIC_TF32 = 3,
  PHANTORA_ARITHMETIC_FP32 = 4,
  PHANTORA_ARITHMETIC_FP64 = 5,
  PHANTORA_ARITHMETIC_INT8 = 6
} phantora_arithmetic;

/* What holds a kernel up, and so how it and what runs beside it slow each other. */
typedef enum phantora_limit PHANTORA_ENUM {
  PHANTORA_LIMIT_ARITHMETIC = 0,
  PHANTORA_LIMIT_MEMORY = 1,
  PHANTORA_LIMIT_COPY_ENGINE = 2
} phantora_limit;

/* C = A B for A of m x k, B of k x n. */
typedef struct phantora_gemm {
  size_t struct_size;    /* sizeof the struct */
  int64_t m, n, k;       /* rows of A, columns of B, and what is summed over */
  int64_t batch;         /* products of that shape in one call; 0: 1 */
  phantora_element type; /* of A, B and C; C of 8-bit products is bf16 */
  bool a_transposed;     /* A is stored k x m */
  bool b_transposed;     /* B is stored n x k */
  bool tf32;             /* fp32 on tensor cores where the GPU has them */
} phantora_gemm;
/* A matrix product. */
PHANTORA_API phantora_status phantora_kernel_gemm(const phantora_gemm* shape,
                                                  phantora_kernel** out);

/* Scaled dot product attention; bf16 or fp16. */
typedef struct phantora_attention {
  size_t struct_size;    /* sizeof the struct */
  int64_t batch;         /* 0: 1 */
  int64_t heads;         /* 0: 1 */
  int64_t key_heads;     /* 0: as many as heads */
  int64_t queries;       /* positions that ask; 0: 1 */
  int64_t keys;          /* positions that are asked about; 0: as many as queries */
  int64_t depth;         /* elements of a head; 0: 64 */
  bool not_causal;       /* positions see those after them too */
  phantora_element type; /* of queries, keys and values */
} phantora_attention;
/* As flash attention computes it. */
PHANTORA_API phantora_status phantora_kernel_attention(const phantora_attention* shape,
                                                       phantora_pass pass, phantora_kernel** out);

/* y = x W^T for x of rows x in, W of out_features x in, as a linear layer stores it. */
PHANTORA_API phantora_status phantora_kernel_linear(int64_t rows, int64_t in_features,
                                                    int64_t out_features, phantora_element type,
                                                    phantora_pass pass, phantora_kernel** out);
/* Layer norm over rows of cols elements each. */
PHANTORA_API phantora_status phantora_kernel_layer_norm(int64_t rows, int64_t cols,
                                                        phantora_element type, phantora_pass pass,
                                                        phantora_kernel** out);
/* The same for RMS norm. */
PHANTORA_API phantora_status phantora_kernel_rms_norm(int64_t rows, int64_t cols,
                                                      phantora_element type, phantora_pass pass,
                                                      phantora_kernel** out);
/* The same for softmax. */
PHANTORA_API phantora_status phantora_kernel_softmax(int64_t rows, int64_t cols,
                                                     phantora_element type, phantora_pass pass,
                                                     phantora_kernel** out);
/* One pass over elements: reads them from `inputs` tensors and writes one. */
PHANTORA_API phantora_status phantora_kernel_elementwise(int64_t elements, int inputs,
                                                         phantora_element type,
                                                         phantora_kernel** out);
/* Rows of cols elements that are looked up in a table. */
PHANTORA_API phantora_status phantora_kernel_embedding(int64_t rows, int64_t cols,
                                                       phantora_element type,
                                                       phantora_kernel** out);
/* A fused step of Adam: parameters, gradients and both moments of `type`. */
PHANTORA_API phantora_status phantora_kernel_adam(int64_t parameters, phantora_element type,
                                                  phantora_kernel** out);
/* A copy within the GPU's memory. */
PHANTORA_API phantora_status phantora_kernel_copy(int64_t bytes, phantora_kernel** out);
/* A kernel that is told by its work. */
PHANTORA_API phantora_status phantora_kernel_custom(const char* name, double bytes, double flops,
                                                    phantora_arithmetic arithmetic,
                                                    phantora_kernel** out);
/* A kernel that takes `time` when it has its GPU to itself, on every GPU. */
PHANTORA_API phantora_status phantora_kernel_known_time(const char* name, int64_t time,
                                                        phantora_limit limit,
                                                        phantora_kernel** out);
/* Ends the handle; workloads keep what they launch. */
PHANTORA_API void phantora_kernel_destroy(phantora_kernel** kernel);

/* Where a price comes from. */
typedef enum phantora_source PHANTORA_ENUM {
  PHANTORA_MEASURED = 0,
  PHANTORA_FITTED = 1,
  PHANTORA_ROOFLINE = 2,
  PHANTORA_UNKNOWN = 3
} phantora_source;

/* What a kernel costs. */
typedef struct phantora_cost {
  size_t struct_size;     /* sizeof the struct */
  int64_t duration;       /* of the kernel alone on its GPU */
  int64_t deviation;      /* one standard deviation; 0: not known */
  phantora_source source; /* where that comes from */
} phantora_cost;
/* What a kernel costs on a GPU: "h200", "h100", "a100", "b200", "l40s". */
PHANTORA_API phantora_status phantora_kernel_cost(const phantora_kernel* kernel, const char* gpu,
                                                  phantora_cost* out);

/* ---- Workloads: what every rank of a job does ---- */

/* A handle: what every rank does. */
typedef struct phantora_workload phantora_workload;

/* A point in a stream of a rank of a workload. */
typedef struct phantora_event {
  uint32_t rank, number; /* among those that the rank records */
} phantora_event;
/* A piece of device memory of a rank of a workload. */
typedef struct phantora_block {
  uint32_t rank, number; /* among those that the rank allocates */
} phantora_block;

/* What the ranks of a group do together. */
typedef enum phantora_collective PHANTORA_ENUM {
  PHANTORA_ALL_REDUCE = 0,
  PHANTORA_ALL_GATHER = 1,
  PHANTORA_REDUCE_SCATTER = 2,
  PHANTORA_BROADCAST = 3,
  PHANTORA_REDUCE = 4,
  PHANTORA_ALL_TO_ALL = 5,
  PHANTORA_GATHER = 6,
  PHANTORA_SCATTER = 7
} phantora_collective;

/* One of no ranks. */
PHANTORA_API phantora_status phantora_workload_create(phantora_workload** out);
/* Ends the handle. */
PHANTORA_API void phantora_workload_destroy(phantora_workload** workload);

/* Puts a kernel on a stream. Ranks and the streams of a rank are numbered from 0. Work on a stream
 * runs in order. */
PHANTORA_API phantora_status phantora_workload_launch(phantora_workload* workload, uint32_t rank,
                                                      const phantora_kernel* kernel,
                                                      uint32_t stream);
/* All ranks of a group run a collective.
 * total: bytes of the larger buffer of one rank: the whole tensor for all_gather and
 * reduce_scatter. root: its place in the group, where the operation has one. */
PHANTORA_API phantora_status phantora_workload_collective(phantora_workload* workload,
                                                          const uint32_t* group, size_t group_size,
                                                          phantora_collective op, int64_t total,
                                                          uint32_t stream, int root);
/* The part of one rank; each rank of the group says its own in its turn. */
PHANTORA_API phantora_status phantora_workload_collective_of(phantora_workload* workload,
                                                             uint32_t rank, const uint32_t* group,
                                                             size_t group_size,
                                                             phantora_collective op, int64_t total,
                                                             uint32_t stream, int root);
/* A message to another rank, which has to receive one of that size. */
PHANTORA_API phantora_status phantora_workload_send(phantora_workload* workload, uint32_t rank,
                                                    uint32_t to, int64_t bytes, uint32_t stream);
/* The other side of it. */
PHANTORA_API phantora_status phantora_workload_receive(phantora_workload* workload, uint32_t rank,
                                                       uint32_t from, int64_t bytes,
                                                       uint32_t stream);
/* Marks the end of what the stream was given so far. */
PHANTORA_API phantora_status phantora_workload_record(phantora_workload* workload, uint32_t rank,
                                                      uint32_t stream, phantora_event* out);
/* What the stream is given from now on waits for the event, of any rank. */
PHANTORA_API phantora_status phantora_workload_wait(phantora_workload* workload, uint32_t rank,
                                                    phantora_event event, uint32_t stream);
/* The rank's host works for a while before it goes on issuing. */
PHANTORA_API phantora_status phantora_workload_host(phantora_workload* workload, uint32_t rank,
                                                    int64_t time);
/* It blocks until all that the rank was given has ended. */
PHANTORA_API phantora_status phantora_workload_synchronize(phantora_workload* workload,
                                                           uint32_t rank);
/* It blocks until an event has come, of any rank. */
PHANTORA_API phantora_status phantora_workload_synchronize_event(phantora_workload* workload,
                                                                 uint32_t rank,
                                                                 phantora_event event);
/* The rank holds device memory from now on. label: what for, or NULL. */
PHANTORA_API phantora_status phantora_workload_allocate(phantora_workload* workload, uint32_t rank,
                                                        int64_t bytes, const char* label,
                                                        phantora_block* out);
/* It gives it back. */
PHANTORA_API phantora_status phantora_workload_free(phantora_workload* workload,
                                                    phantora_block block);
/* A step of all ranks ends with what their stream was given so far. */
PHANTORA_API phantora_status phantora_workload_end_step(phantora_workload* workload,
                                                        uint32_t stream);

/* Ranks are 0 to one less than this. */
PHANTORA_API size_t phantora_workload_rank_count(const phantora_workload* workload);
/* Of all ranks together. */
PHANTORA_API size_t phantora_workload_operation_count(const phantora_workload* workload);
/* Equal for equal workloads, on every machine. */
PHANTORA_API phantora_status phantora_workload_hash(const phantora_workload* workload,
                                                    uint64_t* out);
/* Written down as JSON; to be released by phantora_free. */
PHANTORA_API phantora_status phantora_workload_to_json(const phantora_workload* workload,
                                                       char** out);
/* Written down in a compact binary form; to be released by phantora_free. */
PHANTORA_API phantora_status phantora_workload_to_binary(const phantora_workload* workload,
                                                         char** out, size_t* size);
/* What phantora_workload_to_json wrote. */
PHANTORA_API phantora_status phantora_workload_from_json(const char* text, phantora_workload** out);
/* What phantora_workload_to_binary wrote. */
PHANTORA_API phantora_status phantora_workload_from_binary(const char* bytes, size_t size,
                                                           phantora_workload** out);
/* From a file of either form. */
PHANTORA_API phantora_status phantora_workload_load(const char* path, phantora_workload** out);
/* To a file: JSON if its name ends in ".json", else binary. */
PHANTORA_API phantora_status phantora_workload_save(const phantora_workload* workload,
                                                    const char* path);

/* What traces were made a workload of, and what they did not say: text of a line each, to be
 * released by phantora_free. notes: may be NULL. Paths: PyTorch's profiles, a rank each. */
PHANTORA_API phantora_status phantora_workload_read_kineto(const char* const* paths, size_t count,
                                                           phantora_workload** out, char** notes);
/* The same of an MLCommons Chakra execution trace, of files PREFIX.0.et, PREFIX.1.et, ... */
PHANTORA_API phantora_status phantora_workload_read_chakra(const char* prefix,
                                                           phantora_workload** out, char** notes);
/* Writes such a trace. gpu: what kernels without a known time are priced for, as "h200". */
PHANTORA_API phantora_status phantora_workload_write_chakra(const phantora_workload* workload,
                                                            const char* gpu, const char* prefix);
/* With `factor` times as many data-parallel replicas of `replica` ranks each, as
 * phantora/simulation/widen.hpp describes it. narrower: the same job of fewer replicas, which tells
 * how sizes follow their number; NULL: they stay. */
PHANTORA_API phantora_status phantora_workload_widen(const phantora_workload* workload,
                                                     uint32_t factor, uint32_t replica,
                                                     const phantora_workload* narrower,
                                                     phantora_workload** out);

/* A decoder: norms, attention with grouped keys, an MLP or experts. */
typedef struct phantora_transformer {
  size_t struct_size;     /* sizeof the struct */
  int layers;             /* 0: 32 */
  int hidden;             /* 0: 4096 */
  int heads;              /* 0: 32 */
  int key_heads;          /* 0: 8 */
  int mlp;                /* width of the MLP, or of an expert; 0: 14336 */
  int vocabulary;         /* 0: 128256 */
  int sequence;           /* tokens; 0: 4096 */
  int experts;            /* of each layer; 0: a plain MLP */
  int experts_of_token;   /* those that each token goes to; 0: 2 */
  bool not_gated;         /* two matrices in the MLP; else three (SwiGLU) */
  bool learned_positions; /* else they are rotations */
  bool biases;            /* of all linear layers, and layer norms in place of RMS norms */
  bool tied;              /* the head's weights are the embedding's */
} phantora_transformer;

/* In which order the stages of a pipeline run their micro-batches. */
typedef enum phantora_schedule PHANTORA_ENUM {
  PHANTORA_1F1B = 0,
  PHANTORA_GPIPE = 1,
  PHANTORA_ZERO_BUBBLE = 2
} phantora_schedule;

/* What replicas share instead of having each its own. */
typedef enum phantora_sharding PHANTORA_ENUM {
  PHANTORA_SHARDING_OPTIMIZER = 0, /* ZeRO-1 */
  PHANTORA_SHARDING_NONE = 1,      /* all_reduce of gradients (DistributedDataParallel) */
  PHANTORA_SHARDING_GRADIENTS = 2, /* ZeRO-2 */
  PHANTORA_SHARDING_PARAMETERS = 3 /* ZeRO-3, FSDP */
} phantora_sharding;

/* What is computed a second time instead of being kept for the backward pass. */
typedef enum phantora_recompute PHANTORA_ENUM {
  PHANTORA_RECOMPUTE_NONE = 0,
  PHANTORA_RECOMPUTE_SELECTIVE = 1, /* norms and the MLP's activation function */
  PHANTORA_RECOMPUTE_FULL = 2       /* all of a layer but its input */
} phantora_recompute;

/* How keys and values get to the ranks that share a sequence. */
typedef enum phantora_exchange PHANTORA_ENUM {
  PHANTORA_EXCHANGE_RING = 0,
  PHANTORA_EXCHANGE_ALL_GATHER = 1
} phantora_exchange;

/* How a step is divided:
 * rank = ((stage * data + replica) * context + slice) * tensor + part. */
typedef struct phantora_parallelism {
  size_t struct_size;           /* sizeof the struct */
  int tensor;                   /* parts of each layer; 0: 1, as for the others */
  int pipeline;                 /* stages */
  int data;                     /* replicas */
  int batch;                    /* sequences of a step, of all replicas together */
  int micro_batch;              /* sequences of a replica that go through the stages at a time */
  int context;                  /* parts of each sequence; for weights they count as replicas */
  int expert;                   /* replicas that share the experts of a layer */
  int chunks;                   /* parts of the model that each stage has (interleaved schedules) */
  phantora_schedule schedule;   /* order of the pipeline's passes */
  phantora_sharding sharding;   /* what replicas share */
  phantora_recompute recompute; /* what is computed again */
  phantora_exchange exchange;   /* of keys and values, where context > 1 */
  int64_t bucket; /* bytes of gradients that are reduced at a time beside the backward pass of the
                     last micro-batch; 0: all of them after it */
  bool no_sequence_parallel; /* norms are not divided among the tensor group; else they are */
  bool gather_again;         /* what tensor groups gather is not kept for the backward pass */
  int recompute_every; /* of so many layers of a stage one, the last of them, is computed again */
  bool overlap_tensor; /* what tensor groups exchange passes beside products */
} phantora_parallelism;

/* Whose kernels compute attention. */
typedef enum phantora_attention_kernels {
  PHANTORA_ATTENTION_PYTORCH = 0, /* cuDNN's on compute capability 9 and 10, else the last */
  PHANTORA_ATTENTION_CUDNN = 1,
  PHANTORA_ATTENTION_FLASH_ATTENTION_2 = 2
} phantora_attention_kernels;

/* How numbers are kept, and what kernels pass over them. */
typedef struct phantora_recipe {
  size_t struct_size; /* sizeof the struct */
  double gradient;    /* bytes for each parameter; 0: 4 */
  double optimizer;   /* bytes for each parameter; 0: 12, negative: none */
  bool not_fused;     /* the passes that PyTorch makes without torch.compile */
  bool fp8;           /* products of layers take 8-bit floats with a scale for each tensor */
  phantora_attention_kernels attention; /* whose kernels compute it */
  bool norms_in_passes; /* RMS norms are passes in fp32, as Transformers', not kernels */
} phantora_recipe;

/* Training steps of a transformer, as phantora/simulation/transformer.hpp describes them.
 * recipe: NULL for the defaults. */
PHANTORA_API phantora_status phantora_workload_training_steps(
    const phantora_transformer* shape, const phantora_parallelism* parallelism, int steps,
    const phantora_recipe* recipe, phantora_workload** out);

/* ---- Simulations ---- */

/* A handle: a cluster that workloads run on. */
typedef struct phantora_simulation phantora_simulation;
/* A handle: what a run did. */
typedef struct phantora_report phantora_report;

/* What a simulation assumes besides its cluster. */
typedef struct phantora_simulation_options {
  size_t struct_size;      /* sizeof the struct */
  const char* const* nccl; /* NCCL's variables, "NCCL_ALGO=Ring"; ends with NULL; NULL: none */
  int64_t gpu_memory;      /* of every GPU; 0: as the cluster says */
} phantora_simulation_options;

/* cluster: as in `phantora run --cluster`: "h200:2x8", "h100:16x8/leaf_spine,oversubscription=2",
 *   or the path of a TOML file. options: NULL for the defaults. */
PHANTORA_API phantora_status phantora_simulation_create(const char* cluster,
                                                        const phantora_simulation_options* options,
                                                        phantora_simulation** out);
/* Ends the handle; its reports and jobs live on. */
PHANTORA_API void phantora_simulation_destroy(phantora_simulation** simulation);
/* Of the cluster. */
PHANTORA_API size_t phantora_simulation_gpu_count(const phantora_simulation* simulation);

/* Runs a workload alone. Thread-safe; equal workloads have equal reports, to the bit.
 * gpus: of each rank, distinct; NULL: the cluster's first ones. */
PHANTORA_API phantora_status phantora_simulation_run(const phantora_simulation* simulation,
                                                     const phantora_workload* workload,
                                                     const uint32_t* gpus, size_t gpu_count,
                                                     phantora_report** out);
/* A step of a workload that marks none, such as a record: the median over its ranks of the median
 * of each. Steps are found in the order of the kernels; 0: nothing repeats. marker: what ends a
 * step: a part of a kernel's name, or "optimizer"; NULL: the order tells. */
PHANTORA_API phantora_status phantora_simulation_step(const phantora_simulation* simulation,
                                                      const phantora_workload* workload,
                                                      const uint32_t* gpus, size_t gpu_count,
                                                      const char* marker, int64_t* out);
/* Runs each of `count` workloads alone, several at a time; fills reports[0 .. count).
 * threads: 0: as many as there are processors. */
PHANTORA_API phantora_status phantora_simulation_run_all(const phantora_simulation* simulation,
                                                         const phantora_workload* const* workloads,
                                                         size_t count, unsigned threads,
                                                         phantora_report** reports);

/* What a link carries. */
typedef struct phantora_link_load {
  size_t struct_size; /* sizeof the struct */
  uint32_t link;      /* phantora_simulation_link_name says which */
  int64_t bytes;      /* over all of the workload */
  int64_t time;       /* that the link's bandwidth takes for them */
} phantora_link_load;
/* What each link carries of a workload, most loaded for its bandwidth first. Fills loads[0 ..
 * capacity) as far as there are links with load, and tells how many those are. The caller sets
 * struct_size of the first element only; all have it. */
PHANTORA_API phantora_status phantora_simulation_link_loads(const phantora_simulation* simulation,
                                                            const phantora_workload* workload,
                                                            const uint32_t* gpus, size_t gpu_count,
                                                            phantora_link_load* loads,
                                                            size_t capacity, size_t* count);
/* The name of a link; to be released by phantora_free. */
PHANTORA_API phantora_status phantora_simulation_link_name(const phantora_simulation* simulation,
                                                           uint32_t link, char** out);

/* ---- Reports ---- */

/* A report's totals. */
typedef struct phantora_summary {
  size_t struct_size; /* sizeof the struct */
  int64_t start;      /* of the job */
  int64_t makespan;   /* from there to the end of the last rank */
  int64_t deviation;  /* one standard deviation of the makespan, by its kernels' */
  int64_t step;       /* median step without the first; the makespan where none is marked */
  /* These four are means over the ranks; their sum is the makespan. */
  int64_t computing;               /* kernels or copies ran */
  int64_t exposed;                 /* none did, and a communication moved data */
  int64_t waiting;                 /* neither, and a communication waited for other ranks */
  int64_t idle;                    /* nothing was on the GPU */
  int64_t peak_memory;             /* the greatest of a rank */
  size_t ranks, steps, path_parts; /* how many */
  bool fits;                       /* every GPU has as much memory */
} phantora_summary;
/* Fills the struct. */
PHANTORA_API phantora_status phantora_report_summary(const phantora_report* report,
                                                     phantora_summary* out);

/* What a rank did. Its computing, exposed, waiting and idle time add up to the makespan. */
typedef struct phantora_rank_report {
  size_t struct_size;       /* sizeof the struct */
  uint32_t gpu;             /* of the cluster */
  int64_t end;              /* when its host and all its streams have */
  int64_t computing;        /* kernels or copies ran */
  int64_t exposed;          /* communication moved data and no kernel ran */
  int64_t waiting;          /* a communication waited for other ranks */
  int64_t idle;             /* nothing was on the GPU */
  int64_t communicating;    /* a communication moved data, whatever else ran */
  int64_t kernel_time;      /* of all launches */
  int64_t kernel_deviation; /* one standard deviation of that */
  uint64_t kernels;         /* launches */
  int64_t peak_memory;      /* with what a process has before it allocates */
  int64_t memory;           /* of the GPU */
} phantora_rank_report;
/* Fills the struct. */
PHANTORA_API phantora_status phantora_report_rank(const phantora_report* report, uint32_t rank,
                                                  phantora_rank_report* out);
/* The ends of steps: `ends` has room for as many as the summary says. */
PHANTORA_API phantora_status phantora_report_steps(const phantora_report* report, int64_t* ends);

/* What a part of the critical path is. */
typedef enum phantora_path_kind PHANTORA_ENUM {
  PHANTORA_PATH_KERNEL = 0,
  PHANTORA_PATH_COMMUNICATION = 1,
  PHANTORA_PATH_HOST = 2,
  PHANTORA_PATH_LAUNCH = 3,
  PHANTORA_PATH_QUEUEING = 4
} phantora_path_kind;
/* Alike operations on the critical path. */
typedef struct phantora_path_part {
  size_t struct_size;      /* sizeof the struct */
  phantora_path_kind kind; /* what they are */
  const char* name;        /* the report's */
  uint64_t count;          /* how many */
  int64_t time;            /* how much they are of the makespan */
  int64_t link;            /* that would hold a communication if it were alone; -1: none */
} phantora_path_part;
/* What the makespan consists of, longest first. */
PHANTORA_API phantora_status phantora_report_path_part(const phantora_report* report, size_t part,
                                                       phantora_path_part* out);
/* All of it, as phantora_simulate_json gives it; to be released by phantora_free. */
PHANTORA_API phantora_status phantora_report_to_json(const phantora_report* report, char** out);
/* Ends the handle. */
PHANTORA_API void phantora_report_destroy(phantora_report** report);

/* ---- Jobs that share a cluster ---- */

/* A handle: jobs that come one after the other, and their clock. */
typedef struct phantora_jobs phantora_jobs;

/* None yet, at the instant 0. */
PHANTORA_API phantora_status phantora_jobs_create(const phantora_simulation* simulation,
                                                  phantora_jobs** out);
/* Ends the handle. */
PHANTORA_API void phantora_jobs_destroy(phantora_jobs** jobs);
/* A job begins now, or at `start` if that is later.
 * gpus: of each rank; no job that phantora_jobs_next has not told of may have one of them. */
PHANTORA_API phantora_status phantora_jobs_add(phantora_jobs* jobs,
                                               const phantora_workload* workload,
                                               const uint32_t* gpus, size_t gpu_count,
                                               int64_t start, uint32_t* job);
/* Goes on until a job ends, or until an instant (INT64_MAX: however long it takes).
 * ended: whether one did; job: which. */
PHANTORA_API phantora_status phantora_jobs_next(phantora_jobs* jobs, int64_t until, bool* ended,
                                                uint32_t* job);
/* The end of the job that phantora_jobs_next told of last, or the instant that it was to go to. */
PHANTORA_API int64_t phantora_jobs_now(const phantora_jobs* jobs);
/* What a job did that has ended: a report of the caller's. Times count from the simulation's start.
 */
PHANTORA_API phantora_status phantora_jobs_report(const phantora_jobs* jobs, uint32_t job,
                                                  phantora_report** out);
/* GPUs that no job has: fills gpus[0 .. capacity) and tells how many there are. */
PHANTORA_API phantora_status phantora_jobs_free_gpus(const phantora_jobs* jobs, uint32_t* gpus,
                                                     size_t capacity, size_t* count);

#ifdef __cplusplus
}
#endif

#endif
