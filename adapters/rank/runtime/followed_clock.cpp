#include "rank/runtime/followed_clock.hpp"

#include "rank/runtime/rank.hpp"

#include <algorithm>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace phantora::rank {

std::unique_ptr<FollowedClock> FollowedClock::open(const std::string& path) noexcept {
  if (path.empty()) return nullptr;
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return nullptr;
  void* const address =
      mmap(nullptr, sizeof(channel::RunShared), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  close(descriptor);
  if (address == MAP_FAILED) return nullptr;
  return std::make_unique<FollowedClock>(*static_cast<channel::RunShared*>(address));
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
