// The pieces of work of `phantora host`, for host_mix.py:
//
//   g++ -O2 -std=c++20 -fPIC -shared -Iadapters -Iinclude bench/accuracy/host_mix.cpp
//     adapters/rank/runtime/{host_speed,cpu_clock}.cpp -o host_mix.so

#include "run/host_measurement.cpp"

/// Loads from all over 16 MiB, more than a core's own caches hold, none of which waits for another.
static unsigned free_loads() {
  constexpr std::size_t size = 16U << 20U;
  static const std::vector<unsigned char> bytes(size, 1);
  static std::uint32_t random = 1;
  unsigned sum = 0;
  for (int i = 0; i < 500; ++i) {
    random = random * 1664525U + 1013904223U;
    sum += bytes[(random >> 8U) & (size - 1)];
  }
  return sum;
}

/// CPU time in nanoseconds of a round of interpreter-like work (0), allocations (1), loads that
/// wait for one another (2) or do not (3).
extern "C" double host_mix_ns(int kind) {
  using namespace phantora;
  static run::Allocations allocations;
  static run::Loads loads;
  [[maybe_unused]] static volatile unsigned result;
  constexpr int rounds = 4;
  const auto begin = rank::thread_cpu_time();
  for (int i = 0; i < rounds; ++i) {
    if (kind == 0) result = rank::reference_work();
    if (kind == 1) allocations();
    if (kind == 2) loads();
    if (kind == 3) result = free_loads();
  }
  return static_cast<double>((rank::thread_cpu_time() - begin).count()) / rounds;
}
