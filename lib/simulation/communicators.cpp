#include <phantora/error.hpp>
#include <phantora/simulation/communicators.hpp>

#include <algorithm>
#include <string>
#include <tuple>

namespace phantora {
namespace {

Time latest(const auto& callers) {
  Time clock{};
  for (const auto& one : callers) clock = std::max(clock, one.caller.clock);
  return clock;
}

Communicators::Caller at(Communicators::Caller caller, Time clock) {
  caller.clock = clock;
  return caller;
}

}  // namespace

std::vector<Communicators::Admitted> Communicators::join(const UniqueId& id,
                                                         std::optional<ProcessIndex> maker,
                                                         int ranks, int rank, GpuIndex gpu,
                                                         const Caller& caller) {
  PHANTORA_EXPECTS(rank >= 0 && rank < ranks, "a rank of its communicator");
  if (maker && ended_.contains(*maker)) return {{.caller = caller}};
  Join& join = joins_.try_emplace(id, Join{maker, ranks, {}}).first->second;
  const std::string communicator = "a communicator of " + std::to_string(ranks);
  if (join.ranks != ranks)
    throw Error{"the ranks that join a communicator do not agree on how many they are: one is of " +
                std::to_string(join.ranks) + ", another of " + std::to_string(ranks)};
  for (const Joining& other : join.waiting) {
    if (other.rank == rank)
      throw Error{"two join " + communicator + " as its rank " + std::to_string(rank)};
    if (other.gpu == gpu)
      throw Error{"ranks " + std::to_string(std::min(rank, other.rank)) + " and " +
                  std::to_string(std::max(rank, other.rank)) + " of " + communicator +
                  " are both on GPU " + std::to_string(gpu) +
                  ": NCCL takes one rank of each GPU. Has every process chosen its device?"};
  }
  join.waiting.push_back({rank, gpu, caller});
  if (static_cast<int>(join.waiting.size()) < ranks) return {};

  std::vector<Joining> all = std::move(join.waiting);
  joins_.erase(id);
  std::sort(all.begin(), all.end(),
            [](const Joining& a, const Joining& b) { return a.rank < b.rank; });
  std::vector<Member> members;
  for (const Joining& one : all) members.push_back({one.caller.process, one.gpu});
  const CommunicatorId made = make(std::move(members));
  const Time clock = latest(all);
  std::vector<Admitted> admitted;
  for (const Joining& one : all) admitted.push_back({at(one.caller, clock), made, one.rank, ranks});
  return admitted;
}

std::vector<Communicators::Admitted> Communicators::split(CommunicatorId parent, int rank,
                                                          std::int64_t color, std::int64_t key,
                                                          const Caller& caller) {
  const std::size_t ranks = members(parent).size();
  PHANTORA_EXPECTS(rank >= 0 && static_cast<std::size_t>(rank) < ranks,
                   "a rank of the communicator");
  const std::pair call{parent, known_.at(parent).splits[static_cast<std::size_t>(rank)]++};
  std::vector<Splitting>& waiting = splits_[call];
  waiting.push_back({color, key, rank, caller});
  if (waiting.size() < ranks) return {};

  std::vector<Splitting> all = std::move(waiting);
  splits_.erase(call);
  std::sort(all.begin(), all.end(), [](const Splitting& a, const Splitting& b) {
    return std::tie(a.color, a.key, a.rank) < std::tie(b.color, b.key, b.rank);
  });
  const std::vector<Member> parents = members(parent);
  const Time clock = latest(all);
  std::vector<Admitted> admitted;
  for (auto first = all.begin(); first != all.end();) {
    const auto last = std::find_if(first, all.end(),
                                   [&](const Splitting& one) { return one.color != first->color; });
    std::optional<CommunicatorId> made;
    if (first->color >= 0) {
      std::vector<Member> members;
      for (auto one = first; one != last; ++one)
        members.push_back(parents[static_cast<std::size_t>(one->rank)]);
      made = make(std::move(members));
    }
    for (auto one = first; one != last; ++one) {
      admitted.push_back({.caller = at(one->caller, clock), .communicator = made});
      if (!made) continue;
      admitted.back().rank = static_cast<int>(one - first);
      admitted.back().ranks = static_cast<int>(last - first);
    }
    first = last;
  }
  return admitted;
}

CommunicatorId Communicators::make(std::vector<Member> members) {
  std::vector<GpuIndex> gpus;
  for (const Member& member : members) gpus.push_back(member.gpu);
  const CommunicatorId made = make_(std::move(gpus));
  const std::size_t ranks = members.size();
  known_[made] = {std::move(members), 0, std::vector<std::uint64_t>(ranks)};
  return made;
}

bool Communicators::leave(CommunicatorId communicator) {
  const std::size_t ranks = members(communicator).size();
  PHANTORA_EXPECTS(known_.at(communicator).left < ranks, "a communicator that not all have left");
  return ++known_.at(communicator).left == ranks;
}

std::vector<Communicators::Admitted> Communicators::end_process(ProcessIndex process) {
  ended_.insert(process);
  std::vector<Admitted> admitted;
  for (auto entry = joins_.begin(); entry != joins_.end();) {
    Join& join = entry->second;
    std::erase_if(join.waiting, [&](const Joining& one) { return one.caller.process == process; });
    if (join.maker == process) {
      for (const Joining& one : join.waiting) admitted.push_back({.caller = one.caller});
      join.waiting.clear();
    }
    entry = join.waiting.empty() ? joins_.erase(entry) : std::next(entry);
  }
  return admitted;
}

const std::vector<Communicators::Member>& Communicators::members(
    CommunicatorId communicator) const {
  const auto found = known_.find(communicator);
  PHANTORA_EXPECTS(found != known_.end(), "no communicator " + std::to_string(communicator.value));
  return found->second.members;
}

std::vector<Communicators::Pending> Communicators::pending() const {
  std::vector<Pending> all;
  const auto add = [&](std::optional<CommunicatorId> splits, int ranks, const auto& callers) {
    Pending& call = all.emplace_back(Pending{splits, ranks, {}});
    for (const auto& one : callers) call.waiting.push_back({one.caller, one.rank});
  };
  for (const auto& [_, join] : joins_) add(std::nullopt, join.ranks, join.waiting);
  for (const auto& [call, waiting] : splits_)
    add(call.first, static_cast<int>(members(call.first).size()), waiting);
  return all;
}

}  // namespace phantora
