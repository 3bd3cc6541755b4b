#include "cuda/driver/device_attributes.hpp"

#include "cuda/driver/context.hpp"
#include "rank/runtime/process.hpp"

#include <phantora/kernels/occupancy.hpp>

#include <algorithm>
#include <array>

#include <cuda.h>

namespace phantora::driver {
namespace {

struct Attribute {
  int number, value;
};

constexpr std::array h200{
#define PHANTORA_ATTRIBUTE(number, value) Attribute{number, value},
#include "cuda/driver/device_attributes.inc"
#undef PHANTORA_ATTRIBUTE
};

/// How many bits wide the memory is: H100 and A100 5120, B200 7680, L40S 384 (their data sheets;
/// B200: 7.7 TB/s at its clock of 3,996 MHz). Of the H200 the table has what it says.
int memory_bus_bits(const GpuModel& gpu) {
  if (gpu.capability_major >= 10) return 7680;
  const bool has_hbm = gpu.capability_major == 9 || gpu.capability_minor == 0;
  return has_hbm ? 5120 : 384;
}

/// Programs make the bandwidth of it: two transfers in a cycle. XLA decides by that what it fuses.
int memory_clock_khz(const GpuModel& gpu) {
  const double bytes_in_a_cycle = 2.0 * memory_bus_bits(gpu) / 8;
  return static_cast<int>(gpu.memory_bandwidth.bytes_per_second() / bytes_in_a_cycle / 1e3);
}

}  // namespace

std::optional<int> attribute(int number, int device) {
  const GpuModel& gpu = rank::gpu();
  constexpr double h200_bytes_per_s = 4.8e12;
  const bool has_h200_memory = gpu.memory_bandwidth.bytes_per_second() == h200_bytes_per_s;
  switch (number) {
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
      if (!has_h200_memory) return memory_clock_khz(gpu);
      break;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
      if (!has_h200_memory) return memory_bus_bits(gpu);
      break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return gpu.sm_count;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
      return static_cast<int>(gpu.clock_hz / 1e3);
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      return static_cast<int>(gpu.l2.count());
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return gpu.capability_major;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      return gpu.capability_minor;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
      return pci_address(device).bus;
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
      return pci_address(device).device;
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
      return pci_address(device).domain;
    case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH:
      return gpu.capability_major >= 9 ? 1 : 0;
    // Memory that other processes or devices map is not simulated.
    case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES:
      return 0;
    default:
      break;
  }
  const SmLimits limits = sm_limits(gpu);
  if (number == CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR) return limits.threads;
  if (number == CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR) return limits.blocks;
  if (number == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)
    return limits.shared_bytes;
  if (number == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
    return limits.shared_bytes_of_block;
  const auto found = std::find_if(h200.begin(), h200.end(),
                                  [&](const Attribute& a) { return a.number == number; });
  if (found == h200.end()) return std::nullopt;
  return found->value;
}

std::optional<int> attribute_asked_for(int number, int device) {
  if (number == CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES) {
    rank::warn_once("pool handles",
                    "handles of memory pools are not simulated: the GPU says that it has none");
  }
  return attribute(number, device);
}

}  // namespace phantora::driver
