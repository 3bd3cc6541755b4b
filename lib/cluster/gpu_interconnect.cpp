#include "cluster/gpu_interconnect.hpp"

#include <phantora/error.hpp>

#include <array>
#include <string>

namespace phantora {
namespace {

// PCIe: GT/s x 16 lanes x 128/130, and 256-byte payloads in packets of 280 bytes (header, sequence,
// LCRC, framing, flow control): 57.6 GB/s for Gen5 and 28.8 for Gen4.
constexpr Bandwidth pcie(double gigatransfers) {
  return Bandwidth{gigatransfers * 1e9 * 16 / 8 * (128.0 / 130.0) * (256.0 / 280.0)};
}

// NVLink 3 and 4: 25 GB/s per link and direction; NVLink 5: 50. NCCL's figures: research notes on
// src/graph/topo.h of NCCL 2.27-2.30. NICs: DGX A100 (HDR), DGX H100/H200/B200 (NDR). Memory:
// 2 sockets x 8 channels of DDR4-3200, DDR5-4800, DDR5-5600.
constexpr std::array models{
    GpuInterconnect{"a100", 80, 12, 25_GBps, 20.0, pcie(16), 24, 200_Gbps, 1, 409.6_GBps},
    GpuInterconnect{"h100", 90, 18, 25_GBps, 20.6, pcie(32), 48, 400_Gbps, 1, 614.4_GBps},
    GpuInterconnect{"h200", 90, 18, 25_GBps, 20.6, pcie(32), 48, 400_Gbps, 1, 614.4_GBps},
    GpuInterconnect{"b200", 100, 18, 50_GBps, 40.1, pcie(32), 48, 400_Gbps, 1, 716.8_GBps},
    GpuInterconnect{"l40s", 89, 0, Bandwidth{}, 0.0, pcie(16), 24, 200_Gbps, 2, 614.4_GBps},
};

}  // namespace

std::span<const GpuInterconnect> gpu_interconnects() noexcept { return models; }

const GpuInterconnect& gpu_interconnect(std::string_view model) {
  std::string known;
  for (const GpuInterconnect& it : models) {
    if (it.model == model) return it;
    known += (known.empty() ? "" : ", ") + std::string{it.model};
  }
  throw ConfigError{"unknown GPU model \"" + std::string{model} + "\": expected one of " + known};
}

}  // namespace phantora
