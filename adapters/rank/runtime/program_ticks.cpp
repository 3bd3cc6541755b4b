#include "rank/runtime/program_ticks.hpp"

#include "rank/runtime/host_thread.hpp"
#include "rank/runtime/rank.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>

#include <dlfcn.h>
#include <x86intrin.h>

namespace phantora::rank {

void ProgramTicks::begin(Time now) {
  {
    const std::lock_guard lock{mutex_};
    known_ = true;
    samples_.clear();
  }
  sample(now);
}

void ProgramTicks::end() noexcept {
  const std::lock_guard lock{mutex_};
  known_ = false;
}

void ProgramTicks::sample(Time now) {
  const std::lock_guard lock{mutex_};
  if (known_) samples_.push_back({__rdtsc(), now.time_since_epoch().count()});
}

std::optional<TickConverter> ProgramTicks::converter(Time now, std::int64_t epoch_ns) {
  sample(now);
  const std::lock_guard lock{mutex_};
  if (!known_) return std::nullopt;
  auto samples = std::make_shared<std::vector<Sample>>(samples_);
  std::sort(samples->begin(), samples->end(),
            [](const Sample& a, const Sample& b) { return a.ticks < b.ticks; });
  // Threads have clocks of their own; a reading does not say whose it is. Time does not go back.
  std::int64_t latest = samples->front().at_ps;
  for (Sample& sample : *samples) sample.at_ps = latest = std::max(latest, sample.at_ps);
  return [samples = std::move(samples), epoch_ns](std::uint64_t ticks) -> std::int64_t {
    if (ticks >> 63U != 0) return static_cast<std::int64_t>(ticks & ~(std::uint64_t{1} << 63U));
    const auto after =
        std::upper_bound(samples->begin(), samples->end(), ticks,
                         [](std::uint64_t t, const Sample& sample) { return t < sample.ticks; });
    if (after == samples->begin()) return epoch_ns + after->at_ps / 1000;
    const Sample& before = *std::prev(after);
    if (after == samples->end()) return epoch_ns + before.at_ps / 1000;
    const double part = static_cast<double>(ticks - before.ticks) /
                        static_cast<double>(after->ticks - before.ticks);
    const auto passed =
        static_cast<std::int64_t>(part * static_cast<double>(after->at_ps - before.at_ps));
    return epoch_ns + (before.at_ps + passed) / 1000;
  };
}

/// PyTorch's own; nullptr without PyTorch.
static void* torch_converter() {
  void* const library = dlopen("libc10.so", RTLD_NOW | RTLD_NOLOAD);
  return library == nullptr
             ? nullptr
             : dlsym(library, "_ZN3c1035ApproximateClockToUnixTimeConverter13makeConverterEv");
}

bool ticks_are_translated() { return torch_converter() != nullptr; }

}  // namespace phantora::rank

namespace c10 {

/// Of PyTorch's libc10.so, in whose place ours comes.
class ApproximateClockToUnixTimeConverter {
 public:
  __attribute__((visibility("default"))) phantora::rank::TickConverter makeConverter();
};

phantora::rank::TickConverter ApproximateClockToUnixTimeConverter::makeConverter() {
  namespace rank = phantora::rank;
  if (rank::in_virtual_time()) {
    if (auto ours = rank::this_rank().program_ticks.converter(rank::virtual_now(),
                                                              rank::epoch().realtime_ns)) {
      return *std::move(ours);
    }
  }
  using Theirs = rank::TickConverter (ApproximateClockToUnixTimeConverter::*)();
  // As the Itanium C++ ABI has it: the function, and what to add to `this`.
  void* const parts[2] = {rank::torch_converter(), nullptr};
  if (parts[0] == nullptr) return {};
  Theirs theirs{};
  static_assert(sizeof theirs == sizeof parts);
  std::memcpy(&theirs, parts, sizeof theirs);
  return (this->*theirs)();
}

}  // namespace c10
