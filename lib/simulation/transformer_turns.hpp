#pragma once

#include "simulation/transformer_sizes.hpp"

#include <phantora/collectives/operation.hpp>
#include <phantora/simulation/pipeline.hpp>

#include <map>
#include <vector>

namespace phantora::detail::transformer {

/// The passes of a pipeline's stages.
///
/// An interleaved schedule goes in turns, of a pass each: what the passes of a turn made is sent
/// and received as one group, for which the next pass waits (torch.distributed.pipelining's
/// PipelineScheduleMulti; Megatron's send_forward_recv_forward and the like).
class Turns {
 public:
  explicit Turns(const Sizes& sizes);

  [[nodiscard]] const std::vector<PipelinePass>& order(int stage) const {
    return orders_[static_cast<std::size_t>(stage)];
  }
  /// The turn of each of these, where there are turns.
  [[nodiscard]] const std::vector<int>& turns(int stage) const {
    return turns_[static_cast<std::size_t>(stage)];
  }
  /// What a stage sends and receives at the ends of its turns; ranks are stages.
  [[nodiscard]] std::map<int, std::vector<SendRecv>> messages(int stage) const;

 private:
  void find_turns();

  const Sizes& z_;
  std::vector<std::vector<PipelinePass>> orders_{};  ///< by stage
  std::vector<std::vector<int>> turns_;              ///< of these
};

}  // namespace phantora::detail::transformer
