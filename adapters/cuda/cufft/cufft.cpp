// cuFFT's plans and executions. Transforms are not executed; plans over several GPUs and callbacks
// are refused. The few types of its documented ABI are declared here: its wheel is a quarter of a
// gigabyte for one header.
#include "cuda/library/element.hpp"
#include "cuda/library/entry.hpp"
#include "cuda/library/operation.hpp"
#include "cuda/library/version.hpp"
#include "rank/runtime/mutex.hpp"

#include <phantora/kernels/fourier.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include <driver_types.h>

using namespace phantora;
using library::Api;

namespace {

enum Result : int {  // cufftResult
  success = 0,
  invalid_plan = 1,
  alloc_failed = 2,
  invalid_type = 3,
  invalid_value = 4,
  internal_error = 5,
  setup_failed = 7,
  invalid_size = 8
};

enum Type : int {  // cufftType
  r2c = 0x2a,
  c2r = 0x2c,
  c2c = 0x29,
  d2z = 0x6a,
  z2d = 0x6c,
  z2z = 0x69
};

constexpr library::Version version_of_cufft{12, 0, 0};  // cufft.h

struct Plan {
  cudaStream_t stream = nullptr;
  FourierShape shape{};
  long long stride = 1;  ///< between the input's neighbours
  long long batch = 0;
  cudaDataType input = CUDA_C_32F, output = CUDA_C_32F;
  std::size_t input_bytes = 0, output_bytes = 0;
  std::size_t work_bytes = 0;
};

struct Plans {
  rank::Mutex mutex{};
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

/// How the data of a plan lie, as cufftPlanMany's arguments say it; without `embed` they have no
/// gaps.
struct Layout {
  const long long* embed = nullptr;
  long long stride = 1, distance = 0;
};

struct Types {
  cudaDataType input, output;
};
std::optional<Types> types_of(Type type) {
  switch (type) {
    case r2c:
      return Types{CUDA_R_32F, CUDA_C_32F};
    case c2r:
      return Types{CUDA_C_32F, CUDA_R_32F};
    case c2c:
      return Types{CUDA_C_32F, CUDA_C_32F};
    case d2z:
      return Types{CUDA_R_64F, CUDA_C_64F};
    case z2d:
      return Types{CUDA_C_64F, CUDA_R_64F};
    case z2z:
      return Types{CUDA_C_64F, CUDA_C_64F};
  }
  return std::nullopt;
}

/// Sizes as cuFFT's calls with int arguments give them.
class Sizes {
 public:
  Sizes(int rank, const int* n) {
    for (int i = 0; n && i < std::min(rank, 3); ++i) {
      values_[static_cast<std::size_t>(i)] = n[i];
      given_ = true;
    }
  }
  [[nodiscard]] const long long* get() const { return given_ ? values_.data() : nullptr; }

 private:
  std::array<long long, 3> values_{};
  bool given_ = false;
};

Result make_plan(Plan& plan, int rank, const long long* n, const Layout& in, const Layout& out,
                 const Types& types, long long batch, std::size_t* work_size) {
  if (rank < 1 || rank > 3 || !n || batch < 1) return invalid_size;
  const auto [input, output] = types;
  const bool real = is_real(input) || is_real(output);
  const bool wide = library::size_of(is_real(input) ? output : input) > 8;
  plan.stride = in.embed ? in.stride : 1;
  plan.shape = {.real = real, .wide = wide, .strided = plan.stride > 1};
  double complex_points = static_cast<double>(batch);
  for (int i = 0; i < rank; ++i) {
    if (n[i] < 1) return invalid_size;
    const auto size = static_cast<double>(n[i]);
    plan.shape.points[static_cast<std::size_t>(rank - 1 - i)] = size;
    complex_points *= real && i == rank - 1 ? static_cast<double>(n[i] / 2 + 1) : size;
  }
  plan.batch = batch;
  plan.input = input;
  plan.output = output;
  plan.input_bytes = extent(rank, n, in.embed, in.stride, in.distance, batch, input,
                            !is_real(input) && is_real(output));
  plan.output_bytes = extent(rank, n, out.embed, out.stride, out.distance, batch, output,
                             !is_real(output) && is_real(input));
  plan.work_bytes = static_cast<std::size_t>(fourier_plan(plan.shape).work_area * complex_points *
                                             (wide ? 16.0 : 8.0));
  if (work_size) *work_size = plan.work_bytes;
  return success;
}

/// A plan of contiguous data into `handle`.
Result make_plan(int handle, const Sizes& n, int rank, Type type, int batch,
                 std::size_t* work_size) {
  return library::guarded(failures, Api::library_setup, [&] {
    const auto plan = plan_of(handle);
    if (!plan) return invalid_plan;
    const auto types = types_of(type);
    if (!types) return invalid_type;
    return make_plan(*plan, rank, n.get(), {}, {}, *types, batch, work_size);
  });
}

/// What a plan would need, as the calls that estimate and tell sizes give it.
Result work_size_of(const Sizes& n, int rank, Type type, long long batch, std::size_t* work_size) {
  return library::guarded(failures, Api::library_setup, [&] {
    Plan plan;
    const auto types = types_of(type);
    if (!types) return invalid_type;
    return make_plan(plan, rank, n.get(), {}, {}, *types, batch, work_size);
  });
}

Result execute(int handle, void* output, const std::optional<Types>& types) {
  return library::guarded(failures, Api::gemm, [&] {
    const auto plan = plan_of(handle);
    if (!plan || plan->batch == 0) return invalid_plan;
    if (types && (types->input != plan->input || types->output != plan->output)) {
      return invalid_plan;
    }
    KernelQuery query;
    query.name = "fft";
    const auto [x, y, z] = plan->shape.points;
    query.features = {{"x", x},
                      {"y", y},
                      {"z", z},
                      {"batch", static_cast<double>(plan->batch)},
                      {"stride", static_cast<double>(plan->stride)}};
    query.attributes = {{"type", library::name_of(plan->input)},
                        {"output_type", library::name_of(plan->output)}};
    library::submit(driver::stream_of(plan->stream), query, {{output, plan->output_bytes}});
    return success;
  });
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

namespace {

/// A new handle, with the plan that `make` gives it.
template <class Make>
Result new_plan(int* handle, Make&& make) {
  const Result created = cufftCreate(handle);
  if (created != success) return created;
  const Result made = make();
  if (made != success) cufftDestroy(*handle);
  return made;
}

}  // namespace

PHANTORA_EXPORT Result cufftXtMakePlanMany(int handle, int rank, long long* n, long long* in_embed,
                                           long long in_stride, long long in_distance,
                                           cudaDataType input, long long* out_embed,
                                           long long out_stride, long long out_distance,
                                           cudaDataType output, long long batch,
                                           std::size_t* work_size, cudaDataType) {
  return library::guarded(failures, Api::library_setup, [&] {
    const auto plan = plan_of(handle);
    if (!plan) return invalid_plan;
    return make_plan(*plan, rank, n, {in_embed, in_stride, in_distance},
                     {out_embed, out_stride, out_distance}, {input, output}, batch, work_size);
  });
}

PHANTORA_EXPORT Result cufftMakePlan1d(int handle, int nx, Type type, int batch,
                                       std::size_t* work_size) {
  return make_plan(handle, {1, std::array{nx}.data()}, 1, type, batch, work_size);
}

PHANTORA_EXPORT Result cufftMakePlan2d(int handle, int nx, int ny, Type type,
                                       std::size_t* work_size) {
  return make_plan(handle, {2, std::array{nx, ny}.data()}, 2, type, 1, work_size);
}

PHANTORA_EXPORT Result cufftMakePlan3d(int handle, int nx, int ny, int nz, Type type,
                                       std::size_t* work_size) {
  return make_plan(handle, {3, std::array{nx, ny, nz}.data()}, 3, type, 1, work_size);
}

PHANTORA_EXPORT Result cufftMakePlanMany64(int handle, int rank, long long* n, long long* in_embed,
                                           long long in_stride, long long in_distance,
                                           long long* out_embed, long long out_stride,
                                           long long out_distance, Type type, long long batch,
                                           std::size_t* work_size) {
  return library::guarded(failures, Api::library_setup, [&] {
    const auto plan = plan_of(handle);
    if (!plan) return invalid_plan;
    const auto types = types_of(type);
    if (!types) return invalid_type;
    return make_plan(*plan, rank, n, {in_embed, in_stride, in_distance},
                     {out_embed, out_stride, out_distance}, *types, batch, work_size);
  });
}

PHANTORA_EXPORT Result cufftMakePlanMany(int handle, int rank, int* n, int* in_embed, int in_stride,
                                         int in_distance, int* out_embed, int out_stride,
                                         int out_distance, Type type, int batch,
                                         std::size_t* work_size) {
  const Sizes sizes{rank, n}, in{rank, in_embed}, out{rank, out_embed};
  return cufftMakePlanMany64(handle, rank, const_cast<long long*>(sizes.get()),
                             const_cast<long long*>(in.get()), in_stride, in_distance,
                             const_cast<long long*>(out.get()), out_stride, out_distance, type,
                             batch, work_size);
}

PHANTORA_EXPORT Result cufftPlan1d(int* handle, int nx, Type type, int batch) {
  return new_plan(handle, [&] { return cufftMakePlan1d(*handle, nx, type, batch, nullptr); });
}

PHANTORA_EXPORT Result cufftPlan2d(int* handle, int nx, int ny, Type type) {
  return new_plan(handle, [&] { return cufftMakePlan2d(*handle, nx, ny, type, nullptr); });
}

PHANTORA_EXPORT Result cufftPlan3d(int* handle, int nx, int ny, int nz, Type type) {
  return new_plan(handle, [&] { return cufftMakePlan3d(*handle, nx, ny, nz, type, nullptr); });
}

PHANTORA_EXPORT Result cufftPlanMany(int* handle, int rank, int* n, int* in_embed, int in_stride,
                                     int in_distance, int* out_embed, int out_stride,
                                     int out_distance, Type type, int batch) {
  return new_plan(handle, [&] {
    return cufftMakePlanMany(*handle, rank, n, in_embed, in_stride, in_distance, out_embed,
                             out_stride, out_distance, type, batch, nullptr);
  });
}

PHANTORA_EXPORT Result cufftEstimate1d(int nx, Type type, int batch, std::size_t* work_size) {
  return work_size_of({1, std::array{nx}.data()}, 1, type, batch, work_size);
}

PHANTORA_EXPORT Result cufftEstimate2d(int nx, int ny, Type type, std::size_t* work_size) {
  return work_size_of({2, std::array{nx, ny}.data()}, 2, type, 1, work_size);
}

PHANTORA_EXPORT Result cufftEstimate3d(int nx, int ny, int nz, Type type, std::size_t* work_size) {
  return work_size_of({3, std::array{nx, ny, nz}.data()}, 3, type, 1, work_size);
}

PHANTORA_EXPORT Result cufftEstimateMany(int rank, int* n, int*, int, int, int*, int, int,
                                         Type type, int batch, std::size_t* work_size) {
  return work_size_of({rank, n}, rank, type, batch, work_size);
}

PHANTORA_EXPORT Result cufftGetSize1d(int, int nx, Type type, int batch, std::size_t* work_size) {
  return cufftEstimate1d(nx, type, batch, work_size);
}

PHANTORA_EXPORT Result cufftGetSize2d(int, int nx, int ny, Type type, std::size_t* work_size) {
  return cufftEstimate2d(nx, ny, type, work_size);
}

PHANTORA_EXPORT Result cufftGetSize3d(int, int nx, int ny, int nz, Type type,
                                      std::size_t* work_size) {
  return cufftEstimate3d(nx, ny, nz, type, work_size);
}

PHANTORA_EXPORT Result cufftGetSizeMany(int, int rank, int* n, int*, int, int, int*, int, int,
                                        Type type, int batch, std::size_t* work_size) {
  return work_size_of({rank, n}, rank, type, batch, work_size);
}

PHANTORA_EXPORT Result cufftGetSize(int handle, std::size_t* work_size) {
  const auto plan = plan_of(handle);
  if (!plan) return invalid_plan;
  if (!work_size) return invalid_value;
  *work_size = plan->work_bytes;
  return success;
}

PHANTORA_EXPORT Result cufftGetVersion(int* version) {
  return version_of_cufft.tell(version, success, invalid_value);
}

PHANTORA_EXPORT Result cufftGetProperty(libraryPropertyType part, int* value) {
  return version_of_cufft.tell(part, value, success, invalid_value);
}

PHANTORA_EXPORT Result cufftXtExec(int handle, void*, void* output, int) {
  return execute(handle, output, std::nullopt);
}

PHANTORA_EXPORT Result cufftExecC2C(int handle, void*, void* output, int) {
  return execute(handle, output, types_of(c2c));
}

PHANTORA_EXPORT Result cufftExecR2C(int handle, void*, void* output) {
  return execute(handle, output, types_of(r2c));
}

PHANTORA_EXPORT Result cufftExecC2R(int handle, void*, void* output) {
  return execute(handle, output, types_of(c2r));
}

PHANTORA_EXPORT Result cufftExecZ2Z(int handle, void*, void* output, int) {
  return execute(handle, output, types_of(z2z));
}

PHANTORA_EXPORT Result cufftExecD2Z(int handle, void*, void* output) {
  return execute(handle, output, types_of(d2z));
}

PHANTORA_EXPORT Result cufftExecZ2D(int handle, void*, void* output) {
  return execute(handle, output, types_of(z2d));
}
