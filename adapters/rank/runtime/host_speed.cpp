#include "rank/runtime/host_speed.hpp"

#include "rank/runtime/cpu_clock.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

namespace phantora::rank {
namespace {

// A table of names, as attribute and operator look-ups go through; of a size that does not stay in
// the first-level cache while a program runs between two samples.
constexpr std::size_t names = 512, slots = 2 * names;
struct Name {
  std::array<char, 24> text;
  std::uint32_t hash;
  std::atomic<std::uint32_t> references;
  Name* next;
};

std::uint32_t hash_of(const char* text) noexcept {
  std::uint32_t hash = 2166136261U;  // FNV-1a
  for (; *text != 0; ++text) hash = (hash ^ static_cast<unsigned char>(*text)) * 16777619U;
  return hash;
}

struct Table {
  std::array<Name, names> all{};
  std::array<Name*, slots> heads{};
  Table() noexcept {
    for (std::uint32_t i = 0; i < names; ++i) {
      Name& name = all[i];
      std::uint32_t rest = i * 2654435761U;
      for (int c = 0; c < 8 + static_cast<int>(i % 9); ++c, rest = rest * 1664525U + 1013904223U)
        name.text[static_cast<std::size_t>(c)] = static_cast<char>('a' + (rest >> 24U) % 26);
      name.hash = hash_of(name.text.data());
      Name*& head = heads[name.hash % slots];
      name.next = head;
      head = &name;
    }
  }
};

using Step = std::uint32_t (*)(std::uint32_t);
template <std::uint32_t N>
[[gnu::noinline]] std::uint32_t step(std::uint32_t x) {
  return (x >> (N % 7U)) % 3 == 0 ? x * (2 * N + 3) + N : (x ^ (x << (N % 5U + 1))) - N;
}
template <std::size_t... N>
constexpr std::array<Step, sizeof...(N)> steps_of(std::index_sequence<N...>) {
  return {step<N>...};
}
constexpr auto steps = steps_of(std::make_index_sequence<32>{});

}  // namespace

unsigned reference_work() noexcept {
  static Table* const table = new Table;  // outlives every thread
  std::uint32_t x = 12345;
  for (int round = 0; round < 200; ++round) {
    const Name& wanted = table->all[x % names];
    Name* found = table->heads[hash_of(wanted.text.data()) % slots];
    while (std::strcmp(found->text.data(), wanted.text.data()) != 0) found = found->next;
    found->references.fetch_add(1);
    const std::unique_ptr<std::uint32_t[]> held{new std::uint32_t[4 + x % 60]};
    const std::uint32_t at = x % 4;
    held[at] = x;
    for (int call = 0; call < 6; ++call) x = steps[(x >> 11U) % steps.size()](x);
    x += held[at];
    found->references.fetch_sub(1);
  }
  return x;
}

void HostSpeed::refill_caches(VirtualClock& clock) noexcept {
  const double scale = clock.host_scale();
  const OtherTime now{real_time() - clock.measured(),
                      clock.now().time_since_epoch() - clock.charged()};
  const std::optional<OtherTime> before = std::exchange(at_call_, now);
  if (!before || scale <= 0) return;
  // What the thread waited for takes its time there as well, and empties the caches there.
  const auto elsewhere = scale * (now.here - before->here) - (now.there - before->there);
  const auto due = CacheRefill::after(scale * clock.left_out(), elsewhere) / scale;
  clock.leave_out(std::chrono::duration_cast<std::chrono::nanoseconds>(due), CacheRefill::share);
}

bool HostSpeed::look(VirtualClock& clock) noexcept {
  // A sample takes 50 us: 1 % of the work between two.
  constexpr std::chrono::milliseconds between{5};
  if (measured_at_sample_ && clock.measured() - *measured_at_sample_ < between) return false;
  [[maybe_unused]] static volatile unsigned result;
  scale_.sample(cpu_time_of([] {
    result = reference_work();  // as the program left the core's caches and predictors
    result = reference_work();  // warm
  }));
  measured_at_sample_ = clock.measured();
  return true;
}

}  // namespace phantora::rank
