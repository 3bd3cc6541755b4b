#include "simulation/complete_part.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

namespace phantora::detail {
namespace {

/// How often a rank has called the collectives of a group, or sent or received between two ranks.
struct Called {
  std::map<std::uint32_t, std::size_t> collectives{};
  using Pair = std::tuple<std::uint32_t, int, int>;  ///< group, and places in it
  std::map<Pair, std::size_t> sends{}, receives{};
  std::size_t events = 0;
};

class Cutting {
 public:
  explicit Cutting(WorkloadDocument& job) : job_{job}, called_(job.ranks.size()) {
    for (std::size_t rank = 0; rank < job.ranks.size(); ++rank)
      for (const auto& operation : job.ranks[rank]) count(called_[rank], rank, operation);
  }
  /// Whether anything had to go.
  bool cut() {
    bool any = false;
    for (std::size_t rank = 0; rank < job_.ranks.size(); ++rank) {
      auto& operations = job_.ranks[rank];
      Called so_far;
      for (std::size_t i = 0; i < operations.size(); ++i) {
        count(so_far, rank, operations[i]);
        if (can_complete(so_far, operations[i])) continue;
        operations.resize(i);
        any = true;
        called_[rank] = {};
        for (const auto& operation : operations) count(called_[rank], rank, operation);
        break;
      }
    }
    return any;
  }

 private:
  [[nodiscard]] int place(std::uint32_t group, std::size_t rank) const {
    const auto& ranks = job_.groups[group];
    return static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
  }
  void count(Called& called, std::size_t rank, const Workload::Operation& operation) const {
    if (const auto* collective = std::get_if<Workload::Collective>(&operation)) {
      ++called.collectives[job_.calls[collective->call].group];
    } else if (const auto* exchange = std::get_if<Workload::Exchange>(&operation)) {
      const auto& messages = job_.messages[exchange->messages];
      const int mine = place(messages.group, rank);
      for (const SendRecv& part : messages.parts) {
        const Called::Pair pair{messages.group, part.src_rank, part.dst_rank};
        if (part.src_rank == mine) ++called.sends[pair];
        if (part.dst_rank == mine) ++called.receives[pair];
      }
    } else if (std::holds_alternative<Workload::Record>(operation) ||
               std::holds_alternative<Workload::Mark>(operation)) {
      ++called.events;
    }
  }
  template <class Key>
  static std::size_t at(const std::map<Key, std::size_t>& counts, const Key& key) {
    const auto found = counts.find(key);
    return found == counts.end() ? 0 : found->second;
  }
  /// Whether all others have called what the rank calls, having called so much so far.
  [[nodiscard]] bool can_complete(const Called& so_far,
                                  const Workload::Operation& operation) const {
    if (const auto* collective = std::get_if<Workload::Collective>(&operation)) {
      const std::uint32_t group = job_.calls[collective->call].group;
      const std::size_t number = so_far.collectives.at(group);
      return std::all_of(job_.groups[group].begin(), job_.groups[group].end(), [&](Rank rank) {
        return rank < called_.size() && at(called_[rank].collectives, group) >= number;
      });
    }
    if (const auto* exchange = std::get_if<Workload::Exchange>(&operation)) {
      const auto& [group, parts] = job_.messages[exchange->messages];
      const auto& ranks = job_.groups[group];
      return std::all_of(parts.begin(), parts.end(), [&, group = group](const SendRecv& part) {
        const Called::Pair pair{group, part.src_rank, part.dst_rank};
        const Rank from = ranks[static_cast<std::size_t>(part.src_rank)],
                   to = ranks[static_cast<std::size_t>(part.dst_rank)];
        const std::size_t number = std::max(at(so_far.sends, pair), at(so_far.receives, pair));
        return from < called_.size() && to < called_.size() &&
               at(called_[from].sends, pair) >= number && at(called_[to].receives, pair) >= number;
      });
    }
    const auto has_come = [&](Workload::Event event) {
      return called_[event.rank].events > event.number;
    };
    if (const auto* wait = std::get_if<Workload::Wait>(&operation)) return has_come(wait->event);
    if (const auto* range = std::get_if<Workload::Range>(&operation)) return has_come(range->event);
    if (const auto* synchronize = std::get_if<Workload::Synchronize>(&operation))
      return has_come(synchronize->event);
    return true;
  }

  WorkloadDocument& job_;
  std::vector<Called> called_;  ///< by rank
};

}  // namespace

void keep_complete_part(WorkloadDocument& job) {
  // What goes of one rank can leave others waiting.
  Cutting cutting{job};
  while (cutting.cut()) {
  }
}

}  // namespace phantora::detail
