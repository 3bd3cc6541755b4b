// What the kernel knows of the threads of a run, and what follows from it when nothing moves.
//
// The hooks tell of every wait that they see. A thread that waits in another way is seen to sleep
// here: such a wait costs accuracy, because no time is handed over, and never a hang.

#include "run/engine.hpp"

#include <algorithm>
#include <utility>

#include <unistd.h>

namespace phantora::run {
namespace {

using channel::ThreadState;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

/// Looks take a tenth of the time at most, and find a standstill soon.
constexpr auto longest_pause = 50ms;
constexpr int pause_per_look = 10;
/// What ranks wait for, processes without a GPU may go about by their clocks (Ray's controller asks
/// its workers every two seconds), while threads of the ranks answer pings. Shorter waits are what
/// a front end computes.
constexpr auto long_wait = 1s;
/// CPU time.
constexpr std::uint64_t taken_for_a_spin_ns = 5'000'000'000;

/// Whether a thread that was never seen asleep has done nothing between two looks but compute in
/// its own memory: no page faults, and a tenth of its time in the kernel at most. The kernel tells
/// that time from samples.
bool only_computed(const ThreadLook& from, const ThreadLook& to) {
  static const auto ns_per_tick = 1'000'000'000 / static_cast<std::uint64_t>(sysconf(_SC_CLK_TCK));
  constexpr std::uint64_t chance = 3;  // ticks
  const std::uint64_t ticks = to.system_ticks - from.system_ticks;
  return to.faults == from.faults &&
         (ticks <= chance || ticks * ns_per_tick * 10 <= to.cpu_ns - from.cpu_ns);
}

}  // namespace

bool Engine::someone_waits() const {
  return std::any_of(processes_.begin(), processes_.end(), [](const Process& process) {
    return (!process.welcomed && !process.ended && process.hello.pid != 0) ||
           !process.threads.empty();
  });
}

std::chrono::milliseconds Engine::until_next_look() const {
  // Without anybody to be let go on, only a standstill is to be noticed; and for the clocks of
  // processes without a GPU, when it begins and ends.
  const bool pending =
      someone_waits() || session_.awaited() != never || run_.memory->followed.load();
  const auto next = pending ? std::max(last_look_, last_movement_) + pause_
                            : std::max(last_look_ + longest_pause, last_movement_ + 5s);
  return std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now());
}

void Engine::look_around() {
  if (until_next_look() > 0ms) return;
  const auto now = Clock::now(), before = last_look_;
  const Found found = look_at_threads();
  const bool quiet = found == Found::sleep;
  last_look_ = Clock::now();
  if (!ranks_wait() || last_progress_ > before) {
    ranks_wait_since_.reset();
  } else if (!ranks_wait_since_) {
    ranks_wait_since_ = last_look_;
  } else if (before - *ranks_wait_since_ > long_wait) {
    stood(before, last_look_);
  }
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(last_look_ - now);
  // A second look follows soon where the first finds everybody asleep: nobody wants the core.
  pause_ = quiet ? std::max<std::chrono::milliseconds>(1ms, took)
                 : std::max(std::min<std::chrono::milliseconds>(2 * pause_, longest_pause),
                            pause_per_look * took);
  // What was seen may let blocked calls return, and whoever sleeps with a turn has just lost it.
  const auto moved = last_movement_;
  progress();
  if (last_movement_ != moved) return;
  rest_.looked(found, now, awake_);
  const bool rests = rest_.rests();
  if (rests && go_on_at_rest()) return;
  if (rests && first_to_wake() == never) stands();
  look_for_stall(rests);
}

/// Also notes which processes hold a turn without using it.
///
/// A thread whose CPU time nobody charges, and that does nothing for long but compute in its own
/// memory, is taken to wait for another to change that memory.
Found Engine::look_at_threads() {
  sends_at_look_ = run_.memory->sends.load();
  awake_.clear();
  std::map<pid_t, Process*> connected;
  for (Process& process : processes_) {
    if (!process.ended && process.hello.pid != 0) connected[process.hello.pid] = &process;
  }
  std::map<pid_t, Watched> looks;
  bool calm = true, asleep = true, helpers_calm = true;
  // Of a process without a part in time (a service, a server of parameters) nothing is known but
  // how long it ran. To look and sleep again takes some microseconds; who had an effect on a rank
  // has woken a thread there, which then is seen to run.
  const auto little_ns = static_cast<std::uint64_t>(
      std::max<std::chrono::nanoseconds>(250us, (Clock::now() - last_look_) / 20).count());
  for (const pid_t pid : ProcessTree{}.descendants(getpid())) {
    const auto found = connected.find(pid);
    Process* process = found == connected.end() ? nullptr : found->second;
    std::map<pid_t, std::uint32_t> slots;
    if (process != nullptr && process->link.shared() != nullptr) {
      std::uint32_t index = 0;
      for (const channel::ThreadSlot& slot : slots_of(*process->link.shared())) {
        if (slot.state.load() != ThreadState::unused) slots[slot.tid] = index;
        ++index;
      }
    }
    bool process_quiet = true;
    const std::vector<pid_t> threads = threads_of(pid);
    // Nobody changes the memory of a compiler, say, that a rank has started and waits for.
    const auto works_alone = [&] {
      return process == nullptr && threads.size() == 1 && !shares_memory(pid);
    };
    for (const pid_t tid : threads) {
      const auto look = phantora::run::look_at(pid, tid);
      if (!look) continue;
      Watched& watched = looks[tid];
      watched = {.look = *look, .computed_from = *look};
      const auto before = looks_.find(tid);
      if (process != nullptr && process->link.shared() != nullptr &&
          process->link.shared()->receiver.load() == tid && process->link.receiver_waits()) {
        continue;
      }
      const bool ran = before == looks_.end() || before->second.look.runs != look->runs;
      if (before != looks_.end() && !before->second.look.asleep() && !look->asleep() &&
          only_computed(before->second.computed_from, *look)) {
        watched.computed_from = before->second.computed_from;
      }
      bool charged = false;
      bool excused = false;  // it wakes without a cause
      const auto slot = slots.find(tid);
      if (slot != slots.end()) {
        charged = process->link.shared()->threads[slot->second].charged_scale.load() > 0;
        const ThreadState state = process->link.shared()->threads[slot->second].state.load();
        // Who looks at memory may have found what it waits for, and works.
        const bool at_memory =
            process->link.shared()->threads[slot->second].wait == channel::Wait::memory;
        excused = (state == ThreadState::waiting && (!at_memory || look->asleep())) ||
                  state == ThreadState::sleeping || state == ThreadState::background ||
                  process->threads.contains(slot->second);
      }
      if (process != nullptr && process->link.shared() != nullptr) {
        const auto& pollers = process->link.shared()->pollers;
        excused = excused || std::any_of(pollers.begin(), pollers.end(), [&](const auto& poller) {
                    return poller.load(std::memory_order_relaxed) == tid;
                  });
      }
      if (process == nullptr && before != looks_.end()) {
        excused = look->asleep() && look->cpu_ns - before->second.look.cpu_ns < little_ns;
      }
      watched.spins = !charged && !look->asleep() &&
                      look->cpu_ns - watched.computed_from.cpu_ns > taken_for_a_spin_ns &&
                      !works_alone();
      const bool spun = before != looks_.end() && before->second.spins;
      if (watched.spins && !spun && someone_waits()) ++counters_.forced_answers;
      if (slot != slots.end()) {
        observe(*process, slot->second, *look, watched.spins || (look->asleep() && !ran));
      }
      if (watched.spins) continue;
      if (!look->asleep()) {
        asleep = false;
        awake_.push_back({tid, std::chrono::nanoseconds{look->cpu_ns}});
      }
      const bool has_clock =
          slot != slots.end() &&
          process->link.shared()->threads[slot->second].state != ThreadState::background;
      if (!has_clock && (!look->asleep() || (ran && !excused))) helpers_calm = false;
      if (!excused && (ran || !look->asleep())) process_quiet = false;
      if (!excused && !look->asleep() && process != nullptr) goes_on();  // it may come to no call
    }
    if (process != nullptr) {
      process->idle = process_quiet && process->welcomed && bound(*process) != never;
      note_sleep(*process);
    }
    calm = calm && process_quiet;
  }
  looks_ = std::move(looks);
  for (Process& process : processes_) {
    process.waits_for_ranks.reset();
    if (helpers_calm) process.waits_for_ranks = waiting_at(process);
  }
  if (!calm) return asleep ? Found::naps : Found::activity;
  return asleep ? Found::sleep : Found::calm;
}

/// Whether only answers of the engine let the process go on. One that waits for ranks may be
/// waiting for the outside all the same: its clock holds nobody up, and it can still act.
bool Engine::is_blocked(const Process& process) const {
  return bound(process) == never && !process.waits_for_ranks;
}

/// Where the clocks of a process stand all of whose threads wait and sleep.
std::optional<Time> Engine::waiting_at(const Process& process) const {
  if (process.ended || process.link.shared() == nullptr || !process.threads.empty())
    return std::nullopt;
  std::optional<Time> latest;
  for (const channel::ThreadSlot& slot : slots_of(*process.link.shared())) {
    const ThreadState state = slot.state.load();
    if (state == ThreadState::unused || state == ThreadState::background) continue;
    const auto look = looks_.find(slot.tid);
    if (state != ThreadState::waiting || look == looks_.end() || !look->second.look.asleep()) {
      return std::nullopt;
    }
    latest = std::max(latest.value_or(Time{}), Time{Duration{slot.clock_ps.load()}});
  }
  return latest;
}

/// Whether all ranks wait for each other, or for what is no rank.
bool Engine::ranks_wait() const {
  return std::ranges::all_of(processes_, [](const Process& process) {
    if (process.ended || process.link.shared() == nullptr) return true;
    const auto slots = slots_of(*process.link.shared());
    for (std::uint32_t i = 0; i < slots.size(); ++i) {
      const ThreadState state = slots[i].state.load();
      if ((state == ThreadState::running || state == ThreadState::sleeping) &&
          !process.threads.contains(i))
        return false;
    }
    return true;
  });
}

/// @return whether anybody did.
bool Engine::forget_who_waits_for_ranks() {
  bool any = false;
  for (Process& process : processes_) any |= std::exchange(process.waits_for_ranks, {}).has_value();
  return any;
}

void Engine::observe(Process& process, std::uint32_t index, const ThreadLook& look, bool asleep) {
  const channel::ThreadSlot& slot = process.link.shared()->threads[index];
  const std::int64_t clock = slot.clock_ps.load(std::memory_order_acquire);
  const auto [found, first] = process.observed.try_emplace(index);
  Observed& seen = found->second;
  const double scale = slot.charged_scale.load(std::memory_order_relaxed);
  if (first || seen.clock_ps != clock) {
    seen = {.clock_ps = clock, .first_cpu_ns = look.cpu_ns, .cpu_ns = look.cpu_ns};
  } else if (scale > 0 && look.cpu_ns > seen.cpu_ns) {
    // CPU time of the program's own, which its clock will show with its next call.
    seen.charged_ps +=
        static_cast<std::int64_t>(static_cast<double>(look.cpu_ns - seen.cpu_ns) * scale * 1000.0);
  }
  seen.cpu_ns = look.cpu_ns;
  seen.asleep = asleep;
}

/// The earliest instant at which a sleeping thread goes on by itself.
Time Engine::first_to_wake() const {
  Time first = never;
  for (const Process& process : processes_) {
    if (process.ended || process.link.shared() == nullptr) continue;
    for (const channel::ThreadSlot& slot : slots_of(*process.link.shared())) {
      const ThreadState state = slot.state.load();
      if (state == ThreadState::sleeping) first = std::min(first, Time{Duration{slot.clock_ps}});
      if (state == ThreadState::waiting) first = std::min(first, Time{Duration{slot.wakes_at_ps}});
    }
  }
  return first;
}

/// Every thread of the run sleeps: nobody can do anything before the first of the blocked calls
/// returns or the first host function runs, so that this one is safe.
bool Engine::go_on_at_rest() {
  // A parent that is quiet starts no more ranks, or none before those that it has started move.
  if (someone_waits() &&
      std::erase_if(expected_, [&](const auto& e) { return !started_.contains(e.first); }) > 0) {
    note_movement();
    progress();
    return true;
  }
  const auto answers = session_.force(first_to_wake());
  if (!answers) return false;
  for (const Answer& answer : *answers) give(answer);
  counters_.answers_at_rest += answers->size();
  last_progress_ = Clock::now();
  note_movement();
  progress();
  return true;
}

void Engine::look_for_stall(bool rests) {
  const auto now = Clock::now();
  const auto still = now - last_movement_;
  // Before the first call programs import their libraries, for long on a busy machine.
  const auto usual = processes_.empty() ? 60s : 10s;
  if (still > std::max<Clock::duration>(silence_, usual)) tell_that_nothing_moves();
  if (!rests) return;
  // A rank that has failed is heard of before its fellows are said to wait for it.
  if (now - last_progress_ < 1s) return;
  // A parent of several may be about to end or restart those whose fellow has ended.
  const bool restarts =
      !with_parent_.empty() &&
      std::any_of(processes_.begin(), processes_.end(), [](const Process& p) { return p.ended; });
  const bool all_blocked = expected_.empty() && !restarts &&
                           std::all_of(processes_.begin(), processes_.end(),
                                       [&](const Process& p) { return p.ended || is_blocked(p); });
  const bool some_blocked = std::any_of(processes_.begin(), processes_.end(),
                                        [](const Process& p) { return !p.threads.empty(); });
  const bool too_long = now - last_progress_ > options_.stall_timeout && !someone_sleeps_long() &&
                        (some_blocked || !someone_waits_outside());
  if ((all_blocked && some_blocked) || waits_for_the_dead() || too_long) diagnose_stall();
}

void Engine::note_sleep(Process& process) const {
  if (process.link.shared() == nullptr) return;
  for (const channel::ThreadSlot& slot : slots_of(*process.link.shared())) {
    if (slot.state.load() != ThreadState::sleeping) continue;
    if (slot.clock_ps.load() != std::exchange(process.sleeps_until_ps, slot.clock_ps.load())) {
      process.asleep_since = Clock::now();
    }
    return;
  }
  process.sleeps_until_ps = 0;
}

/// Whether one sleep takes so long that it explains why nothing moves: it will end. One of many in
/// a loop does not.
bool Engine::someone_sleeps_long() const {
  return std::any_of(processes_.begin(), processes_.end(), [&](const Process& process) {
    return !process.ended && process.sleeps_until_ps != 0 &&
           process.asleep_since < last_progress_ + options_.stall_timeout / 2;
  });
}

/// Whether a thread with a part in time waits for a descriptor, a process or memory: for what may
/// come from outside of the run.
bool Engine::someone_waits_outside() const {
  return std::any_of(processes_.begin(), processes_.end(), [&](const Process& process) {
    if (process.ended || process.link.shared() == nullptr || only_helps(process)) return false;
    const auto slots = slots_of(*process.link.shared());
    return std::any_of(slots.begin(), slots.end(), [](const channel::ThreadSlot& slot) {
      const channel::Wait wait = slot.wait.load();
      return slot.state.load() == ThreadState::waiting &&
             (wait == channel::Wait::descriptor || wait == channel::Wait::process ||
              wait == channel::Wait::memory);
    });
  });
}

/// Whether a blocked process waits for a call that an ended process can no longer make.
bool Engine::waits_for_the_dead() const {
  for (const OpenCall& open : session_.open_calls()) {
    const auto member = [&](int rank) -> const Process& {
      return processes_[process_of(open.communicator, rank)];
    };
    const bool hopeless = std::any_of(open.missing.begin(), open.missing.end(), [&](int rank) {
      // A parent hears of it too, and ends or restarts them.
      return member(rank).ended && !with_parent_.contains(member(rank).hello.rank);
    });
    if (!hopeless) continue;
    for (const int rank : open.waiting) {
      const Process& waiting = member(rank);
      if (!waiting.ended && is_blocked(waiting) && Clock::now() - waiting.heard > 1s) return true;
    }
  }
  return false;
}

}  // namespace phantora::run
