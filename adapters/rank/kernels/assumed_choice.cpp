#include "rank/kernels/assumed_choice.hpp"

#include "rank/runtime/process.hpp"
#include "rank/small_data.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace phantora::rank {

namespace {

/// Published models have up to 384 experts (Kimi K2); vocabularies and classes of ImageNet are
/// more.
constexpr std::size_t most_experts = 512;

channel::Choice choice() {
  const channel::Settings* const told = settings();
  return told != nullptr ? told->routing : channel::Choice::none;
}

/// splitmix64 (Vigna, public domain algorithm).
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31U);
}

void note_assumption() {
  small_data().choices.any.store(true, std::memory_order_relaxed);
  count("assumed_routing");
}

}  // namespace

bool assumes_choice(std::size_t count, std::size_t chosen) {
  return choice() != channel::Choice::none && chosen > 0 && chosen < count && count <= most_experts;
}

std::optional<std::vector<std::size_t>> assumed_choice(std::size_t row, std::size_t count,
                                                       std::size_t chosen) {
  if (!assumes_choice(count, chosen)) return std::nullopt;
  std::vector<std::size_t> places(chosen);
  std::iota(places.begin(), places.end(), std::size_t{0});
  if (choice() == channel::Choice::balanced) {
    // Each row goes on where the one before it ended: every place is chosen as often as any other.
    for (std::size_t& place : places) place = (row * chosen + place) % count;
  } else if (choice() == channel::Choice::random) {
    std::uint64_t draw = row;
    for (auto place = places.begin(); place != places.end(); ++place) {
      do {
        draw = mixed(draw);
        *place = draw % count;
      } while (std::find(places.begin(), place, *place) != place);
    }
  }
  return places;
}

std::vector<std::int64_t> assumed_counts(std::size_t rows, std::size_t count) {
  std::vector<std::int64_t> chosen(count);
  for (std::size_t row = 0; row < rows; ++row)
    if (const auto choice = assumed_choice(row, count, 1)) ++chosen[choice->front()];
  note_assumption();
  return chosen;
}

void note_assumed_choice(const void* indices) {
  small_data().choices.last.store(indices, std::memory_order_relaxed);
  note_assumption();
}

bool is_assumed_choice(const void* indices) {
  return indices != nullptr && small_data().choices.last.load(std::memory_order_relaxed) == indices;
}

std::size_t executed_bytes() {
  return small_data().choices.any.load(std::memory_order_relaxed) ? routed_bytes : small_bytes;
}

}  // namespace phantora::rank
