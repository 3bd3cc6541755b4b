#include <phantora/cluster/cluster.hpp>
#include <phantora/error.hpp>
#include <phantora/kernels/gpu_model.hpp>

#include <algorithm>
#include <array>
#include <iterator>

namespace phantora {

namespace {

// H200: device attributes read on one (totalGlobalMem, SM count, clock, L2; and the difference of
// total and free memory at the first cudaMemGetInfo); rates and links from NVIDIA's data sheet.
// The others: NVIDIA's data sheets and architecture papers (A100 SXM 80GB, H100 SXM, B200 HGX,
// L40S), dense figures; their memory is the data sheet's less the share that the H200's driver
// keeps, and their context memory is the H200's, for want of a measurement.
//
// Power: an H200 whose limit is 700 W idles at 125 W (busy with nothing but launches), and draws
// 840 W more with products of bf16 at 787 TFLOP/s, as extrapolated from those that fill 31, 47 and
// 62 % of the time (384, 520 and 637 W at 1.98 GHz), and 456 W more with copies at 4.23 TB/s
// (bench/accuracy/h200_power.jsonl). Such a product itself moves 0.385 TB/s. The limit leaves 565 W
// beyond idling, of the 690 W at which the clock begins to fall. The H100 has the same die and
// limit, and is taken to need as much for a byte of memory.
constexpr Bytes h200_context{552'402'944};
constexpr double idle_watts = 125.0;
constexpr double below_limit = 700.0 - 690.0;
constexpr double limit_watts = 700.0 - below_limit - idle_watts;
constexpr double watts_per_terabyte = 456.0 / 4.23;
constexpr double watts_per_tensor_peak = (840.0 - 0.385 * watts_per_terabyte) * 989.4 / 787.0;

const std::array<GpuModel, 5>& models() {
  static const std::array<GpuModel, 5> all{{
      {.key = "a100",
       .name = "NVIDIA A100-SXM4-80GB",
       .capability_major = 8,
       .capability_minor = 0,
       .sm_count = 108,
       .clock_hz = 1.41e9,
       .memory = Bytes{85'100'000'000},
       .context_memory = h200_context,
       .l2 = 40_MiB,
       .memory_bandwidth = 2039_GBps,
       .nvlink = 300_GBps,
       .pcie = 32_GBps,
       .fp8 = FlopRate{0.0},
       .half = 312_TFLOPS,
       .tf32 = 156_TFLOPS,
       .fp32 = 19.5_TFLOPS,
       .fp64 = 19.5_TFLOPS},
      {.key = "h100",
       .name = "NVIDIA H100 80GB HBM3",
       .capability_major = 9,
       .capability_minor = 0,
       .sm_count = 132,
       .clock_hz = 1.98e9,
       .memory = Bytes{85'000'000'000},
       .context_memory = h200_context,
       .l2 = 50_MiB,
       .memory_bandwidth = 3350_GBps,
       .nvlink = 450_GBps,
       .pcie = 64_GBps,
       .fp8 = 1978.9_TFLOPS,
       .half = 989.4_TFLOPS,
       .tf32 = 494.7_TFLOPS,
       .fp32 = 66.9_TFLOPS,
       .fp64 = 66.9_TFLOPS,
       .tensor_power = watts_per_tensor_peak / limit_watts,
       .memory_power = watts_per_terabyte * 3.35 / limit_watts},
      {.key = "h200",
       .name = "NVIDIA H200",
       .capability_major = 9,
       .capability_minor = 0,
       .sm_count = 132,
       .clock_hz = 1.98e9,
       .memory = Bytes{150'109'880'320},
       .context_memory = h200_context,
       .l2 = Bytes{62'914'560},
       .memory_bandwidth = 4800_GBps,
       .nvlink = 450_GBps,
       .pcie = 64_GBps,
       .fp8 = 1978.9_TFLOPS,
       .half = 989.4_TFLOPS,
       .tf32 = 494.7_TFLOPS,
       .fp32 = 66.9_TFLOPS,
       .fp64 = 66.9_TFLOPS,
       .tensor_power = watts_per_tensor_peak / limit_watts,
       .memory_power = watts_per_terabyte * 4.8 / limit_watts},
      {.key = "b200",
       .name = "NVIDIA B200",
       .capability_major = 10,
       .capability_minor = 0,
       .sm_count = 148,
       .clock_hz = 1.965e9,
       .memory = Bytes{191'500'000'000},
       .context_memory = h200_context,
       .l2 = 126_MiB,
       .memory_bandwidth = 7700_GBps,
       .nvlink = 900_GBps,
       .pcie = 64_GBps,
       .fp8 = 4500_TFLOPS,
       .half = 2250_TFLOPS,
       .tf32 = 1125_TFLOPS,
       .fp32 = 75_TFLOPS,
       .fp64 = 37_TFLOPS},
      {.key = "l40s",
       .name = "NVIDIA L40S",
       .capability_major = 8,
       .capability_minor = 9,
       .sm_count = 142,
       .clock_hz = 2.52e9,
       .memory = Bytes{47'700'000'000},
       .context_memory = h200_context,
       .l2 = 96_MiB,
       .memory_bandwidth = 864_GBps,
       .nvlink = 0_GBps,
       .pcie = 32_GBps,
       .fp8 = 733_TFLOPS,
       .half = 362_TFLOPS,
       .tf32 = 183_TFLOPS,
       .fp32 = 91.6_TFLOPS,
       .fp64 = 1.4_TFLOPS},
  }};
  return all;
}

}  // namespace

GpuModel gpu_model(std::string_view key) {
  const auto& all = models();
  const auto found = std::ranges::find(all, key, &GpuModel::key);
  if (found != all.end()) return *found;
  std::string known;
  for (const GpuModel& model : all) {
    if (!known.empty()) known += ", ";
    known += model.key;
  }
  throw ConfigError{"unknown GPU '" + std::string{key} + "': expected one of " + known};
}

GpuModel with_power_limit(GpuModel gpu, const GpuModel& like, double watts) {
  if (like.tensor_power <= 0.0)
    throw ConfigError{
        "power_limit: what a GPU draws is known of h100 and h200 alone; expected one of them as "
        "like"};
  const double left = watts - below_limit - idle_watts;
  if (left <= 0.0)
    throw ConfigError{"power_limit: expected more than the 135 W of a GPU that idles"};
  gpu.tensor_power =
      like.tensor_power * (limit_watts / left) * (gpu.half.per_second() / like.half.per_second());
  gpu.memory_power =
      like.memory_power * (limit_watts / left) *
      (gpu.memory_bandwidth.bytes_per_second() / like.memory_bandwidth.bytes_per_second());
  return gpu;
}

GpuModel gpu_kind(const Host& host) {
  return host.own_gpu ? *host.own_gpu : gpu_model(host.gpu_model);
}

GpuModel gpu_model(const Host& host) {
  GpuModel model = gpu_kind(host);
  if (host.gpu_memory) model.memory = *host.gpu_memory;
  return model;
}

std::vector<std::string> gpu_model_keys() {
  std::vector<std::string> keys;
  std::ranges::transform(models(), std::back_inserter(keys), &GpuModel::key);
  return keys;
}

}  // namespace phantora
