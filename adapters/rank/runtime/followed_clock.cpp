#include "rank/runtime/followed_clock.hpp"

#include "rank/runtime/rank.hpp"
#include "rank/runtime/run_memory.hpp"

#include <algorithm>

namespace phantora::rank {

std::unique_ptr<FollowedClock> FollowedClock::open(const std::string& path) noexcept {
  channel::RunShared* const run = run_memory_at(path);
  return run == nullptr ? nullptr : std::make_unique<FollowedClock>(*run);
}

std::int64_t FollowedClock::monotonic_ns(std::int64_t real_ns) noexcept {
  // In this order: where the run comes to stand in between, its last stretch counts twice and not
  // never, so that the clock is slow for a moment and never fast.
  const std::int64_t since = run_->goes_since_ns.load();
  std::int64_t went = run_->went_ns.load();
  if (since != 0) went += std::max<std::int64_t>(0, real_ns - since);
  const std::int64_t now = real_ns - went + run_->answered_ps.load() / 1000;
  std::int64_t shown = shown_ns_.load(std::memory_order_relaxed);
  while (shown < now && !shown_ns_.compare_exchange_weak(shown, now, std::memory_order_relaxed)) {
  }
  return std::max(shown, now);
}

FollowedClock* followed_clock() noexcept {
  const Rank* const rank = detail::the_rank.load(std::memory_order_acquire);
  if (rank == nullptr || rank->standing.load(std::memory_order_relaxed) != Standing::may_join) {
    return nullptr;
  }
  return rank->followed.get();
}

}  // namespace phantora::rank
