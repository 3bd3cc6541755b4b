#pragma once

#include <phantora/simulation/host_time.hpp>
#include <phantora/units.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

/// What a host thread's time costs on the machine of an H200.
namespace phantora {

/// Calls of CUDA and NCCL with a measured host cost. A call that is not here most resembles one
/// that is.
enum class HostCall : std::uint8_t {
  get_device,
  set_device,
  get_last_error,
  is_capturing,
  pointer_attributes,
  function_attributes,
  occupancy,
  mem_get_info,
  malloc,
  free,
  launch,
  memcpy_async_d2d,
  memcpy_async_h2d_pinned,
  memcpy_async_h2d_pageable,
  memcpy_async_d2h_pinned,
  memcpy_d2h_pageable,
  memset_async,
  event_create,
  event_record,
  event_record_with_flags,
  event_record_timing,
  event_query,
  stream_wait_event,
  stream_query,
  synchronize,
  library_setup,  ///< cublasSetStream and other setters
  gemm,           ///< cublasGemmEx, cublasGemmStridedBatchedEx
  lt_matmul,      ///< cublasLtMatmul
  lt_heuristic,   ///< cublasLtMatmulAlgoGetHeuristic
  cudnn_execute,  ///< cudnnBackendExecute
  graph_launch,
  nccl_append,   ///< an NCCL operation in a group
  nccl_enqueue,  ///< one outside, or the end of a group
  count          ///< of these
};

namespace detail {

// Of one call in nanoseconds. First those seen in training steps of PyTorch 2.11 on H200
// hosts (bench/accuracy/api_cost.py, from test/data/api_in_situ.jsonl); they take up to three times
// as long as in a loop of their own. Of the others, marked *, such a loop's median (driver 580,
// test/data/api_cost.jsonl; the name is the row's).
inline constexpr std::array<std::int64_t, static_cast<std::size_t>(HostCall::count)> cost_ns = {
    80,     // cudaGetDevice
    290,    // cudaSetDevice
    90,     // cudaGetLastError
    450,    // cudaStreamIsCapturing
    80,     // cudaPointerGetAttributes *
    357,    // cudaFuncGetAttributes *
    145,    // cudaOccupancyMaxActiveBlocks *
    4791,   // cudaMemGetInfo *
    61394,  // cudaMalloc_2MiB *
    41640,  // cudaFree_2MiB *
    4720,   // __cudaLaunchKernel
    4980,   // cudaMemcpyAsync, gpt2 ddp: between GPU buffers
    1488,   // cudaMemcpyAsync_h2d_pinned_1k *
    13270,  // cudaMemcpyAsync, llama1b fsdp2: from pageable memory
    1436,   // cudaMemcpyAsync_d2h_pinned_1k *
    8210,   // cudaMemcpyAsync_d2h_pageable_1k *
    3220,   // cudaMemsetAsync
    1120,   // cudaEventCreateWithFlags 1270, cudaEventDestroy 970
    530,    // cudaEventRecord
    1370,   // cudaEventRecordWithFlags
    918,    // cudaEventRecord_timing *
    2040,   // cudaEventQuery
    1200,   // cudaStreamWaitEvent
    1340,   // cudaStreamQuery *
    1516,   // cudaStreamSynchronize_idle *
    80,     // cublasSetWorkspace, cublasSetMathMode 40, cudnnBackendSetAttribute 280
    14950,  // cublasGemmEx
    14440,  // cublasLtMatmul
    2460,   // cublasLtMatmulAlgoGetHeuristic
    32120,  // cudnnBackendExecute
    1352,   // cudaGraphLaunch_100_nodes *
    250,    // ncclAllGather in a group: 180 to 300 on 4 H200, 2026-11-21 (api_in_situ, grouped.py)
    32380,  // ncclAllReduce; ncclAllGather 30790, ncclReduceScatter 34150
};

/// Of calls that take less than half as long in a loop of their own, that; of the others nothing.
/// Medians of such loops on an H200's host (test/data/api_cost.jsonl), those marked + as
/// bench/accuracy/h200_api_by_gap.jsonl has them where the same call was made less than 8 us
/// before.
constexpr std::int64_t cost_in_loop_ns(HostCall call) noexcept {
  switch (call) {
    case HostCall::is_capturing:
      return 150;  // +
    case HostCall::memcpy_async_h2d_pageable:
      return 2037;
    case HostCall::memset_async:
      return 859;
    case HostCall::event_create:
      return 227;
    case HostCall::event_record:
      return 159;
    case HostCall::event_record_with_flags:
      return 390;  // +
    case HostCall::event_query:
      return 260;  // +
    case HostCall::stream_wait_event:
      return 150;
    case HostCall::lt_matmul:
      return 6766;
    case HostCall::lt_heuristic:
      return 669;
    case HostCall::nccl_enqueue:
      return 8982;
    default:
      return 0;
  }
}

}  // namespace detail

/// How long the call keeps the thread that makes it on an H200's host.
constexpr Duration host_cost(HostCall call) noexcept {
  return std::chrono::nanoseconds{detail::cost_ns[static_cast<std::size_t>(call)]};
}

/// After so long a time of its thread without that call: its code and data leave the caches little
/// by little, until it takes what it does within training steps.
constexpr Duration host_cost_after(HostCall call, Duration since_last) noexcept {
  // Events, captures, cuBLAS: half way from the loop's time to that of training steps after 50 to
  // 190 us (bench/accuracy/h200_api_by_gap.jsonl).
  constexpr Duration cold_after = std::chrono::microseconds{200};
  const Duration in_steps = host_cost(call);
  const std::int64_t in_loop = detail::cost_in_loop_ns(call);
  if (in_loop == 0 || since_last >= cold_after) return in_steps;
  const Duration warm = std::chrono::nanoseconds{in_loop};
  return warm + (in_steps - warm) * since_last.count() / cold_after.count();
}

/// So many times as long; unchanged to the picosecond where that is 1.
constexpr Duration times(Duration time, double slowness) noexcept {
  return Duration{static_cast<Duration::rep>(static_cast<double>(time.count()) * slowness + 0.5)};
}

/// The same as a policy has it: of `measured` time what was measured, `fixed`, or nothing; as long
/// as it takes on the policy's host. `fixed` stands for the work between two calls too.
/// @param since_last  nothing: the thread makes the call for the first time.
constexpr Duration host_cost(HostCall call, const HostTimePolicy& policy,
                             std::optional<Duration> since_last = {}) noexcept {
  switch (policy.kind) {
    case HostTime::measured:
      return times(since_last ? host_cost_after(call, *since_last) : host_cost(call),
                   policy.host.calls);
    case HostTime::fixed:
      return times(policy.per_call, policy.host.work);
    case HostTime::off:
      break;
  }
  return {};
}

/// What CPU time on this machine is worth on the host of an H200, by a piece of work that is timed
/// on this machine again and again. Cores differ in speed, and one core does with its neighbours'
/// load: by a factor of two within a second on a shared machine.
class HostScale {
 public:
  /// CPU time of the piece of work where it was first calibrated: phantora's own
  /// (adapters/rank/runtime/host_speed.cpp) in training steps on 2 cores of an AMD EPYC, quiet,
  /// 2026-11-21, of the second of two runs (13.6 to 17.0 us in four programs): that of one alone
  /// depends on what the program left in the caches, which differs from program to program by a
  /// third.
  static constexpr std::chrono::duration<double, std::nano> work_there{15'000};
  /// What the host_cost rows of test/data/h200_overlap_and_host_cost.jsonl say of that machine: an
  /// H200's host takes 1.38 times as long, by the sum of all rows, calls in loops priced as such
  /// (test/data/api_cost.jsonl).
  static constexpr double scale_there = 1.38;

  /// The work has just taken so much CPU time.
  void sample(std::chrono::duration<double, std::nano> work) noexcept {
    constexpr double weight = 0.125;  // of a new sample; one each 5 ms: a mean over some 40 ms
    mean_ = sampled_ ? mean_ + weight * (work - mean_) : work;
    sampled_ = true;
  }
  /// Time on that host per CPU time here.
  [[nodiscard]] double scale() const noexcept { return scale_there * (work_there / mean_); }

 private:
  std::chrono::duration<double, std::nano> mean_ = work_there;  ///< the latest samples count most
  bool sampled_ = false;
};

}  // namespace phantora
