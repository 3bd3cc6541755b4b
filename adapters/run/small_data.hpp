#pragma once

#include "channel/collective_types.hpp"
#include "channel/partly_known.hpp"

#include <phantora/ids.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

/// The data of small collectives: operands are gathered from the ranks, combined as NCCL would, and
/// handed back. Knows nothing of time.
namespace phantora::run {

/// A process and its ticket for one operation.
struct Delivered {
  std::uint32_t process = 0;
  std::uint64_t ticket = 0;
  std::vector<std::byte> bytes{};  ///< a packed channel::PartlyKnown
};

class SmallData {
 public:
  struct Call {
    std::uint32_t process = 0;
    std::uint64_t ticket = 0;
    std::uint64_t communicator = 0;
    int rank = 0, ranks = 0;
    channel::Collective op{};
    channel::DataType type{};
    channel::Reduction reduction{};
    double premul = 1.0;
    int peer = 0;
    std::uint64_t count = 0;
  };

  /// One rank's call; its operand follows. Calls of a communicator match in order, as NCCL's do;
  /// `order` is this rank's number for the call (for sends and receives: among those of its pair).
  void call(const Call& call, std::uint64_t order);
  /// The operand of (process, ticket), a packed channel::PartlyKnown. Returns what can be delivered
  /// now.
  std::vector<Delivered> operand(std::uint32_t process, std::uint64_t ticket,
                                 std::span<const std::byte> bytes);

 private:
  struct Key {
    std::uint64_t communicator = 0;
    int from = -1, to = -1;  ///< of a message; -1 for collectives
    std::uint64_t order = 0;
    auto operator<=>(const Key&) const = default;
  };
  struct Operation {
    std::map<int, Call> calls;  ///< by rank
    std::map<int, channel::PartlyKnown> operands;
  };
  std::map<Key, Operation> operations_{};
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::pair<Key, int>> tickets_{};
};

/// Combines `operands` (by rank, of `count` elements each) element by element in rank order, in the
/// type's own arithmetic; 16-bit and 8-bit floats are accumulated in float, as NCCL's rings do
/// between two roundings. An element is known where it is in every operand.
channel::PartlyKnown reduce(std::span<const channel::PartlyKnown* const> operands,
                            channel::DataType type, channel::Reduction reduction, double premul);

}  // namespace phantora::run
