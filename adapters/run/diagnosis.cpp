// What the ranks of a run do: for who watches a standstill, and for the end of a run that cannot go
// on. The words are doing.hpp's and the library's (Standstill).

#include "run/doing.hpp"
#include "run/engine.hpp"

#include <phantora/simulation/standstill.hpp>

#include <algorithm>
#include <set>

#include <fmt/format.h>

namespace phantora::run {
namespace {

using channel::ThreadState;
using Clock = std::chrono::steady_clock;

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

SeenThread Engine::seen(const Process& process, std::uint32_t index) const {
  const channel::ThreadSlot& slot = process.link.shared()->threads[index];
  SeenThread thread{.main = slot.tid == process.hello.pid,
                    .state = slot.state.load(),
                    .wait = slot.wait.load(),
                    .clock = Time{Duration{slot.clock_ps.load()}}};
  thread.background = thread.state == ThreadState::background;
  if (const auto known = process.threads.find(index); known != process.threads.end()) {
    thread.call = {.in = known->second.in,
                   .since = known->second.since,
                   .answered = known->second.held.has_value(),
                   .data_outstanding = !process.undelivered.empty()};
    return thread;
  }
  if (const auto look = looks_.find(slot.tid); look != looks_.end()) {
    thread.kernel = look->second.look.state;
  }
  if (thread.kernel != 'R') thread.where = sleeps_in(process.hello.pid, slot.tid);
  if (const auto found = process.observed.find(index); found != process.observed.end()) {
    thread.cpu_ns = found->second.cpu_ns - found->second.first_cpu_ns;
  }
  return thread;
}

/// A process, by its threads that have a part in time.
SeenProcess Engine::seen(const Process& process) const {
  const channel::RankShared* const shared = process.link.shared();
  SeenProcess found{.ended = process.ended, .runs = shared != nullptr};
  if (process.ended || shared == nullptr) return found;
  const auto count = static_cast<std::uint32_t>(slots_of(*shared).size());
  for (std::uint32_t i = 0; i < count; ++i) {
    const ThreadState state = shared->threads[i].state.load();
    const bool polls = state == ThreadState::background && process.threads.contains(i);
    if (state == ThreadState::unused || (state == ThreadState::background && !polls)) continue;
    found.threads.push_back(seen(process, i));
  }
  return found;
}

Standstill Engine::standstill() const {
  Standstill found;
  const auto rank_of_process = [&](ProcessIndex process) { return processes_[process].hello.rank; };
  const auto missing = [&](ProcessIndex process) {
    return Standstill::Missing{name_of(process), run::in_words(seen(processes_[process]))};
  };
  // Of each communicator: later calls wait for earlier ones.
  constexpr std::size_t shown = 3;
  std::map<CommunicatorId, std::size_t> told;
  for (const OpenCall& open : session_.open_calls()) {
    if (told[open.communicator]++ >= shown) continue;
    auto& operation = found.operations.emplace_back();
    operation.what = open.what;
    operation.since = open.since;
    for (const auto& member : communicators_.members(open.communicator))
      operation.group.insert(rank_of_process(member.process));
    for (const int rank : open.waiting)
      operation.waiting.insert(rank_of_process(process_of(open.communicator, rank)));
    for (const int rank : open.missing)
      operation.missing.push_back(missing(process_of(open.communicator, rank)));
  }
  // The session's incomplete collectives are told above, with the names of their ranks.
  found.obstacles = session_.obstacles();
  for (const Communicators::Pending& call : communicators_.pending()) {
    auto& joining = found.joining.emplace_back();
    joining.call =
        call.splits ? "ncclCommSplit" : fmt::format("ncclCommInitRank of {} ranks", call.ranks);
    std::set<int> called;
    for (const auto& one : call.waiting) {
      called.insert(one.rank);
      joining.waiting.insert(rank_of_process(one.caller.process));
    }
    for (int rank = 0; rank < call.ranks; ++rank) {
      if (called.contains(rank)) continue;
      if (call.splits) {
        joining.missing.push_back(missing(process_of(*call.splits, rank)));
      } else {
        joining.free_places.push_back(rank);
      }
    }
  }
  std::set<int> connected;
  for (const Process& process : processes_) {
    if (process.hello.pid == 0 || process.ended) continue;
    connected.insert(process.hello.rank);
    found.ranks.push_back({process.hello.rank, run::in_words(seen(process))});
  }
  for (const auto& [rank, expected] : expected_) {
    if (connected.contains(rank)) continue;
    const auto look = looks_.find(expected.pid);
    const bool runs = look != looks_.end() && look->second.look.state == 'R';
    const std::string where = runs ? "" : sleeps_in(expected.pid, expected.pid);
    found.ranks.push_back({rank, std::string{"started, uses no GPU yet"} +
                                     (runs            ? ", runs host code"
                                      : where.empty() ? ""
                                                      : ", sleeps in " + where)});
  }
  found.ended = ended_ranks_;
  return found;
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
  const Standstill found = standstill();
  options_.tell(fmt::format("nothing has moved in simulated time for {} s (it is {}):{}{}",
                            still.count(), seconds_in_words(session_.now()), what_ranks_do(found),
                            open_operations(found)));
}

void Engine::diagnose_stall() const { throw StallError{stall_in_words(standstill())}; }

}  // namespace phantora::run
