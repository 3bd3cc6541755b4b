#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

/// In which order the stages of a pipeline run their micro-batches.
namespace phantora {

/// Orders of a pipeline's passes.
enum class PipelineSchedule : std::uint8_t {
  gpipe,                     ///< all forward passes, then all backward passes
  one_forward_one_backward,  ///< 1F1B: in turn, once the stages behind have begun
  /// 1F1B whose backward passes are cut in two: what the stage before waits for comes at once, the
  /// gradients of the weights where a stage would wait (ZB-H1 of Qi et al., "Zero Bubble Pipeline
  /// Parallelism").
  zero_bubble,
};
/// The name as the enumeration has it: "gpipe".
std::string_view to_string(PipelineSchedule schedule) noexcept;

/// A pipeline.
struct PipelineShape {
  PipelineSchedule schedule = PipelineSchedule::one_forward_one_backward;  ///< the order
  int stages = 1;                                                          ///< of the pipeline
  int micro_batches = 1;                                                   ///< of a step
  /// Parts of the model that each stage has: with 2 of 4 stages, those numbered s and s + 4. More
  /// than one is the interleaved schedule (of gpipe: breadth first), in whose rounds each part sees
  /// as many micro-batches as there are stages.
  int chunks = 1;
};

/// What a stage does at a time.
struct PipelinePass {
  /// Which way.
  enum Kind : std::uint8_t {
    forward,
    backward,        ///< for the input and for the weights
    backward_input,  ///< with zero_bubble: for the stage before
    backward_weight,
  };
  Kind kind = forward;  ///< which way
  int chunk = 0;        ///< of the stage, from 0
  int micro_batch = 0;  ///< of the step, from 0
  bool operator==(const PipelinePass&) const = default;
};

/// The passes of one stage, in order. Orders as Megatron and torch.distributed.pipelining have
/// them.
/// @throws ArgumentError  if a number is not positive, `stage` is none, or there are several chunks
///   and micro_batches is no multiple of stages.
std::vector<PipelinePass> pipeline_order(const PipelineShape& shape, int stage);

}  // namespace phantora
