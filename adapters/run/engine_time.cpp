// How early each process may issue work, what is answered when nothing earlier can come, and who
// goes on with the answer (design section 4).

#include "run/channel_time.hpp"
#include "run/engine.hpp"

#include <phantora/error.hpp>

#include <algorithm>

namespace phantora::run {
namespace {

using channel::Record;
using channel::Reply;
using channel::ThreadState;
using Clock = std::chrono::steady_clock;

/// While it lives, RunShared::passes is odd.
class Pass {
 public:
  explicit Pass(std::atomic<std::uint64_t>& passes) : passes_{passes} { passes_.fetch_add(1); }
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;
  ~Pass() { passes_.fetch_add(1); }

 private:
  std::atomic<std::uint64_t>& passes_;
};

}  // namespace

/// Whether the process has only asked what GPUs there are, and another of its rank does the work:
/// as the processes that compile kernels for PyTorch do. Nobody waits for what it may do.
bool Engine::only_helps(const Process& process) const {
  const auto all = processes_of_rank_.find(process.hello.rank);
  return process.welcomed && !process.issued && all != processes_of_rank_.end() && all->second > 1;
}

Time Engine::bound(const Process& process) const {
  if (process.ended || only_helps(process)) return never;
  if (!process.welcomed) return Time{};
  HostProcess threads;
  const auto slots = slots_of(*process.link.shared());
  for (std::uint32_t i = 0; i < slots.size(); ++i) {
    const channel::ThreadSlot& slot = slots[i];
    if (const auto known = process.threads.find(i); known != process.threads.end()) {
      if (known->second.held) {
        threads.runs(time_of(known->second.held->clock_ps));
        continue;
      }
      if (known->second.blocked) {
        threads.is_blocked();
        continue;
      }
    }
    const ThreadState state = slot.state.load(std::memory_order_acquire);
    Time clock = time_of(slot.clock_ps.load(std::memory_order_acquire));
    bool waits = false;
    const auto seen = process.observed.find(i);
    if (state == ThreadState::running && seen != process.observed.end() &&
        seen->second.clock_ps == ps_of(clock)) {
      // It waits in a way that nobody told us, or computes without calling.
      waits = seen->second.asleep;
      clock += Duration{seen->second.charged_ps};
    }
    if (state == ThreadState::waiting) {
      threads.waits(clock, time_of(slot.wakes_at_ps.load()));
    } else if (waits) {
      threads.waits(clock);
    } else if (state == ThreadState::running || state == ThreadState::sleeping) {
      threads.runs(clock);
    }
  }
  const bool ranks_wake =
      process.waits_for_ranks && process.waits_for_ranks == threads.waiting_at();
  if (const auto known = threads.bound(ranks_wake)) return *known;
  // The threads that used a GPU have ended, and the main thread has made no call since.
  return latest_clock(*process.link.shared());
}

/// The latest clock of the process's threads, with what they have computed since they last called.
Time Engine::latest(const Process& process) const {
  Time latest{};
  for (const auto& [index, seen] : process.observed) {
    if (seen.clock_ps == process.link.shared()->threads[index].clock_ps.load()) {
      latest = std::max(latest, time_of(seen.clock_ps + seen.charged_ps));
    }
  }
  return latest;
}

/// Whether all threads of the process that have a part in time wait: then a background thread that
/// asks about its GPU may be what they wait for, and its asking takes their time.
bool Engine::stands_in(const Process& process) const {
  const auto slots = slots_of(*process.link.shared());
  for (std::uint32_t i = 0; i < slots.size(); ++i) {
    const channel::ThreadSlot& slot = slots[i];
    const ThreadState state = slot.state.load(std::memory_order_acquire);
    if (state == ThreadState::sleeping) return false;
    if (state != ThreadState::running) continue;
    const auto seen = process.observed.find(i);
    if (process.threads.contains(i) || seen == process.observed.end() || !seen->second.asleep ||
        seen->second.clock_ps != slot.clock_ps.load()) {
      return false;
    }
  }
  return true;
}

void Engine::progress() {
  while (true) {
    const Pass pass{run_.memory->passes};
    std::vector<Time> bounds;
    // A clock is read before the ring: whatever its thread issued earlier is then in the ring.
    for (Process& process : processes_) {
      bounds.push_back(bound(process));
      drain(process);
    }
    // A clock is read before the number of messages too: what its thread sent earlier is counted.
    if (run_.memory->sends.load() != sends_at_look_ && forget_who_waits_for_ranks()) continue;
    for (const auto& [rank, expected] : expected_) bounds.push_back(expected.bound);
    show_time(bounds);
    const Time before = session_.now();
    const std::vector<Answer> answers = session_.advance(bounds);
    for (const Answer& answer : answers) give(answer);
    send_host_functions();
    for (const std::uint64_t tag : session_.finished_collectives()) {
      const auto found = tags_.find(tag);
      if (found == tags_.end()) continue;
      Process& process = processes_[found->second.process];
      for (const std::uint64_t ticket : found->second.tickets) {
        if (process.delivered.erase(ticket) == 0) process.undelivered.insert(ticket);
      }
      tags_.erase(found);
    }
    release_held();
    const bool moved = !answers.empty() || bounds != last_bounds_ || session_.now() != before;
    last_bounds_ = bounds;
    if (moved) note_movement();
    if (!answers.empty()) {
      last_progress_ = Clock::now();
      continue;
    }
    // Nothing more is safe. Ask to be told when a clock passes what we wait for, then look again
    // in case it did so meanwhile.
    const Time awaited = session_.awaited();
    bool again = false;
    for (Process& process : processes_) {
      if (process.link.shared() == nullptr) continue;
      process.link.shared()->doorbell_at.store(awaited == never ? channel::no_time
                                                                : ps_of(awaited));
      again = again || process.link.has_records() || bound(process) != bounds[process.index];
    }
    if (!again) return;
  }
}

/// Simulated time, or some clock, has moved.
void Engine::note_movement() {
  goes_on();
  last_movement_ = Clock::now();
  pause_ = std::chrono::milliseconds{1};
  rest_.moved();
  silence_ = {};
}

/// To the clocks of processes without a GPU: what every rank has come to is simulated, also where
/// all of them but wait, again and again, and make no calls.
void Engine::show_time(const std::vector<Time>& bounds) {
  Time least = never;
  for (const Time bound : bounds) least = std::min(least, bound);
  if (least == never) return;
  auto& answered = run_.memory->answered_ps;
  answered.store(std::max(answered.load(), ps_of(least)));
}

/// The clocks of processes without a GPU go by simulated time from here on, if anybody simulates.
void Engine::goes_on() {
  const auto simulates = [](const Process& process) { return process.welcomed && !process.ended; };
  auto& since = run_.memory->goes_since_ns;
  if (since.load() == 0 && std::ranges::any_of(processes_, simulates))
    since.store(Clock::now().time_since_epoch().count());
}

/// They go by real time: nothing is simulated until one of them does something.
void Engine::stands() {
  auto& since = run_.memory->goes_since_ns;
  if (since.load() == 0) return;
  // In this order a reader in between sees a clock that is slow, which it does not show.
  run_.memory->went_ns.fetch_add(Clock::now().time_since_epoch().count() - since.load());
  since.store(0);
}

/// They went by real time from one instant to the other.
void Engine::stood(Clock::time_point from, Clock::time_point to) {
  auto& since = run_.memory->goes_since_ns;
  const std::int64_t begin = since.load(), from_ns = from.time_since_epoch().count();
  if (begin == 0 || begin > from_ns) return;
  // A reader in between sees a clock that is slow.
  run_.memory->went_ns.fetch_add(from_ns - begin);
  since.store(to.time_since_epoch().count());
}

void Engine::give(const Answer& answer) {
  if (options_.recorder != nullptr) options_.recorder->answered(answer);
  Process& process = processes_[answer.process];
  Reply reply_to{.clock_ps = ps_of(answer.clock), .value = answer.done ? 1 : 0};
  auto& answered = run_.memory->answered_ps;
  answered.store(std::max(answered.load(), reply_to.clock_ps));
  if (!process.ended &&
      process.link.shared()->threads.at(answer.thread).state.load() == ThreadState::background) {
    reply_to.counts = true;
    reply(process, answer.thread, reply_to);  // it uses no turn
  } else {
    hold(process, answer.thread, reply_to);
  }
}

void Engine::send_host_functions() {
  for (const auto& [ticket, at] : session_.due_host_functions()) {
    processes_[ticket >> channel::id_bits].link.send(
        {.kind = channel::Delivery::Kind::run_host_function,
         .bytes = 0,
         .ticket = ticket & ((std::uint64_t{1} << channel::id_bits) - 1),
         .clock_ps = ps_of(at)},
        {});
    note_movement();
  }
}

void Engine::block(Process& process, const Record& record) {
  PHANTORA_EXPECTS(record.thread < channel::max_threads, "a thread's slot");
  last_progress_ = Clock::now();
  process.threads[record.thread] = {
      .blocked = true, .held = {}, .in = record.op, .since = time_of(record.clock_ps)};
}

void Engine::hold(Process& process, std::uint32_t thread, Reply answer) {
  process.threads[thread].held = answer;
}

std::vector<Contender> Engine::contenders() const {
  std::vector<Contender> all;
  for (const Process& process : processes_) {
    if (process.ended) continue;
    Contender& contender = all.emplace_back(Contender{.process = process.index});
    auto& next = contender.next;
    if (!process.welcomed && process.hello.pid != 0) next = {0, channel::no_thread};
    if (!process.undelivered.empty()) continue;
    for (const auto& [thread, state] : process.threads) {
      if (state.held && (!next || state.held->clock_ps < next->clock_ps)) {
        next = {state.held->clock_ps, thread};
      }
    }
  }
  if (std::none_of(all.begin(), all.end(), [](const auto& one) { return one.next.has_value(); })) {
    return {};
  }
  const auto now = Clock::now();
  for (Contender& contender : all) {
    const Process& process = processes_[contender.process];
    if (!process.welcomed) continue;
    const auto slots = slots_of(*process.link.shared());
    TurnUse use{.has_threads = !slots.empty(),
                .idle = process.idle,
                .silent_for = now - std::max(process.heard, process.turn)};
    for (std::uint32_t i = 0; i < slots.size(); ++i) {
      const auto known = process.threads.find(i);
      const bool blocked =
          known != process.threads.end() && (known->second.blocked || known->second.held);
      const ThreadState state = slots[i].state.load(std::memory_order_acquire);
      use.thread_runs = use.thread_runs || (!blocked && state == ThreadState::running);
    }
    contender.uses_turn = uses_turn(use);
  }
  return all;
}

/// Lets as many go on as may run.
void Engine::release_held() {
  while (const auto next = next_turn(contenders(), options_.runnable)) {
    Process& process = processes_[next->process];
    process.idle = false;
    process.turn = Clock::now();
    const std::uint32_t thread = next->next->thread;
    if (thread == channel::no_thread) {
      greet(process);
    } else {
      const Reply answer = *process.threads[thread].held;
      reply(process, thread, answer);
    }
  }
}

void Engine::reply(Process& process, std::uint32_t thread, const Reply& answer) {
  process.threads.erase(thread);
  process.link.reply(thread, answer);
}

void Engine::deliver(const Delivered& delivered) {
  Process& process = processes_[delivered.process];
  process.link.send({.kind = channel::Delivery::Kind::result,
                     .bytes = static_cast<std::uint32_t>(delivered.bytes.size()),
                     .ticket = delivered.ticket},
                    delivered.bytes);
  if (process.undelivered.erase(delivered.ticket) == 0) process.delivered.insert(delivered.ticket);
}

void Engine::finish() {
  for (Process& process : processes_) drain(process);
  const std::vector<Time> bounds(processes_.size(), never);
  while (!session_.advance(bounds).empty()) {
  }
}

}  // namespace phantora::run
