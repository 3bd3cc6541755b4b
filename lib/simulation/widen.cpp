#include "simulation/shards.hpp"
#include "simulation/workload_form.hpp"

#include <phantora/error.hpp>
#include <phantora/simulation/widen.hpp>

#include <algorithm>
#include <string>
#include <utility>

namespace phantora {
namespace {

/// New numbers of a table's entries: in copy c, entry i is at [c][i].
using Numbers = std::vector<std::vector<std::uint32_t>>;

/// Copies the entries that name a group which is copied, once those of a group that is joined.
template <class Entry>
Numbers copied(std::vector<Entry>& entries, const Numbers& groups) {
  const std::vector<Entry> before = std::exchange(entries, {});
  Numbers numbers(groups.size());
  for (const Entry& entry : before) {
    for (std::size_t copy = 0; copy < groups.size(); ++copy) {
      const std::uint32_t group = groups[copy][entry.group];
      if (copy == 0 || group != groups[0][entry.group]) {
        entries.push_back(entry);
        entries.back().group = group;
      }
      numbers[copy].push_back(static_cast<std::uint32_t>(entries.size() - 1));
    }
  }
  return numbers;
}

}  // namespace

/// @param narrower  null: sizes stay.
Workload widen(const Workload& workload, std::uint32_t factor, Rank replica,
               const Workload* narrower) {
  const auto ranks = static_cast<Rank>(workload.rank_count());
  PHANTORA_EXPECTS(factor > 0 && std::int64_t{factor} * ranks <= detail::form::most_ranks,
                   std::to_string(factor) + " times " + std::to_string(ranks) +
                       " ranks: expected 1 to " + std::to_string(detail::form::most_ranks));
  PHANTORA_EXPECTS(replica > 0 && ranks % replica == 0,
                   std::to_string(ranks) +
                       " ranks consist of replicas of as many each, and not of " +
                       std::to_string(replica));
  detail::WorkloadDocument document = detail::document_of(workload);
  if (narrower != nullptr) {
    const auto fewer = static_cast<Rank>(narrower->rank_count());
    PHANTORA_EXPECTS(fewer > 0 && fewer < ranks && fewer % replica == 0,
                     "the narrower job has whole replicas, fewer than the other's " +
                         std::to_string(ranks / replica) + ", and not " + std::to_string(fewer) +
                         " ranks");
    detail::scale_shards(document, detail::document_of(*narrower), factor);
  }

  Numbers groups(factor);
  const auto old_groups = std::exchange(document.groups, {});
  const auto old_instances = std::exchange(document.instances, {});
  for (std::size_t i = 0; i < old_groups.size(); ++i) {
    const std::vector<Rank>& group = old_groups[i];
    const bool joined = std::any_of(group.begin(), group.end(), [&](Rank rank) {
      return rank / replica != group.front() / replica;
    });
    for (std::uint32_t copy = 0; copy < factor; ++copy) {
      if (copy == 0 || !joined) {
        document.groups.emplace_back();
        document.instances.push_back(old_instances[i]);
      }
      for (const Rank rank : group) document.groups.back().push_back(rank + copy * ranks);
      groups[copy].push_back(static_cast<std::uint32_t>(document.groups.size() - 1));
    }
  }
  const Numbers calls = copied(document.calls, groups);

  // Messages name places in their group, which in a group that is joined are those of their copy.
  const std::vector<Workload::Messages> old_messages = std::exchange(document.messages, {});
  Numbers messages(factor);
  for (const Workload::Messages& one : old_messages) {
    const bool joined = factor > 1 && groups[0][one.group] == groups[1][one.group];
    const int width = joined ? static_cast<int>(old_groups[one.group].size()) : 0;
    for (std::uint32_t copy = 0; copy < factor; ++copy) {
      Workload::Messages& added = document.messages.emplace_back(one);
      added.group = groups[copy][one.group];
      for (SendRecv& part : added.parts) {
        part.src_rank += static_cast<int>(copy) * width;
        part.dst_rank += static_cast<int>(copy) * width;
      }
      messages[copy].push_back(static_cast<std::uint32_t>(document.messages.size() - 1));
    }
  }

  const auto old_ranks = std::exchange(document.ranks, {});
  for (std::uint32_t copy = 0; copy < factor; ++copy) {
    for (std::vector<Workload::Operation> operations : old_ranks) {
      for (Workload::Operation& operation : operations) {
        std::visit(
            [&](auto& it) {
              if constexpr (requires { it.call; }) it.call = calls[copy][it.call];
              if constexpr (requires { it.messages; }) it.messages = messages[copy][it.messages];
              if constexpr (requires { it.event; }) it.event.rank += copy * ranks;
            },
            operation);
      }
      document.ranks.push_back(std::move(operations));
    }
  }
  return Workload{std::move(document)};
}

Workload widen(const Workload& workload, std::uint32_t factor, Rank replica) {
  return widen(workload, factor, replica, nullptr);
}
Workload widen(const Workload& workload, std::uint32_t factor, Rank replica,
               const Workload& narrower) {
  return widen(workload, factor, replica, &narrower);
}

}  // namespace phantora
