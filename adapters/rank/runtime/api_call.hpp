#pragma once

#include <chrono>
#include <cstdint>

/// Marks the extent of one intercepted call, so that the thread's clock is charged what the real
/// call costs and never what interception costs (design section 4, rule 1).
namespace phantora::rank {

/// Calls with a measured host cost. Each entry point names the one that it is or most resembles.
enum class Api : std::uint8_t {
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
  count
};

/// Everything between construction and destruction is not charged as host CPU time; the modelled
/// cost of `api` is charged instead. Nested calls (a library that calls another) charge once, as
/// the outermost.
class ApiCall {
 public:
  explicit ApiCall(Api api) noexcept;
  ~ApiCall();
  ApiCall(const ApiCall&) = delete;
  ApiCall& operator=(const ApiCall&) = delete;

 private:
  bool in_time_ = false;
  bool stops_clock_ = false;
};

/// Within a call: it costs this much more than calls of its kind do, in `measured` host time.
void costs_more(std::chrono::nanoseconds by) noexcept;

}  // namespace phantora::rank
