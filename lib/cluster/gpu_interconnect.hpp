#pragma once

#include <phantora/kernels/gpu_model.hpp>
#include <phantora/units.hpp>

#include <span>
#include <string_view>

namespace phantora {

/// How a GPU model is wired into its host, as its vendor's data sheets give it.
struct GpuInterconnect {
  std::string_view model;
  int compute_capability;  ///< 10 * major + minor
  int nvlinks;             ///< per GPU; 0 on PCIe cards
  Bandwidth nvlink;        ///< line rate of one NVLink, per direction
  double nccl_nvlink;      ///< GB/s that NCCL's topology counts per NVLink
  Bandwidth pcie;          ///< payload rate of the x16 slot, per direction
  double nccl_pcie;        ///< GB/s that NCCL's topology counts for the slot
  Bandwidth nic;           ///< line rate of a port
  int gpus_per_nic;
  Bandwidth host_memory;  ///< both sockets together
};

/// All models that presets know.
std::span<const GpuInterconnect> gpu_interconnects() noexcept;
/// @throws ConfigError naming the known models.
const GpuInterconnect& gpu_interconnect(std::string_view model);
/// Of a GPU of a description's own, wired as hosts of its generation are.
GpuInterconnect gpu_interconnect(const GpuModel& own);

}  // namespace phantora
