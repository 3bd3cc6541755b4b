#include "rank/runtime/api_call.hpp"

#include "rank/runtime/host_thread.hpp"
#include "rank/runtime/rank.hpp"

#include <array>
#include <cstddef>
#include <optional>

namespace phantora::rank {
namespace {

// Up to here a call is shorter than stopping and starting the clock for it, which is two system
// calls. Such calls ask for something that is at hand, here as in the real library: their own CPU
// time stands for them.
constexpr Duration at_hand = std::chrono::nanoseconds{100};

void note_begin(HostThread& thread, const CalledFunction& function) noexcept {
  Rank& rank = this_rank();
  const Time now = rank.clocks.now(thread);
  rank.program_ticks.sample(now);
  rank.activities.call_begins(thread, function, now);
}

void note_end(HostThread& thread) noexcept {
  Rank& rank = this_rank();
  const Time now = rank.clocks.now(thread);
  rank.activities.call_ends(thread, now);
  rank.program_ticks.sample(now);
}

/// When the thread's last call of each kind ended: how warm it is.
thread_local constinit std::array<std::optional<Time>, static_cast<std::size_t>(Api::count)>
    ended{};

}  // namespace

ApiCall::ApiCall(Api api, CalledFunction function) noexcept {
  Rank* const in_time = rank_in_time();
  if (in_time == nullptr) return;
  Rank& rank = *in_time;
  HostThread& thread = this_thread();
  thread_ = &thread;
  if (thread.api_depth++ > 0) return;
  ++thread.calls;
  rank.clocks.goes_on(thread);
  const HostTimePolicy& policy = rank.clocks.policy();
  const bool measured = policy.kind == HostTime::measured;
  noted_ = rank.activities.wants_any();
  // The notes are no work of the program's.
  stops_clock_ = !measured || noted_ || host_cost(api) > at_hand;
  if (!stops_clock_) return;
  ThreadClocks::stop_charging(thread);
  if (noted_) note_begin(thread, function);
  if (!thread.issues || policy.kind == HostTime::off) return;
  if (measured) rank.clocks.follow_speed(thread);
  std::optional<Time>& last = ended[static_cast<std::size_t>(api)];
  const Time now = thread.clock.now();
  thread.clock.advance(host_cost(api, policy, last ? std::optional{now - *last} : std::nullopt));
  last = thread.clock.now();
}

ApiCall::~ApiCall() {
  if (thread_ == nullptr) return;
  Rank* const rank = rank_in_time();
  if (rank == nullptr) return;
  HostThread& thread = *thread_;
  if (--thread.api_depth > 0) return;
  if (noted_) note_end(thread);
  if (!stops_clock_ || !thread.keeps_time()) return;
  if (thread.issues) rank->clocks.publish(thread);
  ThreadClocks::charge_host(thread);
}

void costs_more(Duration by) noexcept {
  if (!in_virtual_time() || host_time_policy().kind != HostTime::measured) return;
  HostThread& thread = this_thread();
  if (thread.issues) thread.clock.advance(times(by, host_time_policy().host.calls));
}

}  // namespace phantora::rank
