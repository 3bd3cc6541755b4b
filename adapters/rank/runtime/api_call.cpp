#include "rank/runtime/api_call.hpp"

#include "rank/runtime/host_thread.hpp"

#include <array>
#include <cstddef>

namespace phantora::rank {
namespace {

// Host time of one call in nanoseconds. First those seen in training steps of PyTorch 2.11 on H200
// hosts (bench/accuracy/api_cost.py, from test/data/api_in_situ.jsonl); they take up to three times
// as long as in a loop of their own. Of the others, marked *, such a loop's median (driver 580,
// test/data/api_cost.jsonl; the name is the row's).
constexpr std::array<std::int64_t, static_cast<std::size_t>(Api::count)> cost_ns = {
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

// Up to here a call is shorter than stopping and starting the clock for it, which is two system
// calls. Such calls ask for something that is at hand, here as in the real library: their own CPU
// time stands for them.
constexpr std::int64_t at_hand_ns = 100;

}  // namespace

ApiCall::ApiCall(Api api) noexcept {
  in_time_ = in_virtual_time();
  if (!in_time_) return;
  HostThread& thread = this_thread();
  if (thread.api_depth++ > 0) return;
  thread.readings = 0;
  const HostTimePolicy& policy = host_time_policy();
  const std::int64_t cost = cost_ns[static_cast<std::size_t>(api)];
  stops_clock_ = policy.kind != HostTime::measured || cost > at_hand_ns;
  if (!stops_clock_) return;
  stop_charging(thread);
  if (!thread.issues) return;
  switch (policy.kind) {
    case HostTime::measured:
      if (!policy.scale && thread.speed.look()) thread.clock.set_host_scale(thread.speed.scale());
      thread.clock.advance(std::chrono::nanoseconds{cost});
      break;
    case HostTime::fixed:
      thread.clock.advance(policy.per_call);
      break;
    case HostTime::off:
      break;
  }
}

ApiCall::~ApiCall() {
  if (!in_time_ || !in_virtual_time()) return;  // it may have begun before the process took part
  HostThread& thread = this_thread();
  if (--thread.api_depth > 0 || !stops_clock_ || !thread.issues) return;
  publish(thread);
  charge_host(thread);
}

void costs_more(std::chrono::nanoseconds by) noexcept {
  if (!in_virtual_time() || host_time_policy().kind != HostTime::measured) return;
  HostThread& thread = this_thread();
  if (thread.issues) thread.clock.advance(by);
}

}  // namespace phantora::rank
