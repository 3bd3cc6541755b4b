#include "simulation/transformer_turns.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace phantora::detail::transformer {

Turns::Turns(const Sizes& sizes) : z_{sizes}, turns_(static_cast<std::size_t>(sizes.p.pipeline)) {
  const Parallelism& p = z_.p;
  const PipelineShape shape{p.schedule, p.pipeline, z_.micro_batches(), p.chunks};
  for (int stage = 0; stage < p.pipeline; ++stage) orders_.push_back(pipeline_order(shape, stage));
  if (p.chunks > 1) find_turns();
}

/// Each pass comes as soon as what it needs was made in a turn before.
void Turns::find_turns() {
  const int stages = z_.p.pipeline, parts = stages * z_.p.chunks;
  // torch.distributed.pipelining keeps the rhythm of 1F1B when no forward pass is left.
  const bool rhythm = !z_.r.fused && z_.p.schedule == PipelineSchedule::one_forward_one_backward;
  std::map<std::tuple<bool, int, int>, int> made;  // forward, part of the model, micro-batch
  for (bool any = true; std::exchange(any, false);) {
    for (int stage = 0; stage < stages; ++stage) {
      const std::vector<PipelinePass>& order = orders_[static_cast<std::size_t>(stage)];
      std::vector<int>& mine = turns_[static_cast<std::size_t>(stage)];
      while (mine.size() < order.size()) {
        const PipelinePass& pass = order[mine.size()];
        const bool forward = pass.kind == PipelinePass::forward;
        const int part = pass.chunk * stages + stage;
        int turn = mine.empty() ? 0 : mine.back() + 1;
        if (rhythm && !forward && order[mine.size() - 1].kind != PipelinePass::forward) ++turn;
        if (pass.kind != PipelinePass::backward_weight) {
          if (part != (forward ? 0 : parts - 1)) {
            const auto needed =
                made.find({forward, forward ? part - 1 : part + 1, pass.micro_batch});
            if (needed == made.end()) break;
            turn = std::max(turn, needed->second + 1);
          }
          made[{forward, part, pass.micro_batch}] = turn;
        }
        mine.push_back(turn);
        any = true;
      }
    }
  }
}

std::map<int, std::vector<SendRecv>> Turns::messages(int stage) const {
  const int stages = z_.p.pipeline, parts = stages * z_.p.chunks;
  std::map<int, std::vector<SendRecv>> messages;
  for (int from = 0; from < stages; ++from) {
    for (std::size_t i = 0; i < order(from).size(); ++i) {
      const PipelinePass& pass = order(from)[i];
      if (pass.kind == PipelinePass::backward_weight) continue;
      const bool forward = pass.kind == PipelinePass::forward;
      if (pass.chunk * stages + from == (forward ? parts - 1 : 0)) continue;
      const int to = (from + (forward ? 1 : stages - 1)) % stages;
      if (from == stage || to == stage)
        messages[turns(from)[i]].push_back({from, to, bytes(z_.hidden_state_part())});
    }
  }
  return messages;
}

}  // namespace phantora::detail::transformer
