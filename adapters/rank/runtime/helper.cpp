#include "rank/runtime/helper.hpp"

#include "channel/wire.hpp"
#include "rank/runtime/cpu_clock.hpp"
#include "rank/runtime/message_times.hpp"
#include "rank/runtime/rank.hpp"

namespace phantora::rank {
namespace {

std::int64_t ps_of(Time time) { return time.time_since_epoch().count(); }
Time time_of_ps(std::int64_t ps) { return Time{Duration{ps}}; }

/// The calling thread's, and of which process it is: one that forks leaves its child a copy, whose
/// CPU time has begun anew.
struct ThreadTime {
  const Helper* of = nullptr;
  VirtualClock clock{};
};
thread_local ThreadTime own{};

}  // namespace

double Helper::scale() const noexcept {
  if (policy_.scale) return *policy_.scale;
  const double measured = run_.host_scale.load(std::memory_order_relaxed);
  return measured > 0 ? measured : policy_.host.work;
}

VirtualClock& Helper::clock() noexcept {
  if (own.of != this) {
    own.of = this;
    own.clock = policy_.kind == HostTime::measured
                    ? VirtualClock{thread_cpu_time, scale(), reading_cost()}
                    : VirtualClock{};
    own.clock.wait_until(beginning_);
    own.clock.resume_host();
  } else if (policy_.kind == HostTime::measured && scale() != own.clock.host_scale()) {
    own.clock.set_host_scale(scale());
  }
  return own.clock;
}

Time Helper::now() noexcept { return clock().now(); }
void Helper::begins_at(Time instant) noexcept { clock().wait_until(instant); }

void Helper::leaves_time(const void* object) noexcept { left_.leave(object, ps_of(now())); }

void Helper::takes_time(const void* object) noexcept {
  if (const auto left_ps = left_.at(object)) clock().wait_until(time_of_ps(*left_ps));
}

void Helper::sends_time(std::uint64_t key) noexcept {
  leave_message_time(run_, key, {.clock_ps = ps_of(now()), .by_helper = true});
}

void Helper::has_sent(std::uint64_t key, std::size_t bytes) noexcept {
  message_was_written(run_, key, bytes);
}

void Helper::receives_time(std::uint64_t key, std::size_t bytes) noexcept {
  const MessageTime sent = message_was_read(run_, key, bytes);
  if (sent.clock_ps != 0) clock().wait_until(time_of_ps(sent.clock_ps));
}

void Helper::slept(Duration length) noexcept { clock().advance(length); }

Helper* helper() noexcept {
  const Rank* const rank = detail::the_rank.load(std::memory_order_acquire);
  if (rank == nullptr || rank->standing.load(std::memory_order_relaxed) == Standing::in_time)
    return nullptr;
  return rank->helper.load(std::memory_order_relaxed);
}

}  // namespace phantora::rank
