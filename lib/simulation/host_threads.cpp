#include "simulation/host_threads.hpp"

#include <map>
#include <utility>

namespace phantora::detail {
namespace {

/// The places of the threads' numbers in the order in which they come.
class Places {
 public:
  std::uint32_t operator()(std::uint32_t number) {
    return places_.try_emplace(number, static_cast<std::uint32_t>(places_.size())).first->second;
  }

 private:
  std::map<std::uint32_t, std::uint32_t> places_{};
};

RankThreads threads_of(std::span<const Workload::Operation> operations) {
  RankThreads threads;
  threads.events.resize(operations.size(), RankThreads::none);
  Places place;
  struct Last {
    std::uint32_t operation = 0, thread = 0;
  };
  std::map<StreamNumber, Last> last;
  std::uint32_t present = 0, begin = 0;
  const auto close = [&](std::uint32_t end) {
    if (end == begin) return;
    const std::uint32_t at = place(present);
    if (at == threads.stretches.size()) threads.stretches.emplace_back();
    threads.stretches[at].push_back({begin, end});
  };
  bool several = false;
  for (const Workload::Operation& operation : operations)
    several = several || std::holds_alternative<Workload::Thread>(operation);
  if (several) threads.after.resize(operations.size(), RankThreads::none);
  for (std::uint32_t i = 0; i < operations.size(); ++i) {
    std::visit(
        [&](const auto& it) {
          using T = std::decay_t<decltype(it)>;
          if constexpr (std::is_same_v<T, Workload::Record> || std::is_same_v<T, Workload::Mark>)
            threads.events[i] = threads.event_count++;
          if constexpr (std::is_same_v<T, Workload::Thread>) {
            close(i);
            begin = i + 1;
            present = it.number;
          }
          if constexpr (requires { it.stream; }) {
            if (!several) return;
            const auto [before, first] = last.try_emplace(it.stream, Last{i, present});
            if (first) return;
            if (before->second.thread != present) threads.after[i] = before->second.operation;
            before->second = {i, present};
          }
        },
        operations[i]);
  }
  close(static_cast<std::uint32_t>(operations.size()));
  return threads;
}

}  // namespace

std::vector<RankThreads> threads_of(const Workload& workload) {
  std::vector<RankThreads> ranks;
  for (Rank rank = 0; rank < workload.rank_count(); ++rank)
    ranks.push_back(threads_of(workload.operations(rank)));
  return ranks;
}

}  // namespace phantora::detail
