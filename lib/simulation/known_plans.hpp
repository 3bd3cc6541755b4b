#pragma once

#include <phantora/collectives/communicator.hpp>
#include <phantora/network/network_view.hpp>

#include <memory>
#include <span>
#include <vector>

namespace phantora::detail {

/// How an operation runs, shared by all that are alike.
struct KnownPlan {
  CollectivePlan plan{};
  std::vector<Bandwidth> alone{};  ///< by flow: its rate where nothing else shares its links
};

/// The plans of a communicator's operations. A program calls few kinds of them, over and over: each
/// is planned once.
class KnownPlans {
 public:
  KnownPlans(Communicator communicator, NetworkView network)
      : communicator_{std::move(communicator)}, network_{std::move(network)} {}

  std::shared_ptr<const KnownPlan> of(std::span<const GroupedCollective> group);
  /// Of one message, as Communicator::plan.
  std::shared_ptr<const KnownPlan> of(const SendRecv& message, const RankMessages& sender,
                                      const RankMessages& receiver);
  /// Thread blocks that a message takes on each of its ranks.
  [[nodiscard]] int channels(const SendRecv& message) const {
    return communicator_.channels(message);
  }

 private:
  struct Group {
    std::vector<GroupedCollective> group;
    std::shared_ptr<const KnownPlan> known;
  };
  struct Message {
    SendRecv message;
    std::shared_ptr<const KnownPlan> known;
  };
  [[nodiscard]] std::shared_ptr<const KnownPlan> known(CollectivePlan plan) const;

  Communicator communicator_;
  NetworkView network_;
  // The latest, the last in front.
  std::vector<Group> groups_{};
  std::vector<Message> messages_{};
};

}  // namespace phantora::detail
