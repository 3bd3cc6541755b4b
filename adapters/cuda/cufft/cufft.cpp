// cuFFT's plans and executions, as PyTorch uses them. Transforms are not executed. The few types of
// its documented ABI are declared here: its wheel is a quarter of a gigabyte for one header.
#include "cuda/library/element.hpp"
#include "cuda/library/entry.hpp"
#include "cuda/library/operation.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>

#include <driver_types.h>

using namespace phantora;
using library::Api;

namespace {

enum Result : int {  // cufftResult
  success = 0,
  invalid_plan = 1,
  alloc_failed = 2,
  invalid_value = 4,
  internal_error = 5,
  setup_failed = 7,
  invalid_size = 8
};

struct Plan {
  cudaStream_t stream = nullptr;
  double points = 0;  ///< of one transform
  long long batch = 0;
  cudaDataType input = CUDA_C_32F, output = CUDA_C_32F;
  std::size_t input_bytes = 0, output_bytes = 0;
};

struct Plans {
  std::mutex mutex{};
  int next = 1;
  std::map<int, std::shared_ptr<Plan>> live{};
};
Plans& plans() {
  static auto* const instance = new Plans;
  return *instance;
}

std::shared_ptr<Plan> plan_of(int handle) {
  const std::scoped_lock lock{plans().mutex};
  const auto found = plans().live.find(handle);
  return found == plans().live.end() ? nullptr : found->second;
}

constexpr library::Failures<Result> failures{setup_failed, alloc_failed, internal_error};

/// Bytes that `batch` transforms of `rank` dimensions `n` reach. A real side of a real transform
/// has all points, a complex side of one only half of the last dimension.
std::size_t extent(int rank, const long long* n, const long long* embed, long long stride,
                   long long distance, long long batch, cudaDataType type, bool half) {
  long long points = 1;
  for (int i = 0; i < rank; ++i) {
    const long long size = half && i == rank - 1 ? n[i] / 2 + 1 : n[i];
    points *= embed && i > 0 ? embed[i] : size;
  }
  const long long one = embed ? points * stride : points;
  const long long all = embed ? distance * (batch - 1) + one : points * batch;
  return static_cast<std::size_t>(all) * library::size_of(type);
}

bool is_real(cudaDataType type) {
  return type == CUDA_R_32F || type == CUDA_R_64F || type == CUDA_R_16F || type == CUDA_R_16BF;
}

}  // namespace

PHANTORA_EXPORT Result cufftCreate(int* handle) {
  return library::guarded(failures, Api::library_setup, [&] {
    if (!handle) return invalid_value;
    const std::scoped_lock lock{plans().mutex};
    *handle = plans().next++;
    plans().live[*handle] = std::make_shared<Plan>();
    return success;
  });
}

PHANTORA_EXPORT Result cufftDestroy(int handle) {
  const std::scoped_lock lock{plans().mutex};
  return plans().live.erase(handle) ? success : invalid_plan;
}

PHANTORA_EXPORT Result cufftSetAutoAllocation(int handle, int) {
  return plan_of(handle) ? success : invalid_plan;
}

PHANTORA_EXPORT Result cufftSetWorkArea(int handle, void*) {
  return plan_of(handle) ? success : invalid_plan;
}

PHANTORA_EXPORT Result cufftSetStream(int handle, cudaStream_t stream) {
  const auto plan = plan_of(handle);
  if (!plan) return invalid_plan;
  plan->stream = stream;
  return success;
}

PHANTORA_EXPORT Result cufftXtMakePlanMany(int handle, int rank, long long* n, long long* in_embed,
                                           long long in_stride, long long in_distance,
                                           cudaDataType input, long long* out_embed,
                                           long long out_stride, long long out_distance,
                                           cudaDataType output, long long batch,
                                           std::size_t* work_size, cudaDataType) {
  return library::guarded(failures, Api::library_setup, [&] {
    const auto plan = plan_of(handle);
    if (!plan) return invalid_plan;
    if (rank < 1 || rank > 3 || !n || batch < 1) return invalid_size;
    plan->points = 1;
    for (int i = 0; i < rank; ++i) {
      if (n[i] < 1) return invalid_size;
      plan->points *= static_cast<double>(n[i]);
    }
    plan->batch = batch;
    plan->input = input;
    plan->output = output;
    plan->input_bytes = extent(rank, n, in_embed, in_stride, in_distance, batch, input,
                               !is_real(input) && is_real(output));
    plan->output_bytes = extent(rank, n, out_embed, out_stride, out_distance, batch, output,
                                !is_real(output) && is_real(input));
    // Out-of-place transforms of sizes with small factors need about one copy of the data.
    if (work_size) *work_size = plan->output_bytes;
    return success;
  });
}

PHANTORA_EXPORT Result cufftXtExec(int handle, void*, void* output, int) {
  return library::guarded(failures, Api::gemm, [&] {
    const auto plan = plan_of(handle);
    if (!plan || plan->batch == 0) return invalid_plan;
    KernelQuery query;
    query.name = "fft";
    query.features = {{"n", plan->points}, {"batch", static_cast<double>(plan->batch)}};
    query.attributes = {{"type", library::name_of(plan->input)},
                        {"output_type", library::name_of(plan->output)}};
    query.bytes = static_cast<double>(plan->input_bytes + plan->output_bytes);
    query.flops = 5 * plan->points * std::log2(std::max(2.0, plan->points)) *
                  static_cast<double>(plan->batch);
    library::submit(driver::stream_of(plan->stream), query, {{output, plan->output_bytes}});
    return success;
  });
}
