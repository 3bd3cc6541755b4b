#include <phantora/error.hpp>
#include <phantora/simulation/pipeline.hpp>

#include <algorithm>
#include <deque>
#include <string>

namespace phantora {

std::string_view to_string(PipelineSchedule schedule) noexcept {
  switch (schedule) {
    case PipelineSchedule::gpipe:
      return "gpipe";
    case PipelineSchedule::one_forward_one_backward:
      return "1f1b";
    case PipelineSchedule::zero_bubble:
      return "zero_bubble";
  }
  return "unknown";
}

std::vector<PipelinePass> pipeline_order(const PipelineShape& shape, int stage) {
  const PipelineSchedule schedule = shape.schedule;
  const int stages = shape.stages, micro_batches = shape.micro_batches, chunks = shape.chunks;
  PHANTORA_EXPECTS(stages > 0 && micro_batches > 0 && chunks > 0,
                   "stages, micro_batches and chunks are positive, not " + std::to_string(stages) +
                       ", " + std::to_string(micro_batches) + ", " + std::to_string(chunks));
  PHANTORA_EXPECTS(stage >= 0 && stage < stages,
                   "stage " + std::to_string(stage) + " of " + std::to_string(stages) + " exists");
  PHANTORA_EXPECTS(chunks == 1 || micro_batches % stages == 0,
                   "with several chunks micro_batches, " + std::to_string(micro_batches) +
                       ", is a multiple of stages, " + std::to_string(stages));
  // Of the passes in one direction, the i-th: a round of `stages` micro-batches (all of them where
  // the model is not interleaved or breadth comes first) passes through one chunk after the other.
  const bool breadth_first = schedule == PipelineSchedule::gpipe || chunks == 1;
  const int round = breadth_first ? micro_batches : stages;
  const auto pass = [&](PipelinePass::Kind kind, int i) {
    const int chunk = i / round % chunks;
    return PipelinePass{kind, kind == PipelinePass::forward ? chunk : chunks - 1 - chunk,
                        i / (round * chunks) * round + i % round};
  };
  const int passes = micro_batches * chunks;
  const bool split = schedule == PipelineSchedule::zero_bubble;
  // A backward pass has to come from the stages behind before a stage can take turns. The forward
  // of Megatron's interleaved schedule runs ahead by one more for each of them, so that messages
  // have the time of a pass.
  const int behind = stages - 1 - stage;
  const int ahead = behind * (chunks > 1 && !split ? 2 : 1) + (chunks - 1) * stages;
  const int warm_up = schedule == PipelineSchedule::gpipe ? passes : std::min(passes, ahead);

  std::vector<PipelinePass> order;
  std::deque<PipelinePass> weights;  // whose turn has not come
  const auto backward = [&](int i) {
    order.push_back(pass(split ? PipelinePass::backward_input : PipelinePass::backward, i));
    if (split) weights.push_back(pass(PipelinePass::backward_weight, i));
  };
  const auto weight = [&] {
    if (weights.empty()) return;
    order.push_back(weights.front());
    weights.pop_front();
  };
  for (int i = 0; i < warm_up; ++i) order.push_back(pass(PipelinePass::forward, i));
  for (int i = warm_up; i < passes; ++i) {
    order.push_back(pass(PipelinePass::forward, i));
    backward(i - warm_up);
    // As many wait as stages lie before this one: then a stage holds no more activations than the
    // first of 1F1B.
    if (static_cast<int>(weights.size()) > stage) weight();
  }
  for (int i = passes - warm_up; i < passes; ++i) {
    backward(i);
    weight();
  }
  while (!weights.empty()) weight();
  return order;
}

}  // namespace phantora
