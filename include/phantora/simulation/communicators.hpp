#pragma once

#include <phantora/ids.hpp>
#include <phantora/simulation/observer.hpp>
#include <phantora/units.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

namespace phantora {

/// How ranks come to share a communicator, as NCCL has it: they join under a unique id that one of
/// them made, or split one that they share. One that shrinks or grows is joined too, under an id
/// that its ranks make up alike.
///
/// Who calls waits until all have called, and goes on at the clock of the last.
class Communicators {
 public:
  /// Has a communicator on these GPUs, one of each rank: Session::add_communicator, say.
  using Make = std::function<CommunicatorId(std::vector<GpuIndex> gpus)>;
  /// What ncclGetUniqueId() gives.
  using UniqueId = std::vector<std::byte>;

  /// A rank of a communicator.
  struct Member {
    ProcessIndex process = 0;  ///< that the rank belongs to
    GpuIndex gpu = 0;          ///< that the rank uses
  };
  /// Who asks, and when by its clock.
  struct Caller {
    ProcessIndex process = 0;  ///< of the thread
    std::uint32_t thread = 0;  ///< within its process
    Time clock{};              ///< of the thread
  };
  /// A caller that may go on, at its clock.
  struct Admitted {
    Caller caller{};                               ///< whose call may return
    std::optional<CommunicatorId> communicator{};  ///< none: it is in none
    int rank = 0, ranks = 0;                       ///< its own, of how many
  };
  /// A call that ranks are missing for.
  struct Pending {
    /// A member that has asked, and waits for others.
    struct Waiting {
      Caller caller{};  ///< whose call has not returned
      int rank = 0;     ///< that it asked to be
    };
    std::optional<CommunicatorId> splits{};  ///< none: ranks join under a unique id
    int ranks = 0;                           ///< that have to call
    std::vector<Waiting> waiting{};          ///< in the order in which they called
  };

  /// @param make  called when all members of a communicator have come.
  explicit Communicators(Make make) : make_{std::move(make)} {}

  /// ncclCommInitRank: the caller is rank `rank` of `ranks` under this id.
  /// @param maker  who made the id, if that is known: without it none can join (end_process).
  /// @return who may go on now.
  /// @throws Error if ranks do not agree on how many they are, two say that they are the same one,
  ///   or two are on one GPU.
  std::vector<Admitted> join(const UniqueId& id, std::optional<ProcessIndex> maker, int ranks,
                             int rank, GpuIndex gpu, const Caller& caller);
  /// ncclCommSplit: members that name a colour share a communicator, in the order of their keys and
  /// then of their ranks in the parent; those whose colour is negative are in none.
  /// @param rank  the caller's in the parent. Calls of a rank match those of others in order.
  std::vector<Admitted> split(CommunicatorId parent, int rank, std::int64_t color, std::int64_t key,
                              const Caller& caller);
  /// A communicator that nobody has to join: its members are known.
  /// @param members  by rank, on GPUs that are distinct.
  CommunicatorId add(std::vector<Member> members) { return make(std::move(members)); }
  /// One member has destroyed its own. @return whether all have now.
  bool leave(CommunicatorId communicator);
  /// A process has ended: it waits no more, and nobody waits under an id that it made.
  std::vector<Admitted> end_process(ProcessIndex process);

  /// By rank, also of those that have left.
  [[nodiscard]] const std::vector<Member>& members(CommunicatorId communicator) const;
  /// Joins first, then splits.
  [[nodiscard]] std::vector<Pending> pending() const;

 private:
  struct Joining {
    int rank = 0;
    GpuIndex gpu = 0;
    Caller caller{};
  };
  struct Join {
    std::optional<ProcessIndex> maker{};
    int ranks = 0;
    std::vector<Joining> waiting{};
  };
  struct Splitting {
    std::int64_t color = 0, key = 0;
    int rank = 0;
    Caller caller{};
  };
  struct Known {
    std::vector<Member> members{};
    std::size_t left = 0;
    std::vector<std::uint64_t> splits{};  ///< called so far, by rank
  };

  CommunicatorId make(std::vector<Member> members);

  Make make_;
  std::unordered_map<CommunicatorId, Known> known_{};
  std::map<UniqueId, Join> joins_{};
  std::map<std::pair<CommunicatorId, std::uint64_t>, std::vector<Splitting>> splits_{};
  std::set<ProcessIndex> ended_{};
};

}  // namespace phantora
