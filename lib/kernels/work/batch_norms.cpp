#include "kernels/work/families.hpp"
#include "kernels/work/launch.hpp"

#include <algorithm>
#include <cmath>

namespace phantora::detail {

namespace {

/// What cuDNN normalises, by channel.
struct Channels {
  double count = 1;     ///< of channels
  double elements = 1;  ///< of one
  double size = 4;      ///< bytes of an element
  bool pairs = false;   ///< planes of fp16 that pairs of elements fill: two are taken at once
};

Channels channels_of(const KernelQuery& query) {
  Channels channels;
  channels.count = feature(query, "c", 1.0);
  const double plane = feature(query, "h", 1.0) * feature(query, "w", 1.0);
  channels.elements = feature(query, "n", 1.0) * plane;
  channels.size = type_bytes(attribute(query, "type", "fp32"));
  channels.pairs = channels.size == 2.0 && std::fmod(plane, 2.0) == 0.0;
  return channels;
}

// Planes have a block of 512 threads for each channel. One whose elements, a step of one or a pair
// for each thread after the other, fit on half of an SM reads them once and keeps them: 2 KB of
// shared memory for a step, backward twice as much, and registers for the first steps of pairs
// (all of the shared memory and of the names in the sweeps tell so).
constexpr double threads = 512.0;

double steps_of(const Channels& channels) {
  return std::ceil(channels.elements / (channels.pairs ? 2.0 * threads : threads));
}

double kept_steps(const Channels& channels, bool backward) {
  const double shared = backward ? 28.0 : 56.0;
  const double registers = backward ? 14.0 : 20.0;
  return shared + (channels.pairs ? registers : 0.0);
}

/// Blocks that the fullest SM has, of which the last ones count only in part: an SM with two beside
/// each other is faster than with one after the other.
double blocks_on_an_sm(const Channels& channels, double uneven) {
  constexpr double sms = 132.0;  // of an H200
  const double even = channels.count / sms;
  return std::max(1.0, even + uneven * (std::ceil(even) - even));
}

// All constants below were fitted to the H200's batch norms in data/h200.tsv, of fp16 and fp32;
// neither judges nor the H100's were looked at, which both are as near to them (README.md).

/// What keeps its channels: in microseconds a start, and of the SM for each block and step.
struct Kept {
  double round_trips, block_us, step_us, uneven;
};

void keep_channels(KernelWork& work, const Channels& channels, bool backward) {
  const Kept kept = channels.pairs
                        ? (backward ? Kept{1.8, 0.45, 0.248, 0.31} : Kept{1.7, 0.553, 0.198, 0.5})
                        : (backward ? Kept{0.7, 0.664, 0.33, 0.22} : Kept{0.8, 0.919, 0.193, 0.48});
  constexpr double ps = 1e6;
  work.round_trips = kept.round_trips;
  work.flops = flops_per_ps * ps * blocks_on_an_sm(channels, kept.uneven) *
               (kept.block_us + kept.step_us * steps_of(channels));
}

/// A block that goes through its channel twice takes so long for each element, whatever the other
/// SMs do: as long as one that finds them in the L2 cache, or as memory takes to answer.
void go_through_planes(KernelWork& work, const Channels& channels, bool backward) {
  const double sm_ps = backward ? 719.0 : 483.0;
  const double cached_ps = backward ? 802.0 : 578.0;
  const double memory_ps = backward ? 728.0 : 25.0;
  // Of x, and backward of the result's gradient too: all is found until 15 MB, nothing from 30 on.
  constexpr double cached_bytes = 15e6;
  const double read = channels.count * channels.elements * channels.size * (backward ? 2.0 : 1.0);
  const double missed = std::clamp(read / cached_bytes - 1.0, 0.0, 1.0);
  work.round_trips = backward ? 9.0 : 0.0;
  work.flops = flops_per_ps * channels.elements *
               std::max(cached_ps + missed * memory_ps,
                        blocks_on_an_sm(channels, backward ? 0.61 : 1.0) * sm_ps);
}

/// With channels last, blocks have rows of 64 channels, of which threads take four, or of 16 where
/// no four divide the channels; the channels that are lacking take as long as others. A memset
/// comes before.
void go_through_rows(KernelWork& work, const Channels& channels, bool backward) {
  const bool by_four = std::fmod(channels.count, 4.0) == 0.0;
  const double tile = by_four ? 64.0 : 16.0;
  const double ps = by_four ? (backward ? 2.11 : 1.98) : (backward ? 10.2 : 7.35);
  work.round_trips = backward ? 11.6 : 12.9;
  work.flops = flops_per_ps * ps * channels.elements * tile * std::ceil(channels.count / tile);
}

}  // namespace

KernelWork batch_norm(const KernelQuery& query) {
  const Channels channels = channels_of(query);
  const bool backward = query.name == "batch_norm_bwd";
  // Training reads x twice and writes y; backward reads x and dy twice and writes dx.
  const double passes = backward ? 5.0 : query.name == "batch_norm_fwd_train" ? 3.0 : 2.0;
  KernelWork work;
  work.bytes = channels.count * channels.elements * channels.size * passes;
  work.group = query.name;
  work.coordinates = {log_coordinate(work.bytes, 1.5), log_coordinate(channels.count, 2.0)};
  if (query.name == "batch_norm_fwd_infer") return work;
  work.arithmetic = Arithmetic::fp32;
  work.family = attribute(query, "type", "fp32");
  if (attribute(query, "layout", "nchw") == "nhwc") {
    work.group += "/rows";
    go_through_rows(work, channels, backward);
  } else if (steps_of(channels) > kept_steps(channels, backward)) {
    work.group += "/planes";
    go_through_planes(work, channels, backward);
  } else {
    work.group += channels.pairs ? "/kept_pairs" : "/kept";
    keep_channels(work, channels, backward);
  }
  return work;
}

}  // namespace phantora::detail
