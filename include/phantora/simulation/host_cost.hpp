#pragma once

#include <phantora/simulation/host_time.hpp>
#include <phantora/units.hpp>

#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

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
  malloc,  ///< of memory that the driver need not map; mapping_cost() is what that takes
  free,
  malloc_async,  ///< from a pool that holds enough
  free_async,
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
  rnn_layer,      ///< cuDNN's recurrent networks: of one layer and direction, all steps at once
  rnn_step,       ///< the same, one step
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
    1500,   // cudaMalloc of up to 1.5 MiB in turn with cudaFree
            // (test/data/h200_native_calls.jsonl.gz) *
    1600,   // cudaFree, the same *
    690,    // cudaMallocAsync kept, 4 KiB to 16 MiB (test/data/h200_pool_calls.jsonl.gz) *
    960,    // cudaFreeAsync kept, the same *
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
    65700,  // cudnnRNNBackwardWeights_v8 by layers (bench/accuracy/rnn_host_time.py)
    14900,  // cudnnRNNForward and cudnnRNNBackwardData_v8 by steps and layers (the same)
    1352,   // cudaGraphLaunch_100_nodes *
    250,    // ncclAllGather in a group: 180 to 300 on 4 H200, 2026-11-21 (api_in_situ, grouped.py)
    32380,  // ncclAllReduce; ncclAllGather 30790, ncclReduceScatter 34150
};

/// A call's code and data leave the caches while its thread does other things: what it costs, in
/// nanoseconds, so long a time after the thread's call of the same kind before.
struct ByGap {
  static constexpr std::array<std::int64_t, 6> gaps_us = {4, 16, 64, 256, 1024, 4096};
  /// 0: not measured.
  std::array<std::int64_t, gaps_us.size()> ns{};
};

/// Medians in training steps on hosts of H200s (bench/accuracy/api_by_gap.py, from
/// h200_api_by_gap.jsonl: nine programs on three machines; where a longer gap had a shorter time,
/// both have their mean), those marked * of a loop of that call alone (test/data/api_cost.jsonl).
/// Nothing: only the mean of steps is known.
constexpr std::optional<ByGap> by_gap(HostCall call) noexcept {
  switch (call) {
    case HostCall::launch:
      return ByGap{{4520, 5020, 5940, 6840, 8160}};
    case HostCall::gemm:
      return ByGap{{10'840, 14'400, 14'400, 23'310, 33'930}};
    case HostCall::lt_matmul:
      return ByGap{{6766 /* * */, 0, 10'240, 13'440, 14'450}};
    case HostCall::lt_heuristic:
      return ByGap{{669 /* * */, 0, 1400, 2130, 3060}};
    case HostCall::memcpy_async_d2d:
      return ByGap{{0, 3070, 6100, 11'180, 14'200, 19'670}};
    case HostCall::memcpy_async_h2d_pageable:
      return ByGap{{2037 /* * */, 0, 0, 13'270 /* in steps */}};
    case HostCall::memset_async:
      return ByGap{{1260, 1760, 1760, 2990, 3100, 5560}};
    case HostCall::event_create:
      return ByGap{{380, 420, 420, 660, 1220, 1470}};  // and destroy
    case HostCall::event_record:
      return ByGap{{159 /* * */, 0, 270, 430, 470, 610}};
    case HostCall::event_record_with_flags:
      return ByGap{{390, 480, 820, 1070, 2270, 2970}};
    case HostCall::event_query:
      return ByGap{{260, 430, 760, 2470}};
    case HostCall::stream_wait_event:
      return ByGap{{150 /* * */, 0, 820, 1160, 1700, 2150}};
    case HostCall::is_capturing:
      return ByGap{{130, 180, 210, 500, 820, 1090}};
    case HostCall::nccl_append:
      return ByGap{{250, 0, 0, 1700, 3900, 4150}};
    case HostCall::nccl_enqueue:
      return ByGap{{8982 /* * */, 0, 9910, 13'380, 29'340, 35'370}};
    default:
      return {};
  }
}

}  // namespace detail

/// How long the call keeps the thread that makes it on an H200's host.
constexpr Duration host_cost(HostCall call) noexcept {
  return std::chrono::nanoseconds{detail::cost_ns[static_cast<std::size_t>(call)]};
}

/// The same so long after the thread's call of that kind before: between two measured gaps on the
/// line from one to the other.
constexpr Duration host_cost_after(HostCall call, Duration since_last) noexcept {
  const std::optional<detail::ByGap> known = detail::by_gap(call);
  if (!known) return host_cost(call);
  std::optional<std::pair<Duration, Duration>> shorter;  // a gap and its cost
  for (std::size_t i = 0; i < known->ns.size(); ++i) {
    if (known->ns[i] == 0) continue;
    const Duration gap = std::chrono::microseconds{detail::ByGap::gaps_us[i]};
    const Duration cost = std::chrono::nanoseconds{known->ns[i]};
    if (since_last <= gap) {
      if (!shorter) return cost;
      const auto [before, cost_before] = *shorter;
      // In nanoseconds: 25 us times 3 ms in picoseconds is beyond 64 bits.
      const auto whole_ns = (gap - before).count() / 1000;
      return cost_before + (cost - cost_before) * ((since_last - before).count() / 1000) / whole_ns;
    }
    shorter = {gap, cost};
  }
  return shorter->second;
}

/// What a call that allocates or frees memory takes on top where memory is mapped or page-locked
/// for it: so much, and more for each MiB.
struct MemoryCost {
  Duration first{};    ///< whatever the size
  Duration per_mib{};  ///< for each MiB more

  /// Of so much memory.
  constexpr Duration operator()(Bytes bytes) const noexcept {
    return first +
           Duration{static_cast<Duration::rep>(static_cast<double>(per_mib.count()) *
                                               static_cast<double>(bytes.count()) / 0x1p20)};
  }
};
/// Device memory, of which the driver maps 2 MiB at once: a line through 2 MiB and 1 GiB in
/// test/data/api_cost.jsonl.
inline constexpr MemoryCost mapping_cost{std::chrono::nanoseconds{59'700},
                                         std::chrono::nanoseconds{101}};
/// What gives such memory back, by the same rows.
inline constexpr MemoryCost unmapping_cost{std::chrono::nanoseconds{39'300},
                                           std::chrono::nanoseconds{357}};
/// Page-locked memory of the host: a line through 1 MiB and 256 MiB of cudaMallocHost in
/// test/data/h200_native_calls.jsonl.gz (bench/accuracy/native_calls.py; 16 MiB lie 14 % above).
inline constexpr MemoryCost locking_cost{std::chrono::microseconds{297},
                                         std::chrono::microseconds{334}};
/// cudaFreeHost, in the same way.
inline constexpr MemoryCost unlocking_cost{std::chrono::microseconds{172},
                                           std::chrono::nanoseconds{83'800}};
/// cudaMallocManaged, in the same way.
inline constexpr MemoryCost managed_cost{std::chrono::nanoseconds{17'500},
                                         std::chrono::nanoseconds{175}};
/// cudaFree of managed memory, in the same way.
inline constexpr MemoryCost managed_free_cost{std::chrono::nanoseconds{13'100},
                                              std::chrono::nanoseconds{87}};

/// So many times as long; unchanged to the picosecond where that is 1.
constexpr Duration times(Duration time, double slowness) noexcept {
  const double exact = static_cast<double>(time.count()) * slowness;
  return Duration{static_cast<Duration::rep>(exact + (exact < 0 ? -0.5 : 0.5))};
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
  /// CPU time of the piece of work (adapters/rank/runtime/host_speed.cpp) on that host: the first
  /// of two runs finds the caches and the predictors as the program left them, the second warm
  /// ones. On 2 cores of an AMD EPYC on 2026-11-21 the second took 15.0 us in four programs, and by
  /// the sum of the host_cost rows of test/data/h200_overlap_and_host_cost.jsonl an H200's host
  /// takes 1.38 times as long as that machine (calls in loops priced as test/data/api_cost.jsonl
  /// has them), so 20.7 us; and on 2 cores of an EPYC on 2026-11-30 both took 3.66 times as long as
  /// the second (50.0 and 13.65 us, means of nine programs of bench/accuracy/zoo.py).
  static constexpr std::chrono::duration<double, std::nano> work_there{76'000};

  /// The work has just taken so much CPU time. Nothing or less counts as not measured: the clock
  /// was read at a time when it stood.
  void sample(std::chrono::duration<double, std::nano> work) noexcept {
    if (work.count() <= 0) return;
    constexpr double weight = 0.125;  // of a new sample; one each 5 ms: a mean over some 40 ms
    mean_ = sampled_ ? mean_ + weight * (work - mean_) : work;
    sampled_ = true;
  }
  /// Time on that host per CPU time here; 1 before the first sample.
  [[nodiscard]] double scale() const noexcept { return work_there / mean_; }

 private:
  std::chrono::duration<double, std::nano> mean_ = work_there;  ///< the latest samples count most
  bool sampled_ = false;
};

/// What a thread's own work will take longer, in all, because its core has worked on something else
/// in between: the caches and predictors have lost what the program comes back to. In a simulation
/// that is the simulation's work, and other ranks'. Of a token of a served model that comes each
/// 15 ms here and each 2 ms where it is simulated, 0.7 ms.
struct CacheRefill {
  /// Where all is lost. On lent H200s, two models that vLLM served spun for 1 to 20 ms in each
  /// token, and tokens of three were simulated on such hosts. Least squares over the 14, 0.13 ms
  /// off in the mean square (bench/accuracy/README.md, "Serving"); the simulated ones alone give
  /// 1.56 and 23.7 ms.
  static constexpr std::chrono::microseconds whole{1670};
  /// All but 1/e of it is lost in this time, by the same fit.
  static constexpr std::chrono::microseconds lost_in{25'100};
  /// At most this share of the work is what it takes longer, which makes it twice as long. The
  /// slowest that was measured took 1.85 times as long.
  static constexpr double share = 0.5;

  /// @param due        what the thread's work has not yet taken longer since earlier interruptions
  /// @param elsewhere  how long the core has now worked on something else
  /// @return what is due after that; `due` if `elsewhere` is not above zero.
  static std::chrono::duration<double, std::nano> after(
      std::chrono::duration<double, std::nano> due,
      std::chrono::duration<double, std::nano> elsewhere) noexcept {
    if (elsewhere.count() <= 0) return due;
    return due + (whole - due) * -std::expm1(-elsewhere / lost_in);
  }
};

}  // namespace phantora
