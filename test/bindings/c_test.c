/* The C interface from C11: what it computes is what the C++ library does, and what it refuses. */
#include <phantora.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;
#define CHECK(condition)                                                          \
  do {                                                                            \
    if (!(condition)) {                                                           \
      ++failures;                                                                 \
      fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #condition, \
              phantora_last_error());                                             \
    }                                                                             \
  } while (0)
#define OK(call) CHECK((call) == PHANTORA_OK)
#define FAILS(status, text, call)                         \
  do {                                                    \
    CHECK((call) == (status));                            \
    CHECK(strstr(phantora_last_error(), (text)) != NULL); \
  } while (0)

static const int64_t ms = 1000000000;

/* Two ranks that compute for a millisecond, then reduce. */
static phantora_workload* two_ranks(void) {
  phantora_workload* workload = NULL;
  phantora_kernel* kernel = NULL;
  OK(phantora_workload_create(&workload));
  OK(phantora_kernel_known_time("work", ms, PHANTORA_LIMIT_MEMORY, &kernel));
  for (uint32_t rank = 0; rank < 2; ++rank) OK(phantora_workload_launch(workload, rank, kernel, 0));
  const uint32_t group[] = {0, 1};
  OK(phantora_workload_collective(workload, group, 2, PHANTORA_ALL_REDUCE, 1 << 20, 0, 0));
  OK(phantora_workload_end_step(workload, 0));
  phantora_kernel_destroy(&kernel);
  CHECK(kernel == NULL);
  return workload;
}

static void kernels_have_costs(void) {
  phantora_kernel* kernel = NULL;
  const phantora_gemm shape = {.struct_size = sizeof shape, .m = 8192, .n = 8192, .k = 8192};
  OK(phantora_kernel_gemm(&shape, &kernel));
  phantora_cost cost = {.struct_size = sizeof cost};
  OK(phantora_kernel_cost(kernel, "h200", &cost));
  CHECK(cost.duration > ms && cost.duration < 2 * ms); /* 1.1 PFLOP at 500 to 1000 TFLOP/s */
  CHECK(cost.struct_size == sizeof cost);
  FAILS(PHANTORA_BAD_CONFIG, "h200", phantora_kernel_cost(kernel, "tpu", &cost));
  phantora_kernel_destroy(&kernel);

  const phantora_attention attention = {
      .struct_size = sizeof attention, .heads = 32, .queries = 4096, .depth = 128};
  for (int pass = 0; pass < 2; ++pass) {
    OK(phantora_kernel_attention(&attention, (phantora_pass)pass, &kernel));
    OK(phantora_kernel_cost(kernel, "h100", &cost));
    phantora_kernel_destroy(&kernel);
  }
  FAILS(PHANTORA_INVALID_ARGUMENT, "pass",
        phantora_kernel_attention(&attention, PHANTORA_BACKWARD_WEIGHT, &kernel));
  for (int pass = 0; pass < 3; ++pass) {
    OK(phantora_kernel_linear(4096, 4096, 4096, PHANTORA_BF16, (phantora_pass)pass, &kernel));
    phantora_kernel_destroy(&kernel);
    OK(phantora_kernel_layer_norm(4096, 4096, PHANTORA_FP32, (phantora_pass)pass, &kernel));
    phantora_kernel_destroy(&kernel);
    OK(phantora_kernel_rms_norm(4096, 4096, PHANTORA_BF16, (phantora_pass)pass, &kernel));
    phantora_kernel_destroy(&kernel);
  }
  OK(phantora_kernel_softmax(4096, 4096, PHANTORA_FP32, PHANTORA_BACKWARD_INPUT, &kernel));
  phantora_kernel_destroy(&kernel);
  FAILS(PHANTORA_INVALID_ARGUMENT, "pass",
        phantora_kernel_softmax(4096, 4096, PHANTORA_FP32, PHANTORA_BACKWARD_WEIGHT, &kernel));
  OK(phantora_kernel_elementwise(1 << 20, 2, PHANTORA_BF16, &kernel));
  phantora_kernel_destroy(&kernel);
  OK(phantora_kernel_embedding(4096, 4096, PHANTORA_BF16, &kernel));
  phantora_kernel_destroy(&kernel);
  OK(phantora_kernel_adam(1 << 20, PHANTORA_FP32, &kernel));
  phantora_kernel_destroy(&kernel);
  OK(phantora_kernel_copy(1 << 20, &kernel));
  phantora_kernel_destroy(&kernel);
  OK(phantora_kernel_custom("mine", 1e9, 1e12, PHANTORA_ARITHMETIC_HALF, &kernel));
  phantora_kernel_destroy(&kernel);
  phantora_kernel_destroy(&kernel); /* NULL: nothing */
  phantora_kernel_destroy(NULL);

  FAILS(PHANTORA_INVALID_ARGUMENT, "", phantora_kernel_copy(-1, &kernel));
  FAILS(PHANTORA_INVALID_ARGUMENT, "type", phantora_kernel_adam(1, (phantora_element)6, &kernel));
  CHECK(kernel == NULL);
}

static void reports_add_up(void) {
  phantora_simulation* simulation = NULL;
  OK(phantora_simulation_create("h200:1x2", NULL, &simulation));
  CHECK(phantora_simulation_gpu_count(simulation) == 2);
  phantora_workload* workload = two_ranks();
  CHECK(phantora_workload_rank_count(workload) == 2);
  CHECK(phantora_workload_operation_count(workload) == 6);

  phantora_report* report = NULL;
  OK(phantora_simulation_run(simulation, workload, NULL, 0, &report));
  phantora_summary all = {.struct_size = sizeof all};
  OK(phantora_report_summary(report, &all));
  CHECK(all.computing == ms && all.makespan > ms && all.ranks == 2 && all.steps == 1 && all.fits);
  CHECK(all.computing + all.exposed + all.waiting + all.idle == all.makespan);
  phantora_rank_report rank = {.struct_size = sizeof rank};
  OK(phantora_report_rank(report, 1, &rank));
  CHECK(rank.gpu == 1 && rank.kernels == 1 && rank.kernel_time == ms && rank.memory > 0);
  CHECK(rank.communicating > 0);
  FAILS(PHANTORA_INVALID_ARGUMENT, "rank 2", phantora_report_rank(report, 2, &rank));
  int64_t end = 0;
  OK(phantora_report_steps(report, &end));
  CHECK(end == all.makespan);
  int64_t path = 0;
  for (size_t i = 0; i < all.path_parts; ++i) {
    phantora_path_part part = {.struct_size = sizeof part};
    OK(phantora_report_path_part(report, i, &part));
    if (i == 0) CHECK(strcmp(part.name, "work") == 0 && part.kind == PHANTORA_PATH_KERNEL);
    path += part.time;
  }
  CHECK(path == all.makespan);

  /* The same on other GPUs, by run_all, and from what it is written down as. */
  const uint32_t gpus[] = {1, 0};
  phantora_report* other = NULL;
  OK(phantora_simulation_run(simulation, workload, gpus, 2, &other));
  OK(phantora_report_rank(other, 1, &rank));
  CHECK(rank.gpu == 0);
  phantora_report_destroy(&other);
  char* bytes = NULL;
  size_t size = 0;
  char* json = NULL;
  phantora_workload* copies[2] = {NULL, NULL};
  OK(phantora_workload_to_binary(workload, &bytes, &size));
  OK(phantora_workload_from_binary(bytes, size, &copies[0]));
  OK(phantora_workload_to_json(workload, &json));
  OK(phantora_workload_from_json(json, &copies[1]));
  FAILS(PHANTORA_BAD_CONFIG, "byte", phantora_workload_from_binary(bytes, size / 2, &copies[0]));
  phantora_free(bytes);
  phantora_free(json);
  phantora_free(NULL);
  phantora_report* reports[2] = {NULL, NULL};
  OK(phantora_simulation_run_all(simulation, (const phantora_workload* const*)copies, 2, 1,
                                 reports));
  for (int i = 0; i < 2; ++i) {
    uint64_t ours = 0, theirs = 1;
    OK(phantora_workload_hash(workload, &ours));
    OK(phantora_workload_hash(copies[i], &theirs));
    CHECK(ours == theirs);
    phantora_summary same = {.struct_size = sizeof same};
    OK(phantora_report_summary(reports[i], &same));
    CHECK(same.makespan == all.makespan);
    phantora_report_destroy(&reports[i]);
    phantora_workload_destroy(&copies[i]);
  }

  phantora_link_load loads[2] = {{.struct_size = sizeof loads[0]}};
  size_t count = 0;
  OK(phantora_simulation_link_loads(simulation, workload, NULL, 0, loads, 2, &count));
  CHECK(count >= 2 && loads[1].bytes > 0 && loads[0].time >= loads[1].time);
  char* name = NULL;
  OK(phantora_simulation_link_name(simulation, loads[0].link, &name));
  CHECK(strstr(name, "->") != NULL);
  phantora_free(name);

  phantora_report_destroy(&report);
  phantora_workload_destroy(&workload);
  phantora_simulation_destroy(&simulation);
  CHECK(report == NULL && workload == NULL && simulation == NULL);
}

static void streams_hosts_and_memory(void) {
  phantora_simulation* simulation = NULL;
  const char* const nccl[] = {"NCCL_ALGO=Ring", NULL};
  const phantora_simulation_options options = {
      .struct_size = sizeof options, .nccl = nccl, .gpu_memory = 1 << 30};
  OK(phantora_simulation_create("h100:1x2", &options, &simulation));
  phantora_workload* workload = two_ranks();
  phantora_event event;
  OK(phantora_workload_record(workload, 0, 0, &event));
  OK(phantora_workload_wait(workload, 0, event, 1));
  OK(phantora_workload_send(workload, 0, 1, 1 << 20, 1));
  OK(phantora_workload_receive(workload, 1, 0, 1 << 20, 1));
  OK(phantora_workload_synchronize_event(workload, 0, event));
  OK(phantora_workload_synchronize(workload, 1));
  OK(phantora_workload_host(workload, 1, 5 * ms));
  phantora_block block;
  OK(phantora_workload_allocate(workload, 0, (int64_t)2 << 30, "weights", &block));
  OK(phantora_workload_free(workload, block));
  FAILS(PHANTORA_INVALID_ARGUMENT, "freed", phantora_workload_free(workload, block));
  phantora_report* report = NULL;
  OK(phantora_simulation_run(simulation, workload, NULL, 0, &report));
  phantora_summary all = {.struct_size = sizeof all};
  OK(phantora_report_summary(report, &all));
  CHECK(!all.fits && all.peak_memory > (int64_t)2 << 30 && all.makespan > 6 * ms);
  phantora_report_destroy(&report);

  const uint32_t group[] = {0, 1};
  OK(phantora_workload_collective_of(workload, 0, group, 2, PHANTORA_BROADCAST, 8, 0, 1));
  FAILS(PHANTORA_BAD_CONFIG, "rank 0, operation 9",
        phantora_simulation_run(simulation, workload, NULL, 0, &report));
  CHECK(report == NULL);
  phantora_workload_destroy(&workload);
  phantora_simulation_destroy(&simulation);
}

/* Whether a shape, a division and a recipe are another workload than `step`. */
static bool differs(const phantora_workload* step, const phantora_transformer* shape,
                    const phantora_parallelism* way, const phantora_recipe* recipe) {
  uint64_t one = 0, other = 0;
  phantora_workload* changed = NULL;
  OK(phantora_workload_training_steps(shape, way, 1, recipe, &changed));
  OK(phantora_workload_hash(step, &one));
  OK(phantora_workload_hash(changed, &other));
  phantora_workload_destroy(&changed);
  return one != other;
}

/* Zero is the default that phantora.h says, and every field is heard. */
static void fields_of_transformers(void) {
  const phantora_transformer shape = {
      .struct_size = sizeof shape, .layers = 4, .hidden = 1024, .heads = 8, .mlp = 4096};
  const phantora_parallelism way = {
      .struct_size = sizeof way, .tensor = 2, .pipeline = 2, .data = 2, .batch = 8};
  const phantora_recipe recipe = {.struct_size = sizeof recipe};
  phantora_workload* step = NULL;
  OK(phantora_workload_training_steps(&shape, &way, 1, NULL, &step));

#define CHANGED_SHAPE(field, value)                \
  do {                                             \
    phantora_transformer changed = shape;          \
    changed.field = value;                         \
    CHECK(differs(step, &changed, &way, &recipe)); \
  } while (0)
#define WAY(field, value, expected)                           \
  do {                                                        \
    phantora_parallelism changed = way;                       \
    changed.field = value;                                    \
    CHECK(differs(step, &shape, &changed, NULL) == expected); \
  } while (0)
#define CHANGED_RECIPE(field, value)              \
  do {                                            \
    phantora_recipe changed = recipe;             \
    changed.field = value;                        \
    CHECK(differs(step, &shape, &way, &changed)); \
  } while (0)
  CHANGED_SHAPE(experts, 4);
  CHANGED_SHAPE(not_gated, true);
  CHANGED_SHAPE(biases, true);
  CHANGED_SHAPE(learned_positions, true);
  WAY(context, 1, false);
  WAY(context, 2, true);
  WAY(chunks, 2, true);
  WAY(schedule, PHANTORA_1F1B, false);
  WAY(schedule, PHANTORA_GPIPE, true);
  WAY(schedule, PHANTORA_ZERO_BUBBLE, true);
  WAY(sharding, PHANTORA_SHARDING_OPTIMIZER, false);
  WAY(sharding, PHANTORA_SHARDING_NONE, true);
  WAY(sharding, PHANTORA_SHARDING_GRADIENTS, true);
  WAY(sharding, PHANTORA_SHARDING_PARAMETERS, true);
  WAY(recompute, PHANTORA_RECOMPUTE_SELECTIVE, true);
  WAY(recompute, PHANTORA_RECOMPUTE_FULL, true);
  WAY(recompute_every, 1, false);
  WAY(bucket, 1 << 20, true);
  WAY(no_sequence_parallel, true, true);
  WAY(gather_again, true, true);
  WAY(overlap_tensor, true, true);
  CHANGED_RECIPE(gradient, 2);
  CHANGED_RECIPE(optimizer, 6);
  CHANGED_RECIPE(optimizer, -1);
  CHANGED_RECIPE(not_fused, true);
  CHANGED_RECIPE(fp8, true);
  CHANGED_RECIPE(attention, PHANTORA_ATTENTION_CUDNN);
  CHANGED_RECIPE(attention, PHANTORA_ATTENTION_FLASH_ATTENTION_2);
  CHANGED_RECIPE(norms_in_passes, true);
  CHECK(!differs(step, &shape, &way, &recipe));

  phantora_transformer experts = shape;
  experts.experts = 4;
  phantora_workload* base = NULL;
  OK(phantora_workload_training_steps(&experts, &way, 1, NULL, &base));
  experts.experts_of_token = 2;
  CHECK(!differs(base, &experts, &way, NULL));
  experts.experts_of_token = 1;
  CHECK(differs(base, &experts, &way, NULL));
  phantora_parallelism other = way;
  other.expert = 2;
  experts.experts_of_token = 2;
  CHECK(differs(base, &experts, &other, NULL));
  phantora_workload_destroy(&base);

  /* Stages have a table each, so that only one that is first and last gains. */
  phantora_transformer tied = shape;
  other = way;
  other.pipeline = 1;
  OK(phantora_workload_training_steps(&tied, &other, 1, NULL, &base));
  tied.tied = true;
  CHECK(differs(base, &tied, &other, NULL));
  phantora_workload_destroy(&base);

  phantora_parallelism slices = way;
  slices.context = 2;
  OK(phantora_workload_training_steps(&shape, &slices, 1, NULL, &base));
  slices.exchange = PHANTORA_EXCHANGE_ALL_GATHER;
  CHECK(differs(base, &shape, &slices, NULL));
  phantora_workload_destroy(&base);

  other = way;
  other.sharding = (phantora_sharding)4;
  FAILS(PHANTORA_INVALID_ARGUMENT, "sharding is 4",
        phantora_workload_training_steps(&shape, &other, 1, NULL, &base));
  phantora_workload_destroy(&step);
}

static void transformers_and_jobs(void) {
  phantora_simulation* simulation = NULL;
  OK(phantora_simulation_create("h200:2x8", NULL, &simulation));
  const phantora_transformer shape = {
      .struct_size = sizeof shape, .layers = 2, .hidden = 1024, .heads = 8, .mlp = 4096};
  const phantora_parallelism way = {.struct_size = sizeof way, .tensor = 2, .data = 4, .batch = 8};
  phantora_workload* step = NULL;
  OK(phantora_workload_training_steps(&shape, &way, 1, NULL, &step));
  CHECK(phantora_workload_rank_count(step) == 8);
  phantora_jobs* jobs = NULL;
  OK(phantora_jobs_create(simulation, &jobs));
  uint32_t gpus[16], first = 0, second = 0, ended = 0;
  size_t free_gpus = 0;
  OK(phantora_jobs_free_gpus(jobs, gpus, 16, &free_gpus));
  CHECK(free_gpus == 16 && gpus[15] == 15);
  OK(phantora_jobs_add(jobs, step, gpus, 8, 0, &first));
  FAILS(PHANTORA_INVALID_ARGUMENT, "GPU 0", phantora_jobs_add(jobs, step, gpus, 8, 0, &second));
  OK(phantora_jobs_add(jobs, step, gpus + 8, 8, ms, &second));
  bool any = true;
  OK(phantora_jobs_next(jobs, 2, &any, &ended));
  CHECK(!any && phantora_jobs_now(jobs) == 2);
  OK(phantora_jobs_next(jobs, INT64_MAX, &any, &ended));
  CHECK(any && ended == first);
  phantora_report* report = NULL;
  OK(phantora_jobs_report(jobs, first, &report));
  FAILS(PHANTORA_INVALID_ARGUMENT, "", phantora_jobs_report(jobs, second, &report));
  phantora_summary all = {.struct_size = sizeof all};
  OK(phantora_report_summary(report, &all));
  CHECK(all.start == 0 && all.makespan == phantora_jobs_now(jobs));
  phantora_report_destroy(&report);
  OK(phantora_jobs_next(jobs, INT64_MAX, &any, &ended));
  CHECK(any && ended == second && phantora_jobs_now(jobs) == all.makespan + ms);
  phantora_jobs_destroy(&jobs);
  phantora_workload_destroy(&step);
  phantora_simulation_destroy(&simulation);
}

static void json_in_one_call(void) {
  char* json = NULL;
  OK(
      phantora_simulate_json("{\"cluster\": \"h200:1x8\", \"link_loads\": true, \"transformer\":"
                             " {\"layers\": 2, \"hidden\": 1024, \"heads\": 8, \"mlp\": 4096,"
                             " \"tensor\": 8, \"batch\": 1}}",
                             &json));
  CHECK(strstr(json, "\"makespan_ps\":") != NULL && strstr(json, "\"link_loads\":[{") != NULL);
  phantora_free(json);
  json = NULL;
  FAILS(PHANTORA_BAD_CONFIG, "request", phantora_simulate_json("{", &json));
  FAILS(PHANTORA_BAD_CONFIG, "speed", phantora_simulate_json("{\"speed\": 1}", &json));
  FAILS(PHANTORA_BAD_CONFIG, "transformer.schedule: expected one of gpipe, 1f1b, zero_bubble",
        phantora_simulate_json(
            "{\"cluster\": \"h200:1x8\", \"transformer\": {\"schedule\": \"2f\"}}", &json));
  FAILS(PHANTORA_BAD_CONFIG, "transformer.fused: expected true or false",
        phantora_simulate_json("{\"cluster\": \"h200:1x8\", \"transformer\": {\"fused\": 1}}",
                               &json));
  FAILS(PHANTORA_BAD_CONFIG, "transformer.bucket: expected bytes",
        phantora_simulate_json("{\"cluster\": \"h200:1x8\", \"transformer\": {\"bucket\": -1}}",
                               &json));
  FAILS(PHANTORA_BAD_CONFIG, "transformer.layers",
        phantora_simulate_json("{\"cluster\": \"h200:1x8\", \"transformer\": {\"layers\": 1.5}}",
                               &json));
  FAILS(PHANTORA_BAD_CONFIG, "workload",
        phantora_simulate_json("{\"cluster\": \"h200:1x8\"}", &json));
  CHECK(json == NULL);
}

/* More replicas, traces, and steps that nobody marked. */
static phantora_workload* sharded(uint32_t replicas) {
  phantora_workload* workload = NULL;
  OK(phantora_workload_create(&workload));
  uint32_t all[8] = {0};
  for (uint32_t rank = 0; rank < replicas; ++rank) all[rank] = rank;
  for (int step = 0; step < 6; ++step) {
    for (uint32_t rank = 0; rank < replicas; ++rank) {
      phantora_kernel *layer = NULL, *update = NULL;
      OK(phantora_kernel_known_time("layer", ms, PHANTORA_LIMIT_MEMORY, &layer));
      OK(phantora_workload_launch(workload, rank, layer, 0));
      phantora_kernel_destroy(&layer);
      OK(phantora_kernel_custom("update", 1e9 / replicas, 0, PHANTORA_ARITHMETIC_NONE, &update));
      OK(phantora_workload_launch(workload, rank, update, 0));
      phantora_kernel_destroy(&update);
    }
    OK(phantora_workload_collective(workload, all, replicas, PHANTORA_ALL_GATHER, 1 << 30, 0, 0));
  }
  return workload;
}
static void replicas_traces_and_steps(const char* folder) {
  phantora_workload *two = sharded(2), *four = sharded(4), *eight = sharded(8), *wide = NULL;
  uint64_t live = 0, widened = 0;
  OK(phantora_workload_hash(eight, &live));
  OK(phantora_workload_widen(four, 2, 1, two, &wide));
  OK(phantora_workload_hash(wide, &widened));
  CHECK(live == widened);
  phantora_workload_destroy(&wide);
  OK(phantora_workload_widen(four, 2, 1, NULL, &wide));
  OK(phantora_workload_hash(wide, &widened));
  CHECK(live != widened);
  phantora_workload_destroy(&wide);
  FAILS(PHANTORA_INVALID_ARGUMENT, "replicas", phantora_workload_widen(four, 2, 3, NULL, &wide));
  FAILS(PHANTORA_INVALID_ARGUMENT, "narrower", phantora_workload_widen(four, 2, 1, eight, &wide));

  phantora_simulation* simulation = NULL;
  OK(phantora_simulation_create("h200:1x8", NULL, &simulation));
  int64_t step = 0, update = 0;
  OK(phantora_simulation_step(simulation, four, NULL, 0, NULL, &step));
  OK(phantora_simulation_step(simulation, four, NULL, 0, "update", &update));
  CHECK(step > 0 && update == step);
  OK(phantora_simulation_step(simulation, four, NULL, 0, "nothing", &update));
  CHECK(update == 0);

  char prefix[4096], path[4200];
  snprintf(prefix, sizeof prefix, "%s/c_test_trace", folder);
  snprintf(path, sizeof path, "%s.0.et", prefix);
  OK(phantora_workload_write_chakra(two, "h200", prefix));
  char* notes = NULL;
  phantora_workload* read = NULL;
  OK(phantora_workload_read_chakra(prefix, &read, &notes));
  CHECK(phantora_workload_rank_count(read) == 2 && notes != NULL);
  phantora_free(notes);
  phantora_workload_destroy(&read);
  FAILS(PHANTORA_BAD_CONFIG, "/nowhere", phantora_workload_read_chakra("/nowhere", &read, NULL));
  const char* const profiles[] = {path};
  FAILS(PHANTORA_BAD_CONFIG, path, phantora_workload_read_kineto(profiles, 1, &read, NULL));
  CHECK(read == NULL);
  phantora_simulation_destroy(&simulation);
  phantora_workload_destroy(&two);
  phantora_workload_destroy(&four);
  phantora_workload_destroy(&eight);
}

/* Programs of another version: a shorter struct, a longer one, and one that asks for more. */
static void structs_of_other_versions(void) {
  phantora_kernel* kernel = NULL;
  struct {
    phantora_gemm known;
    int64_t unknown;
  } newer = {.known = {.struct_size = sizeof newer, .m = 64, .n = 64, .k = 64}};
  OK(phantora_kernel_gemm(&newer.known, &kernel));
  newer.unknown = 1;
  phantora_kernel* refused = NULL;
  FAILS(PHANTORA_INVALID_ARGUMENT, "newer", phantora_kernel_gemm(&newer.known, &refused));
  phantora_gemm older = {
      .struct_size = offsetof(phantora_gemm, batch), .m = 64, .n = 64, .k = 64, .batch = -1};
  phantora_kernel_destroy(&kernel);
  OK(phantora_kernel_gemm(&older, &kernel));
  older.struct_size = 0;
  FAILS(PHANTORA_INVALID_ARGUMENT, "struct_size", phantora_kernel_gemm(&older, &refused));
  FAILS(PHANTORA_INVALID_ARGUMENT, "NULL", phantora_kernel_gemm(NULL, &refused));
  newer.unknown = 0;
  FAILS(PHANTORA_INVALID_ARGUMENT, "NULL", phantora_kernel_gemm(&newer.known, NULL));
  phantora_cost cost = {.struct_size = offsetof(phantora_cost, deviation), .deviation = -7};
  OK(phantora_kernel_cost(kernel, "h200", &cost));
  CHECK(cost.duration > 0 && cost.deviation == -7);
  phantora_kernel_destroy(&kernel);
}

static void refuses(void) {
  phantora_simulation* simulation = NULL;
  FAILS(PHANTORA_BAD_CONFIG, "h200", phantora_simulation_create("h9000:1x2", NULL, &simulation));
  const char* const bad[] = {"NCCL_ALGO", NULL};
  const phantora_simulation_options options = {.struct_size = sizeof options, .nccl = bad};
  FAILS(PHANTORA_INVALID_ARGUMENT, "NCCL_ALGO",
        phantora_simulation_create("h200:1x2", &options, &simulation));
  CHECK(simulation == NULL);
  phantora_workload* workload = NULL;
  FAILS(PHANTORA_BAD_CONFIG, "/nowhere", phantora_workload_load("/nowhere", &workload));
  OK(phantora_workload_create(&workload));
  FAILS(PHANTORA_INVALID_ARGUMENT, "op",
        phantora_workload_collective(workload, NULL, 0, (phantora_collective)99, 8, 0, 0));
  FAILS(PHANTORA_INVALID_ARGUMENT, "group",
        phantora_workload_collective(workload, NULL, 2, PHANTORA_ALL_REDUCE, 8, 0, 0));
  FAILS(PHANTORA_FAILED, "/nowhere", phantora_workload_save(workload, "/nowhere/job.json"));
  CHECK(phantora_workload_rank_count(workload) == 0);
  phantora_workload_destroy(&workload);
}

int main(int argc, char** argv) {
  CHECK(strcmp(phantora_version(), PHANTORA_TEST_VERSION) == 0);
  CHECK(phantora_last_error()[0] == '\0');
  kernels_have_costs();
  reports_add_up();
  streams_hosts_and_memory();
  fields_of_transformers();
  transformers_and_jobs();
  json_in_one_call();
  replicas_traces_and_steps(argc > 1 ? argv[1] : ".");
  structs_of_other_versions();
  refuses();
  if (failures == 0) puts("the C interface is as phantora.h says");
  return failures != 0;
}
