#include "simulation/shard_memory.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <variant>
#include <vector>

namespace phantora::detail {
namespace {

using Sizes = std::vector<double>;

// PyTorch's allocator takes memory of the GPU in segments (get_allocation_size() in its
// c10/cuda/CUDACachingAllocator.cpp): tensors of up to 1 MiB share segments of 2 MiB, those of less
// than 10 MiB segments of 20 MiB, and a larger one has its own, of whole 2 MiB.
constexpr double mib = 1 << 20;
constexpr double least_own = 10 * mib, whole = 2 * mib;
struct Shared {
  double segment = 0, largest = 0;  ///< and the largest of what lies in it
};
constexpr Shared shared_segments[] = {{2 * mib, 1 * mib}, {20 * mib, least_own}};

bool is_shared(double size) {
  return std::any_of(std::begin(shared_segments), std::end(shared_segments),
                     [&](const Shared& it) { return size == it.segment; });
}

/// Upwards, but for what calculation in floating point adds.
double whole_number(double number) { return std::ceil(std::max(0.0, number) - 1e-9); }

/// What a rank holds at its peak.
struct Held {
  Sizes segments{};  ///< as a record has them, in the order in which they were taken
  double named = 0;  ///< the sum of what has a label: sizes as somebody wrote them down
};

Held held_at_peak(const WorkloadDocument& job, std::size_t rank) {
  std::vector<const Workload::Allocate*> blocks;
  Bytes held{}, peak{};
  /// Until the rank has taken something and `enough` says so.
  const auto go = [&](auto enough) {
    blocks.clear();
    held = {};
    for (const Workload::Operation& operation : job.ranks[rank]) {
      if (const auto* allocate = std::get_if<Workload::Allocate>(&operation)) {
        blocks.push_back(allocate);
        held += allocate->size;
        if (enough()) return;
      } else if (const auto* free = std::get_if<Workload::Free>(&operation)) {
        held -= blocks[free->block]->size;
        blocks[free->block] = nullptr;
      }
    }
  };
  go([&] {
    peak = std::max(peak, held);
    return false;
  });
  go([&] { return held == peak; });
  Held result;
  for (const Workload::Allocate* block : blocks) {
    if (block == nullptr) continue;
    const auto size = static_cast<double>(block->size.count());
    if (job.labels[block->label].empty()) {
      result.segments.push_back(size);
    } else {
      result.named += size;
    }
  }
  return result;
}

/// Takes the first that fulfils a condition out.
template <class Condition>
std::optional<double> take_first(Sizes& sizes, Condition condition) {
  const auto found = std::find_if(sizes.begin(), sizes.end(), condition);
  if (found == sizes.end()) return std::nullopt;
  const double size = *found;
  sizes.erase(found);
  return size;
}

/// What segments are together, of the wanted number. A record has segments, and not what lies in
/// them: what can be told of that is told by how they differ between few replicas and many.
double wanted_segments(Sizes few, const Sizes& many, const Trend& trend) {
  double sum = 0;
  Sizes others;  // that only many have
  for (const double size : many) {
    if (take_first(few, [&](double it) { return it == size; })) {
      sum += size;
    } else {
      others.push_back(size);
    }
  }

  // A segment of its own goes with a larger one of few, or, if there is none, a smaller: a shard's
  // sizes differ by no more than the numbers do.
  double shared[std::size(shared_segments)] = {};  // what comes to lie in them
  const double ratio = trend.many / trend.few;
  for (const double size : others) {
    if (is_shared(size)) continue;
    auto before = take_first(
        few, [&](double it) { return !is_shared(it) && it > size && it <= size * ratio; });
    if (!before)
      before = take_first(
          few, [&](double it) { return !is_shared(it) && it < size && it * ratio >= size; });
    const double wanted = before ? std::max(0.0, trend.at_wanted(*before, size)) : size;
    if (size < least_own || std::fmod(size, whole) != 0) {
      sum += wanted;  // another allocator's
    } else if (wanted >= least_own) {
      sum += whole * whole_number(wanted / whole);
    } else {
      shared[wanted <= shared_segments[0].largest ? 0 : 1] += wanted;
    }
  }

  for (std::size_t i = 0; i < std::size(shared_segments); ++i) {
    const double segment = shared_segments[i].segment;
    const auto same = [&](double size) { return size == segment; };
    const auto both = static_cast<double>(std::count_if(many.begin(), many.end(), same) -
                                          std::count_if(others.begin(), others.end(), same));
    const auto fewer = static_cast<double>(std::count_if(few.begin(), few.end(), same));
    const auto more = static_cast<double>(std::count_if(others.begin(), others.end(), same));
    double segments = whole_number(shared[i] / segment);
    // What only few have was full of shards. What only many have, too: those had segments of their
    // own where they were larger.
    if (fewer > 0) segments += whole_number(trend.at_wanted(both + fewer, both)) - both;
    if (more > 0) segments += whole_number(more * trend.many / trend.wanted);
    sum += segments * segment;
  }
  return sum;
}

}  // namespace

double peak_of(const WorkloadDocument& job, std::size_t rank) {
  const Held held = held_at_peak(job, rank);
  double sum = held.named;
  for (const double size : held.segments) sum += size;
  return sum;
}

double wanted_peak(const WorkloadDocument& job, std::size_t rank, const WorkloadDocument& few,
                   std::size_t peer, const Trend& trend) {
  const Held here = held_at_peak(job, rank), there = held_at_peak(few, peer);
  return wanted_segments(there.segments, here.segments, trend) +
         std::max(0.0, trend.at_wanted(there.named, here.named));
}

}  // namespace phantora::detail
