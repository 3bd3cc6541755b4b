// What the ranks of a run do, in words: for who watches a standstill, and for the end of a run that
// cannot go on.

#include "run/engine.hpp"

#include <phantora/units.hpp>

#include <algorithm>
#include <set>

#include <fmt/format.h>

namespace phantora::run {
namespace {

using channel::Op;
using channel::ThreadState;
using channel::Wait;
using Clock = std::chrono::steady_clock;

/// "rank 3", "ranks 0, 2, 4-15".
std::string rank_list(const std::set<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  const char* separator = " ";
  for (auto first = ranks.begin(); first != ranks.end();) {
    auto last = first, next = std::next(first);
    while (next != ranks.end() && *next == *last + 1) last = next++;
    if (*last - *first < 2) last = first;
    text.append(separator).append(std::to_string(*first));
    if (last != first) text.append("-").append(std::to_string(*last));
    separator = ", ";
    first = std::next(last);
  }
  return text;
}

std::string seconds(Time time) {
  return fmt::format("{:.6f} s", to_seconds(time.time_since_epoch()));
}

std::string waits_in_words(Wait wait) {
  switch (wait) {
    case Wait::none:
      break;
    case Wait::condition:
      return "waits for a condition variable";
    case Wait::semaphore:
      return "waits for a semaphore";
    case Wait::lock:
      return "waits for a lock";
    case Wait::thread:
      return "waits for the end of another thread";
    case Wait::futex:
      return "waits for a future or an atomic";
    case Wait::descriptor:
      return "waits for data";
    case Wait::process:
      return "waits for the end of another process";
  }
  return "waits";
}

std::string call_in_words(Op op) {
  switch (op) {
    case Op::synchronize:
      return "waits for its GPU (a synchronisation or a copy)";
    case Op::query:
      return "asks whether its GPU is done (an event or stream query)";
    case Op::join_communicator:
      return "is in ncclCommInitRank";
    case Op::split_communicator:
      return "is in ncclCommSplit";
    default:
      return "waits for the engine";
  }
}

/// Whether no call of one is of another type than that of the other.
bool same_types(const Disagreement& found) {
  return std::equal(found.lower.calls.begin(), found.lower.calls.end(), found.higher.calls.begin(),
                    found.higher.calls.end(),
                    [](const auto& a, const auto& b) { return a.type == b.type; });
}

}  // namespace

std::string Engine::name_of(ProcessIndex process) const {
  const channel::Hello& hello = processes_[process].hello;
  return hello.rank >= 0 ? "rank " + std::to_string(hello.rank)
                         : "process " + std::to_string(hello.pid);
}

std::string Engine::names_of(const std::vector<ProcessIndex>& processes) const {
  std::set<int> ranks;
  for (const ProcessIndex process : processes) ranks.insert(processes_[process].hello.rank);
  return rank_list(ranks);
}

/// What one thread with a part in time does.
std::string Engine::doing(const Process& process, std::uint32_t index) const {
  const channel::ThreadSlot& slot = process.link.shared()->threads[index];
  if (const auto known = process.threads.find(index); known != process.threads.end()) {
    if (known->second.held && process.undelivered.empty()) {
      return "may go on, and waits for its turn to run";
    }
    if (known->second.held) return "waits for the data of a small collective";
    return call_in_words(known->second.in) + " since " + seconds(known->second.since);
  }
  const auto look = looks_.find(slot.tid);
  const char kernel = look == looks_.end() ? '?' : look->second.look.state;
  if (kernel == 'T' || kernel == 't') return "was stopped by a signal or a debugger";
  const ThreadState state = slot.state.load();
  const std::string where = kernel == 'R' ? std::string{} : sleeps_in(process.hello.pid, slot.tid);
  const std::string in = where.empty() ? "" : " (in " + where + ")";
  if (state == ThreadState::waiting) return waits_in_words(slot.wait.load()) + in;
  if (state == ThreadState::sleeping) {
    return "sleeps until " + seconds(Time{Duration{slot.clock_ps.load()}});
  }
  if (kernel == 'R' || kernel == '?') {
    const auto seen = process.observed.find(index);
    const double used = seen == process.observed.end()
                            ? 0
                            : static_cast<double>(seen->second.cpu_ns - seen->second.first_cpu_ns);
    return fmt::format("runs host code, {:.0f} s on a core since its last call", used / 1e9);
  }
  if (kernel == 'D') return "waits for a disk" + in;
  return "sleeps in host code" + in;
}

/// What a process does, by its threads that have a part in time.
std::string Engine::doing(const Process& process) const {
  if (process.ended) return "has ended";
  if (process.link.shared() == nullptr) return "waits for its turn to run";
  constexpr std::size_t shown = 4;
  std::string text;
  std::size_t others = 0;
  const auto count = static_cast<std::uint32_t>(slots_of(*process.link.shared()).size());
  for (std::uint32_t i = 0; i < count; ++i) {
    const channel::ThreadSlot& slot = process.link.shared()->threads[i];
    const ThreadState state = slot.state.load();
    const bool polls = state == ThreadState::background && process.threads.contains(i);
    if (state == ThreadState::unused || (state == ThreadState::background && !polls)) continue;
    if (others++ >= shown) continue;
    const bool main = slot.tid == process.hello.pid;
    if (!text.empty()) text += "; ";
    if (!main) text += polls ? "a background thread " : "another thread ";
    text += doing(process, i);
  }
  if (others > shown) text += fmt::format("; and {} more threads", others - shown);
  return text.empty() ? "runs host code, without a GPU so far" : text;
}

/// A line for all ranks that do the same.
std::string Engine::what_ranks_do() const {
  std::vector<std::pair<std::string, std::set<int>>> groups;
  const auto add = [&](int rank, const std::string& does) {
    const auto found = std::find_if(groups.begin(), groups.end(),
                                    [&](const auto& group) { return group.first == does; });
    if (found != groups.end()) {
      found->second.insert(rank);
    } else {
      groups.emplace_back(does, std::set<int>{rank});
    }
  };
  std::set<int> connected;
  for (const Process& process : processes_) {
    if (process.hello.pid == 0 || process.ended) continue;
    connected.insert(process.hello.rank);
    add(process.hello.rank, doing(process));
  }
  for (const auto& [rank, expected] : expected_) {
    if (connected.contains(rank)) continue;
    const auto look = looks_.find(expected.pid);
    const bool runs = look != looks_.end() && look->second.look.state == 'R';
    const std::string where = runs ? "" : sleeps_in(expected.pid, expected.pid);
    add(rank, std::string{"started, uses no GPU yet"} + (runs            ? ", runs host code"
                                                         : where.empty() ? ""
                                                                         : ", sleeps in " + where));
  }
  std::string text;
  for (const auto& [does, ranks] : groups) text += "\n  " + rank_list(ranks) + ": " + does;
  if (!ended_ranks_.empty()) text += "\n  " + rank_list(ended_ranks_) + ": ended";
  return text;
}

/// Calls that wait for other ranks, and for whom.
std::string Engine::open_operations() const {
  // Of each communicator: later calls wait for earlier ones.
  constexpr std::size_t shown = 3;
  std::string text;
  const auto missing_rank = [&](ProcessIndex missing) {
    return "; " + name_of(missing) + " has not called it and " + doing(processes_[missing]);
  };
  std::map<CommunicatorId, std::size_t> told;
  for (const OpenCall& open : session_.open_calls()) {
    if (told[open.communicator]++ >= shown) continue;
    std::vector<ProcessIndex> all, waiting;
    for (const auto& member : communicators_.members(open.communicator))
      all.push_back(member.process);
    for (const int rank : open.waiting) waiting.push_back(process_of(open.communicator, rank));
    text += "\n  " + open.what + " on the communicator of " + names_of(all) + ": " +
            names_of(waiting) + (waiting.size() == 1 ? " waits" : " wait") + " since " +
            seconds(open.since);
    for (const int rank : open.missing) text += missing_rank(process_of(open.communicator, rank));
  }
  // The session's incomplete collectives are told above, with the names of their ranks.
  for (const std::string& line : session_.obstacles()) text += "\n  " + line;
  for (const Communicators::Pending& call : communicators_.pending()) {
    std::set<int> called;
    std::vector<ProcessIndex> callers;
    for (const auto& one : call.waiting) {
      called.insert(one.rank);
      callers.push_back(one.caller.process);
    }
    text += call.splits ? "\n  ncclCommSplit: "
                        : fmt::format("\n  ncclCommInitRank of {} ranks: ", call.ranks);
    text += names_of(callers) + (callers.size() == 1 ? " waits" : " wait");
    if (!call.splits) text += "; nobody has called it as rank";
    const char* separator = " ";
    for (int rank = 0; rank < call.ranks; ++rank) {
      if (called.contains(rank)) continue;
      text += call.splits ? missing_rank(process_of(*call.splits, rank))
                          : separator + std::to_string(rank);
      separator = ", ";
    }
  }
  return text;
}

/// The same as the library says it, by the names that the ranks have in the run.
std::string Engine::in_words(const Disagreement& found, CommunicatorId communicator) const {
  const auto said = [&](const Disagreement::Side& side) {
    std::string text = name_of(process_of(communicator, side.rank)) + " calls";
    const char* separator = " ";
    for (const GroupedCollective& call : side.calls) {
      text += fmt::format("{}{} of {} bytes (root {}", separator, to_string(call.op),
                          call.total.count(), call.root);
      separator = ", ";
      text += same_types(found) ? ")" : fmt::format(", type {})", call.type);
    }
    return text;
  };
  return fmt::format(
      "the ranks of a communicator do not agree on its collective number {}: {}, {}. All ranks "
      "must call the same operations in the same order.",
      found.number, said(found.lower), said(found.higher));
}

void Engine::tell_that_nothing_moves() {
  const auto still =
      std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - last_movement_);
  // After 10, 20, 40, 80 ... seconds.
  silence_ = std::max<std::chrono::seconds>(2 * still, std::chrono::seconds{10});
  if (!options_.tell) return;
  options_.tell(fmt::format("nothing has moved in simulated time for {} s (it is {}):{}{}",
                            still.count(), seconds(session_.now()), what_ranks_do(),
                            open_operations()));
}

void Engine::diagnose_stall() const {
  // Where a link is down the program is not to blame.
  const char* advice = session_.obstacles().empty()
                           ? "\n  Every rank of a communicator has to call the same operations in "
                             "the same order."
                           : "";
  throw StallError{"the run is stalled: ranks wait for what does not come." + open_operations() +
                   what_ranks_do() + advice};
}

}  // namespace phantora::run
