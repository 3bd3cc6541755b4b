#pragma once

#include <phantora/units.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace phantora {

struct Host;

/// What is known of a GPU: the figures that its data sheet and its driver give.
///
/// Rates are dense peaks, without structured sparsity. Links are per direction.
struct GpuModel {
  std::string key{};             ///< as in `--cluster h200:2x8`
  std::string name{};            ///< as cudaDeviceProp::name reports it
  int capability_major = 0;      ///< compute capability, e.g. 9.0
  int capability_minor = 0;      ///< the 0 of 9.0
  int sm_count = 0;              ///< streaming multiprocessors
  double clock_hz = 0.0;         ///< boost clock of the SMs
  Bytes memory{};                ///< as cudaDeviceProp::totalGlobalMem reports it
  Bytes context_memory{};        ///< device memory that a process uses before its first allocation
  Bytes l2{};                    ///< as cudaDeviceProp::l2CacheSize reports it
  Bandwidth memory_bandwidth{};  ///< peak of the device memory
  Bandwidth nvlink{};            ///< all links of one GPU together; 0 where there is none
  Bandwidth pcie{};              ///< x16, raw
  FlopRate fp8{};                ///< 0 where the tensor cores lack it
  FlopRate half{};               ///< bf16 and fp16 on tensor cores
  FlopRate tf32{};               ///< on tensor cores; 0 where they lack it
  FlopRate fp32{};               ///< outside the tensor cores
  FlopRate fp64{};               ///< tensor cores where they have it

  // Power beyond an idle GPU's, as a share of what the power limit allows beyond it. 0 = not known:
  // then the clock never falls.
  double tensor_power = 0.0;  ///< of the tensor cores at their peak rate
  double memory_power = 0.0;  ///< of the memory at its peak bandwidth

  bool operator==(const GpuModel&) const = default;
};

/// The GPU that `key` names.
/// @throws ConfigError naming the known ones.
GpuModel gpu_model(std::string_view key);

/// `gpu` as if its power limit were `watts`, with what is known of `like`, from which it was made:
/// tensor cores and memory draw in proportion to their peaks.
/// @throws ConfigError if it is not known what `like` draws, or nothing is left beyond idling.
GpuModel with_power_limit(GpuModel gpu, const GpuModel& like, double watts);

/// The GPUs of a host: their model, with the memory that the cluster's description gives them.
/// @throws ConfigError if no GPU that we know is called what `host.gpu_model` says.
GpuModel gpu_model(const Host& host);

/// The same without regard to that memory: what kernels cost does not depend on it.
GpuModel gpu_kind(const Host& host);

/// The keys of every known GPU.
std::vector<std::string> gpu_model_keys();

}  // namespace phantora
