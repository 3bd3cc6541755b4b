#pragma once

#include <phantora/simulation/workload.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

/// Which operations of a workload's ranks belong together. Private to Simulation.
namespace phantora::detail {

/// "rank 3, operation 17 (launch of gemm)"
std::string named(const Workload& workload, Rank rank, std::size_t operation);

/// An operation of a rank.
struct Party {
  Rank rank = 0;
  std::uint32_t operation = 0;
};

/// Matches the ranks' calls: the n-th calls of a group's ranks are one collective, the n-th send
/// and receive between two ranks of a group one message.
class Meetings {
 public:
  /// @throws ConfigError if a group has ranks that the workload lacks, or what has to be the same
  ///   on several ranks is not, naming rank and operation.
  explicit Meetings(const Workload& workload);
  /// All operations that the collective or exchange of a rank waits for, its own too.
  [[nodiscard]] std::vector<Party> parties(Party party) const;

 private:
  void check_collectives() const;
  void match_messages();

  const Workload& workload_;
  /// Of collectives, by group and place in it: the operations in order.
  std::vector<std::vector<std::vector<std::uint32_t>>> calls_{};
  /// Of each operation: its place in that order, or in exchanges_.
  std::vector<std::vector<std::uint32_t>> ordinals_{};
  std::vector<std::vector<Party>> exchanges_{};
};

}  // namespace phantora::detail
