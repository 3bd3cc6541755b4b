#include "rank/api_call.hpp"

#include "rank/host_thread.hpp"

#include <array>
#include <cstddef>

namespace phantora::rank {
namespace {

// Host time of one call in nanoseconds: medians on the host of an H200 (torch 2.11's CUDA 13.0,
// driver 580), recorded in test/data/api_cost.jsonl; the name behind each is the row's.
constexpr std::array<std::int64_t, static_cast<std::size_t>(Api::count)> cost_ns = {
    35,     // cudaGetDevice
    78,     // cudaSetDevice
    23,     // cudaGetLastError
    58,     // cudaStreamIsCapturing
    80,     // cudaPointerGetAttributes
    357,    // cudaFuncGetAttributes
    145,    // cudaOccupancyMaxActiveBlocks
    4791,   // cudaMemGetInfo
    61394,  // cudaMalloc_2MiB
    41640,  // cudaFree_2MiB
    3547,   // launch_4_args
    4170,   // cudaMemcpyAsync_d2d_1k
    1488,   // cudaMemcpyAsync_h2d_pinned_1k
    2037,   // cudaMemcpyAsync_h2d_pageable_1k
    1436,   // cudaMemcpyAsync_d2h_pinned_1k
    8210,   // cudaMemcpyAsync_d2h_pageable_1k
    859,    // cudaMemsetAsync_1k
    227,    // cudaEventCreate_Destroy
    159,    // cudaEventRecord
    918,    // cudaEventRecord_timing
    1306,   // cudaEventQuery
    150,    // cudaStreamWaitEvent
    1340,   // cudaStreamQuery
    1516,   // cudaStreamSynchronize_idle
    32,     // cublasSetStream
    7914,   // cublasGemmEx_bf16_256
    6766,   // cublasLtMatmul_256
    669,    // cublasLtMatmulAlgoGetHeuristic
    1352,   // cudaGraphLaunch_100_nodes
    8982,   // ncclAllReduce_grouped_per_rank_1024_elements
};

}  // namespace

ApiCall::ApiCall(Api api) noexcept {
  if (!in_virtual_time()) return;
  HostThread& thread = this_thread();
  if (thread.api_depth++ > 0) return;
  thread.clock.pause_host();
  thread.readings = 0;
  if (!thread.issues) return;
  const HostTimePolicy& policy = host_time_policy();
  switch (policy.kind) {
    case HostTime::measured:
      thread.clock.advance(std::chrono::nanoseconds{cost_ns[static_cast<std::size_t>(api)]});
      break;
    case HostTime::fixed:
      thread.clock.advance(policy.per_call);
      break;
    case HostTime::off:
      break;
  }
}

ApiCall::~ApiCall() {
  if (!in_virtual_time()) return;
  HostThread& thread = this_thread();
  if (--thread.api_depth > 0 || !thread.issues) return;
  publish(thread);
  thread.clock.resume_host();
}

}  // namespace phantora::rank
