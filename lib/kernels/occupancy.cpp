#include <phantora/kernels/occupancy.hpp>

#include <algorithm>
#include <array>
#include <utility>

namespace phantora {

namespace {

constexpr int kib = 1024;
struct Capability {
  int major, minor;
  SmLimits limits;
};
/// From the lowest on.
constexpr std::array capabilities{
    Capability{8, 0, {2048, 32, 164 * kib, 163 * kib}},
    Capability{8, 6, {1536, 16, 100 * kib, 99 * kib}},
    Capability{8, 9, {1536, 24, 100 * kib, 99 * kib}},
    Capability{9, 0, {2048, 32, 228 * kib, 227 * kib}},
    Capability{10, 0, {2048, 32, 228 * kib, 227 * kib}},
    Capability{12, 0, {1536, 32, 100 * kib, 99 * kib}},
};

constexpr std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

SmLimits sm_limits(const GpuModel& gpu) {
  const std::pair asked{gpu.capability_major, gpu.capability_minor};
  SmLimits limits = capabilities.front().limits;
  for (const Capability& c : capabilities)
    if (std::pair{c.major, c.minor} <= asked) limits = c.limits;
  return limits;
}

int blocks_per_sm(const GpuModel& gpu, const BlockResources& block) {
  const SmLimits limits = sm_limits(gpu);
  if (block.threads < 1) return 0;
  constexpr std::size_t lanes = 32, schedulers = 4;
  const std::size_t warps = round_up(static_cast<std::size_t>(block.threads), lanes) / lanes;
  auto blocks = static_cast<std::size_t>(limits.blocks);
  blocks = std::min(blocks, static_cast<std::size_t>(limits.threads) / (warps * lanes));
  // Registers are handed out to warps in units of 256, warps to the SM's schedulers; shared memory
  // in units of 128 bytes plus what the driver keeps of each block's (cuda_occupancy.h).
  if (block.registers > 0) {
    const std::size_t of_warp = round_up(static_cast<std::size_t>(block.registers) * lanes, 256);
    const std::size_t of_scheduler =
        static_cast<std::size_t>(limits.registers) / schedulers / of_warp;
    blocks = std::min(blocks, of_scheduler * schedulers / warps);
  }
  constexpr std::size_t reserved = 1024;
  const std::size_t shared = round_up(block.shared_bytes + reserved, 128);
  return static_cast<int>(std::min(blocks, static_cast<std::size_t>(limits.shared_bytes) / shared));
}

}  // namespace phantora
