#include "c/handles.hpp"

#include <phantora/kernels/builtin_cost_model.hpp>
#include <phantora/simulation/traces.hpp>
#include <phantora/simulation/transformer_fields.hpp>
#include <phantora/simulation/widen.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

using namespace phantora;
using namespace phantora::bindings;

namespace {

Workload& of(phantora_workload* workload) { return expect(workload, "workload").workload; }
const Workload& of(const phantora_workload* workload) {
  return expect(workload, "workload").workload;
}
CollectiveOp operation(phantora_collective op) { return enumerator<CollectiveOp>(op, 8, "op"); }

void create_of_trace(TraceWorkload trace, phantora_workload** out, char** notes) {
  expect(out, "out");
  std::string text;
  for (const std::string& note : trace.notes) text += note + '\n';
  if (notes != nullptr) *notes = copy_of(text);
  create(out, std::move(trace.workload));
}
Workload::Event ours(phantora_event event) { return {event.rank, event.number}; }

/// A field of which zero means the default.
template <class T>
void set(T& field, T value) {
  if (value != T{}) field = value;
}

// The C structs say what is zero by default, and so cannot be taken from for_each_field(): who adds
// a field there is told to add it here too.
static_assert(field_count<TransformerShape>() == 13 && field_count<Parallelism>() == 17 &&
              field_count<TrainingRecipe>() == 6);

TransformerShape shape_of(const phantora_transformer& given) {
  TransformerShape shape;
  set(shape.layers, given.layers);
  set(shape.hidden, given.hidden);
  set(shape.heads, given.heads);
  set(shape.key_heads, given.key_heads);
  set(shape.mlp, given.mlp);
  set(shape.vocabulary, given.vocabulary);
  set(shape.sequence, given.sequence);
  shape.experts = given.experts;
  set(shape.experts_of_token, given.experts_of_token);
  shape.gated = !given.not_gated;
  shape.rotary = !given.learned_positions;
  shape.biases = given.biases;
  shape.tied = given.tied;
  return shape;
}

/// The C enums begin with the defaults, ours with what is least.
PipelineSchedule schedule_of(phantora_schedule schedule) {
  constexpr std::array schedules{PipelineSchedule::one_forward_one_backward,
                                 PipelineSchedule::gpipe, PipelineSchedule::zero_bubble};
  return schedules.at(enumerator<std::size_t>(schedule, schedules.size(), "schedule"));
}
Sharding sharding_of(phantora_sharding sharding) {
  constexpr std::array shardings{Sharding::optimizer, Sharding::none, Sharding::gradients,
                                 Sharding::parameters};
  return shardings.at(enumerator<std::size_t>(sharding, shardings.size(), "sharding"));
}

Parallelism division_of(const phantora_parallelism& given) {
  Parallelism way;
  set(way.tensor, given.tensor);
  set(way.pipeline, given.pipeline);
  set(way.data, given.data);
  set(way.batch, given.batch);
  set(way.micro_batch, given.micro_batch);
  set(way.context, given.context);
  set(way.expert, given.expert);
  set(way.chunks, given.chunks);
  way.schedule = schedule_of(given.schedule);
  way.sharding = sharding_of(given.sharding);
  way.recompute = enumerator<Recompute>(given.recompute, 3, "recompute");
  set(way.recompute_every, given.recompute_every);
  way.exchange = enumerator<ContextExchange>(given.exchange, 2, "exchange");
  way.bucket = Bytes{given.bucket};
  way.sequence_parallel = !given.no_sequence_parallel;
  way.keep_gathered = !given.gather_again;
  way.overlap_tensor = given.overlap_tensor;
  return way;
}

TrainingRecipe recipe_of(const phantora_recipe& given) {
  TrainingRecipe recipe;
  set(recipe.gradient, given.gradient);
  set(recipe.optimizer, given.optimizer);
  recipe.optimizer = std::max(recipe.optimizer, 0.0);
  recipe.fused = !given.not_fused;
  recipe.fp8 = given.fp8;
  recipe.fused_norms = !given.norms_in_passes;
  recipe.attention = enumerator<AttentionKernels>(given.attention, 3, "attention");
  return recipe;
}

}  // namespace

phantora_status phantora_workload_create(phantora_workload** out) {
  return call([&] { create(out, Workload{}); });
}
void phantora_workload_destroy(phantora_workload** workload) { destroy(workload); }

phantora_status phantora_workload_launch(phantora_workload* workload, uint32_t rank,
                                         const phantora_kernel* kernel, uint32_t stream) {
  return call([&] { of(workload).launch(rank, expect(kernel, "kernel").kernel, stream); });
}
phantora_status phantora_workload_collective(phantora_workload* workload, const uint32_t* group,
                                             size_t group_size, phantora_collective op,
                                             int64_t total, uint32_t stream, int root) {
  return call([&] {
    of(workload).collective(list(group, group_size, "group"), operation(op), Bytes{total}, stream,
                            root);
  });
}
phantora_status phantora_workload_collective_of(phantora_workload* workload, uint32_t rank,
                                                const uint32_t* group, size_t group_size,
                                                phantora_collective op, int64_t total,
                                                uint32_t stream, int root) {
  return call([&] {
    of(workload).collective(rank, list(group, group_size, "group"), operation(op), Bytes{total},
                            stream, root);
  });
}
phantora_status phantora_workload_send(phantora_workload* workload, uint32_t rank, uint32_t to,
                                       int64_t bytes, uint32_t stream) {
  return call([&] { of(workload).send(rank, to, Bytes{bytes}, stream); });
}
phantora_status phantora_workload_receive(phantora_workload* workload, uint32_t rank, uint32_t from,
                                          int64_t bytes, uint32_t stream) {
  return call([&] { of(workload).receive(rank, from, Bytes{bytes}, stream); });
}
phantora_status phantora_workload_record(phantora_workload* workload, uint32_t rank,
                                         uint32_t stream, phantora_event* out) {
  return call([&] {
    expect(out, "out");
    const Workload::Event event = of(workload).record(rank, stream);
    *out = {event.rank, event.number};
  });
}
phantora_status phantora_workload_wait(phantora_workload* workload, uint32_t rank,
                                       phantora_event event, uint32_t stream) {
  return call([&] { of(workload).wait(rank, ours(event), stream); });
}
phantora_status phantora_workload_host(phantora_workload* workload, uint32_t rank, int64_t time) {
  return call([&] { of(workload).host(rank, Duration{time}); });
}
phantora_status phantora_workload_synchronize(phantora_workload* workload, uint32_t rank) {
  return call([&] { of(workload).synchronize(rank); });
}
phantora_status phantora_workload_synchronize_event(phantora_workload* workload, uint32_t rank,
                                                    phantora_event event) {
  return call([&] { of(workload).synchronize(rank, ours(event)); });
}
phantora_status phantora_workload_allocate(phantora_workload* workload, uint32_t rank,
                                           int64_t bytes, const char* label, phantora_block* out) {
  return call([&] {
    expect(out, "out");
    const Workload::Block block =
        of(workload).allocate(rank, Bytes{bytes}, label == nullptr ? "" : label);
    *out = {block.rank, block.number};
  });
}
phantora_status phantora_workload_free(phantora_workload* workload, phantora_block block) {
  return call([&] { of(workload).free({block.rank, block.number}); });
}
phantora_status phantora_workload_end_step(phantora_workload* workload, uint32_t stream) {
  return call([&] { of(workload).end_step(stream); });
}

size_t phantora_workload_rank_count(const phantora_workload* workload) {
  return workload == nullptr ? 0 : workload->workload.rank_count();
}
size_t phantora_workload_operation_count(const phantora_workload* workload) {
  return workload == nullptr ? 0 : workload->workload.operation_count();
}
phantora_status phantora_workload_hash(const phantora_workload* workload, uint64_t* out) {
  return call([&] { expect(out, "out") = of(workload).hash(); });
}
phantora_status phantora_workload_to_json(const phantora_workload* workload, char** out) {
  return call([&] {
    expect(out, "out");
    *out = copy_of(of(workload).to_json());
  });
}
phantora_status phantora_workload_to_binary(const phantora_workload* workload, char** out,
                                            size_t* size) {
  return call([&] {
    expect(out, "out");
    expect(size, "size");
    const std::string bytes = of(workload).to_binary();
    *out = copy_of(bytes);
    *size = bytes.size();
  });
}
phantora_status phantora_workload_from_json(const char* text, phantora_workload** out) {
  return call([&] { create(out, Workload::from_json(&expect(text, "text"))); });
}
phantora_status phantora_workload_from_binary(const char* bytes, size_t size,
                                              phantora_workload** out) {
  return call([&] {
    const std::span<const char> given = list(bytes, size, "bytes");
    create(out, Workload::from_binary({given.data(), given.size()}));
  });
}
phantora_status phantora_workload_load(const char* path, phantora_workload** out) {
  return call([&] { create(out, Workload::load(&expect(path, "path"))); });
}
phantora_status phantora_workload_save(const phantora_workload* workload, const char* path) {
  return call([&] { of(workload).save(&expect(path, "path")); });
}

phantora_status phantora_workload_read_kineto(const char* const* paths, size_t count,
                                              phantora_workload** out, char** notes) {
  return call([&] {
    std::vector<std::string> files;
    for (const char* path : list(paths, count, "paths"))
      files.emplace_back(&expect(path, "a path"));
    create_of_trace(read_kineto(files), out, notes);
  });
}
phantora_status phantora_workload_read_chakra(const char* prefix, phantora_workload** out,
                                              char** notes) {
  return call([&] { create_of_trace(read_chakra(&expect(prefix, "prefix")), out, notes); });
}
phantora_status phantora_workload_write_chakra(const phantora_workload* workload, const char* gpu,
                                               const char* prefix) {
  return call([&] {
    write_chakra(of(workload), builtin_cost_model(gpu_model(&expect(gpu, "gpu"))),
                 &expect(prefix, "prefix"));
  });
}
phantora_status phantora_workload_widen(const phantora_workload* workload, uint32_t factor,
                                        uint32_t replica, const phantora_workload* narrower,
                                        phantora_workload** out) {
  return call([&] {
    create(out, narrower == nullptr ? widen(of(workload), factor, replica)
                                    : widen(of(workload), factor, replica, of(narrower)));
  });
}

phantora_status phantora_workload_training_steps(const phantora_transformer* shape,
                                                 const phantora_parallelism* parallelism, int steps,
                                                 const phantora_recipe* recipe,
                                                 phantora_workload** out) {
  return call([&] {
    create(out,
           training_steps(
               shape_of(read(shape, "shape")), division_of(read(parallelism, "parallelism")), steps,
               recipe == nullptr ? TrainingRecipe{} : recipe_of(read(recipe, "recipe"))));
  });
}
