#include "cluster/gpu_interconnect.hpp"

#include <phantora/error.hpp>

#include <array>
#include <cmath>
#include <string>

namespace phantora {
namespace {

// PCIe: GT/s x 16 lanes x 128/130, and 256-byte payloads in packets of 280 bytes (header, sequence,
// LCRC, framing, flow control): 57.6 GB/s for Gen5 and 28.8 for Gen4.
constexpr double pcie_payload = (128.0 / 130.0) * (256.0 / 280.0);
constexpr Bandwidth pcie(double gigatransfers) {
  return Bandwidth{gigatransfers * 1e9 * 16 / 8 * pcie_payload};
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

GpuInterconnect gpu_interconnect(const GpuModel& own) {
  const int capability = 10 * own.capability_major + own.capability_minor;
  // Wired as the newest known model that is not newer; PCIe cards have no NVLink to go by.
  const GpuInterconnect* like = &models.front();
  for (const GpuInterconnect& it : models)
    if (it.nvlinks > 0 && it.compute_capability <= capability) like = &it;
  GpuInterconnect wired = *like;
  wired.model = {};
  wired.compute_capability = capability;
  wired.nvlinks =
      static_cast<int>(std::ceil(own.nvlink.bytes_per_second() / like->nvlink.bytes_per_second()));
  if (wired.nvlinks > 0) {
    // All links together are what the data sheet says.
    wired.nvlink = own.nvlink / wired.nvlinks;
    wired.nccl_nvlink *= wired.nvlink.bytes_per_second() / like->nvlink.bytes_per_second();
  }
  wired.pcie = own.pcie * pcie_payload;
  // NCCL counts 48 GB/s for a slot of 64 GB/s, and 24 for one of 32.
  wired.nccl_pcie = own.pcie.bytes_per_second() * 0.75e-9;
  return wired;
}

}  // namespace phantora
