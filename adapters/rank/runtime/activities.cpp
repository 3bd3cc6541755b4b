#include "rank/runtime/activities.hpp"

#include "rank/runtime/host_thread.hpp"
#include "rank/runtime/rank.hpp"

#include <algorithm>
#include <mutex>
#include <tuple>

#include <pthread.h>

namespace phantora::rank {
namespace {

using Numbers = std::map<std::uint32_t, std::vector<std::uint64_t>>;
Numbers& numbers() {
  thread_local Numbers by_kind;
  return by_kind;
}

std::uint32_t thread_number() {
  return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(pthread_self()));
}

Time time_of(std::int64_t ps) { return Time{Duration{ps}}; }

}  // namespace

void Activities::call_begins(HostThread& thread, const CalledFunction& function, Time now) {
  thread.call = {.function = function, .number = 0, .start = now};
  if (function.interface != Interface::library) (void)call_of(thread);
}

void Activities::call_ends(HostThread& thread, Time now) {
  const HostThread::Call call = std::exchange(thread.call, {});
  if (call.number == 0 || !wants(calls)) return;
  note(CallActivity{.function = call.function,
                    .thread = thread_number(),
                    .call = call.number,
                    .start = call.start,
                    .end = now});
}

/// The number of the call under which the calling thread does something. A library launches what it
/// launches through the driver, each by a call of its own.
std::uint32_t Activities::call_of(HostThread& thread) {
  if (thread.call.number != 0) return thread.call.number;
  const std::uint32_t number = last_call_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (wants(named_calls)) {
    for (const auto& [kind, pushed] : numbers())
      if (!pushed.empty()) note(NamedCallActivity{kind, pushed.back(), number});
  }
  if (thread.call.function.interface != Interface::library) {
    thread.call.number = number;
  } else if (wants(calls)) {
    const Time now = thread.clock.now();
    note(CallActivity{.function = {Interface::driver, "cuLaunchKernelEx"},
                      .thread = thread_number(),
                      .call = number,
                      .start = thread.call.start == Time{} ? now : thread.call.start,
                      .end = now});
    thread.call.start = now;
  }
  return number;
}

void Activities::push_number(std::uint32_t kind, std::uint64_t number) {
  numbers()[kind].push_back(number);
}

std::optional<std::uint64_t> Activities::pop_number(std::uint32_t kind) {
  std::vector<std::uint64_t>& pushed = numbers()[kind];
  if (pushed.empty()) return std::nullopt;
  const std::uint64_t number = pushed.back();
  pushed.pop_back();
  return number;
}

void Activities::describe(QueryId id, const KernelQuery* query, const KernelCode& code) {
  const std::lock_guard lock{mutex_};
  if (queries_.size() <= id) queries_.resize(id + 1);
  queries_[id] = {query, code};
}

std::uint64_t Activities::await(Activity activity) {
  const std::lock_guard lock{mutex_};
  unfinished_.emplace(++last_tag_, std::move(activity));
  return last_tag_;
}

void Activities::note(Activity activity) {
  const std::lock_guard lock{mutex_};
  finished_.push_back(std::move(activity));
}

std::uint64_t Activities::note_launch(HostThread& thread, const Stream& stream, QueryId query) {
  LaunchActivity launch{.stream = &stream, .call = call_of(thread)};
  {
    const std::lock_guard lock{mutex_};
    std::tie(launch.query, launch.code) = queries_.at(query);
  }
  return await(launch);
}

std::uint64_t Activities::launched(HostThread& thread, const CollectiveCall& call) {
  if (!wants(launches)) return 0;
  return await(CollectiveActivity{
      .op = call.op, .type = call.type, .stream = call.stream, .call = call_of(thread)});
}

void Activities::waited(HostThread& thread, WaitActivity wait) {
  if (!wants(waits)) return;
  wait.call = call_of(thread);
  note(wait);
}

void Activities::recorded(HostThread& thread, const Stream& stream, Marker marker) {
  if (!wants(events)) return;
  note(EventActivity{.stream = &stream, .marker = marker, .call = call_of(thread)});
}

std::vector<Stream*> Activities::unfinished() {
  const std::lock_guard lock{mutex_};
  std::vector<Stream*> streams;
  for (const auto& [tag, activity] : unfinished_) {
    const Stream* const stream = std::visit(
        [](const auto& a) -> const Stream* {
          if constexpr (requires { a.stream; }) return a.stream;
          return nullptr;
        },
        activity);
    streams.push_back(const_cast<Stream*>(stream));
  }
  std::sort(streams.begin(), streams.end(),
            [](const Stream* a, const Stream* b) { return a->id < b->id; });
  streams.erase(std::unique(streams.begin(), streams.end()), streams.end());
  return streams;
}

void Activities::finish(std::span<const channel::TaggedSpan> spans) {
  const std::lock_guard lock{mutex_};
  for (const channel::TaggedSpan& span : spans) {
    auto ended = unfinished_.extract(span.tag);
    if (ended.empty()) continue;
    std::visit(
        [&](auto& activity) {
          if constexpr (requires { activity.start; }) {
            activity.start = time_of(span.start_ps);
            activity.end = time_of(span.end_ps);
          }
          if constexpr (requires { activity.tree; }) activity.tree = span.tree != 0;
        },
        ended.mapped());
    finished_.push_back(std::move(ended.mapped()));
  }
}

std::vector<Activity> Activities::take() {
  const std::lock_guard lock{mutex_};
  return std::exchange(finished_, {});
}

void want_activities(unsigned kinds) {
  Rank& rank = this_rank();
  const bool followed = rank.activities.wants_any();
  rank.activities.want(kinds);
  if (kinds != 0 && !followed) rank.program_ticks.begin(virtual_now());
  if (kinds == 0) rank.program_ticks.end();
}

std::vector<Activity> take_activities() {
  Rank& rank = this_rank();
  HostThread& thread = this_thread();
  const std::vector<Stream*> streams = rank.activities.unfinished();
  if (!streams.empty()) {
    // Once this is answered, what the streams have done until now is simulated.
    for (Stream* const stream : streams) (void)rank.streams.done(thread, *stream);
    rank.streams.ask(thread, {.op = channel::Op::take_spans});
  }
  return rank.activities.take();
}

}  // namespace phantora::rank
