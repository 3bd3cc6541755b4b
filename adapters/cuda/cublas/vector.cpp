// Level 1: vectors. Small vectors with known values are computed; results are delivered to host or
// device as the pointer mode says.
#include "cuda/cublas/handle.hpp"
#include "cuda/cublas/index.hpp"
#include "cuda/library/operation.hpp"
#include "rank/memory/data_queue.hpp"
#include "rank/memory/device_memory.hpp"
#include "rank/memory/unknown_reads.hpp"

#include <cmath>
#include <complex>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

using namespace phantora::cublas;
namespace library = phantora::library;
namespace rank = phantora::rank;
using phantora::KernelQuery;

namespace {

/// C++'s number for a BLAS one: cuComplex and std::complex<float> have the same bytes.
template <class T>
struct NumberOf {
  using type = T;
};
template <>
struct NumberOf<cuComplex> {
  using type = std::complex<float>;
};
template <>
struct NumberOf<cuDoubleComplex> {
  using type = std::complex<double>;
};
template <class T>
using Number = typename NumberOf<T>::type;

template <class N>
struct RealOf {
  using type = N;
};
template <class R>
struct RealOf<std::complex<R>> {
  using type = R;
};
template <class N>
using Real = typename RealOf<N>::type;

template <class N>
N conjugate(N value) {
  if constexpr (std::is_same_v<N, Real<N>>) {
    return value;
  } else {
    return std::conj(value);
  }
}

/// |re| + |im|, which BLAS's asum and amax use.
template <class N>
Real<N> absolute(N value) {
  if constexpr (std::is_same_v<N, Real<N>>) {
    return std::abs(value);
  } else {
    return std::abs(value.real()) + std::abs(value.imag());
  }
}

/// A strided vector on the device. BLAS counts a negative increment from the vector's end.
template <class N>
struct Vector {
  const void* data = nullptr;
  std::int64_t count = 0, increment = 1;

  [[nodiscard]] std::size_t extent() const {
    const auto steps = static_cast<std::size_t>(std::abs(increment)) *
                       static_cast<std::size_t>(count > 0 ? count - 1 : 0);
    return count > 0 ? (steps + 1) * sizeof(N) : 0;
  }
  [[nodiscard]] std::byte* at(std::int64_t i) const {
    const std::int64_t from = increment >= 0 ? i : i - (count - 1);
    return static_cast<std::byte*>(const_cast<void*>(data)) +
           from * increment * static_cast<std::int64_t>(sizeof(N));
  }
  /// nullopt if it is too large to be real, or not known.
  [[nodiscard]] std::optional<std::vector<N>> read() const {
    if (extent() > rank::small_bytes || !rank::known(data, extent())) return std::nullopt;
    std::vector<std::byte> bytes(extent());
    rank::read(bytes.data(), data, bytes.size());
    std::vector<N> values(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) {
      std::memcpy(&values[static_cast<std::size_t>(i)],
                  bytes.data() + (at(i) - static_cast<const std::byte*>(data)), sizeof(N));
    }
    return values;
  }
  void write(const std::vector<N>& values) const {
    for (std::int64_t i = 0; i < count; ++i) {
      rank::write(at(i), &values[static_cast<std::size_t>(i)], sizeof(N));
    }
  }
  void forget() const {
    if (count > 0) rank::forget(const_cast<void*>(data), extent());
  }
};

/// A scalar argument, read now from the host or later from the device.
template <class N>
class Scalar {
 public:
  Scalar(const void* address, bool on_device) : address_{address}, on_device_{on_device} {
    if (!on_device_) std::memcpy(&value_, address, sizeof(N));
  }
  [[nodiscard]] std::optional<N> get() const {
    if (!on_device_) return value_;
    if (!rank::known(address_, sizeof(N))) return std::nullopt;
    N value;
    rank::read(&value, address_, sizeof(N));
    return value;
  }

 private:
  const void* address_;
  bool on_device_;
  N value_{};
};

KernelQuery describe(const char* name, cudaDataType type, Index n, double vectors_moved,
                     double flops_per_element) {
  KernelQuery query;
  query.name = name;
  query.features = {{"n", static_cast<double>(n)}};
  query.attributes = {{"type", library::name_of(type)}};
  query.bytes =
      vectors_moved * static_cast<double>(n) * static_cast<double>(library::size_of(type));
  query.flops = flops_per_element * static_cast<double>(n);
  return query;
}

/// Delivers a result that `compute` finds (nullopt: unknown) to `result`, host or device. A host
/// result is waited for, as cuBLAS does.
template <class R>
void deliver(cublasHandle_t handle, R* result, std::function<std::optional<R>()> compute) {
  rank::Stream& stream = stream_of(handle);
  const bool device = scalars_on_device(handle) && rank::is_device_address(result);
  if (device) {
    rank::data::enqueue(stream, [=] {
      if (const auto value = compute()) {
        rank::write(result, &*value, sizeof(R));
      } else {
        rank::forget(result, sizeof(R));
      }
    });
    return;
  }
  *result = R{};
  const auto known = std::make_shared<bool>(true);
  rank::data::enqueue(stream, [=] {
    if (const auto value = compute()) {
      *result = *value;
    } else {
      *known = false;
    }
  });
  rank::synchronize(stream);
  if (!*known) rank::tell_unknown_read(result, sizeof(R));
}

template <class T>
cublasStatus_t axpy(cublasHandle_t handle, Index n, const T* alpha, const T* x, Index incx, T* y,
                    Index incy) {
  return entry(handle, Api::gemm, [&] {
    if (n <= 0) return CUBLAS_STATUS_SUCCESS;
    using N = Number<T>;
    const Vector<N> from{x, n, incx}, to{y, n, incy};
    const Scalar<N> factor{alpha, scalars_on_device(handle)};
    rank::launch(stream_of(handle), describe("axpy", type_of<T>, n, 3, 2));
    rank::data::enqueue(stream_of(handle), [=] {
      const auto a = factor.get();
      const auto source = from.read();
      auto target = to.read();
      if (!a || !source || !target) return to.forget();
      for (std::size_t i = 0; i < target->size(); ++i) (*target)[i] += *a * (*source)[i];
      to.write(*target);
    });
    return CUBLAS_STATUS_SUCCESS;
  });
}

template <class T, class S>
cublasStatus_t scal(cublasHandle_t handle, Index n, const S* alpha, T* x, Index incx) {
  return entry(handle, Api::gemm, [&] {
    if (n <= 0) return CUBLAS_STATUS_SUCCESS;
    using N = Number<T>;
    const Vector<N> vector{x, n, incx};
    const Scalar<Number<S>> factor{alpha, scalars_on_device(handle)};
    rank::launch(stream_of(handle), describe("scal", type_of<T>, n, 2, 1));
    rank::data::enqueue(stream_of(handle), [=] {
      const auto a = factor.get();
      auto values = vector.read();
      if (!a || !values) return vector.forget();
      for (N& value : *values) value *= *a;
      vector.write(*values);
    });
    return CUBLAS_STATUS_SUCCESS;
  });
}

template <class T>
cublasStatus_t copy(cublasHandle_t handle, Index n, const T* x, Index incx, T* y, Index incy) {
  return entry(handle, Api::gemm, [&] {
    if (n <= 0) return CUBLAS_STATUS_SUCCESS;
    const Vector<Number<T>> from{x, n, incx}, to{y, n, incy};
    rank::launch(stream_of(handle), describe("copy", type_of<T>, n, 2, 0));
    rank::data::enqueue(stream_of(handle), [=] {
      const auto values = from.read();
      if (!values) return to.forget();
      to.write(*values);
    });
    return CUBLAS_STATUS_SUCCESS;
  });
}

template <class T>
cublasStatus_t swap(cublasHandle_t handle, Index n, T* x, Index incx, T* y, Index incy) {
  return entry(handle, Api::gemm, [&] {
    if (n <= 0) return CUBLAS_STATUS_SUCCESS;
    const Vector<Number<T>> first{x, n, incx}, second{y, n, incy};
    rank::launch(stream_of(handle), describe("swap", type_of<T>, n, 4, 0));
    rank::data::enqueue(stream_of(handle), [=] {
      const auto one = first.read(), two = second.read();
      if (one)
        second.write(*one);
      else
        second.forget();
      if (two)
        first.write(*two);
      else
        first.forget();
    });
    return CUBLAS_STATUS_SUCCESS;
  });
}

template <class T>
cublasStatus_t dot(cublasHandle_t handle, Index n, const T* x, Index incx, const T* y, Index incy,
                   T* result, bool conjugates) {
  return entry(handle, Api::gemm, [&] {
    using N = Number<T>;
    const Vector<N> left{x, n, incx}, right{y, n, incy};
    rank::launch(stream_of(handle), describe("dot", type_of<T>, n, 2, 2));
    deliver<N>(handle, reinterpret_cast<N*>(result), [=]() -> std::optional<N> {
      const auto a = left.read(), b = right.read();
      if (!a || !b) return std::nullopt;
      N sum{};
      for (std::size_t i = 0; i < a->size(); ++i) {
        sum += (conjugates ? conjugate((*a)[i]) : (*a)[i]) * (*b)[i];
      }
      return sum;
    });
    return CUBLAS_STATUS_SUCCESS;
  });
}

/// Norms and sums of one vector: `fold` gives the result from its elements.
template <class T, class R, class Fold>
cublasStatus_t reduce(cublasHandle_t handle, const char* name, Index n, const T* x, Index incx,
                      R* result, Fold fold) {
  return entry(handle, Api::gemm, [&] {
    const Vector<Number<T>> vector{x, n, incx};
    rank::launch(stream_of(handle), describe(name, type_of<T>, n, 1, 2));
    deliver<R>(handle, result, [=]() -> std::optional<R> {
      const auto values = vector.read();
      if (!values) return std::nullopt;
      return fold(*values);
    });
    return CUBLAS_STATUS_SUCCESS;
  });
}

template <class T, class R>
cublasStatus_t nrm2(cublasHandle_t handle, Index n, const T* x, Index incx, R* result) {
  return reduce(handle, "nrm2", n, x, incx, result, [](const auto& values) {
    double sum = 0;
    for (const auto value : values) sum += static_cast<double>(std::norm(value));
    return static_cast<R>(std::sqrt(sum));
  });
}

template <class T, class R>
cublasStatus_t asum(cublasHandle_t handle, Index n, const T* x, Index incx, R* result) {
  return reduce(handle, "asum", n, x, incx, result, [](const auto& values) {
    R sum = 0;
    for (const auto value : values) sum += absolute(value);
    return sum;
  });
}

/// The 1-based position of the first largest (or smallest) magnitude; 0 for an empty vector.
template <class T>
cublasStatus_t extreme(cublasHandle_t handle, Index n, const T* x, Index incx, Index* result,
                       bool largest) {
  return reduce(handle, largest ? "amax" : "amin", n, x, incx, result, [=](const auto& values) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < values.size(); ++i) {
      const auto here = absolute(values[i]), there = absolute(values[best]);
      if (largest ? here > there : here < there) best = i;
    }
    return static_cast<Index>(values.empty() ? 0 : best + 1);
  });
}

}  // namespace

#define PHANTORA_VECTORS(letter, lower, T)                                                        \
  PHANTORA_EXPORT cublasStatus_t PHANTORA_BLAS(cublas##letter##axpy_v2)(                          \
      cublasHandle_t handle, Index n, const T* alpha, const T* x, Index incx, T* y, Index incy) { \
    return axpy(handle, n, alpha, x, incx, y, incy);                                              \
  }                                                                                               \
  PHANTORA_EXPORT cublasStatus_t PHANTORA_BLAS(cublas##letter##scal_v2)(                          \
      cublasHandle_t handle, Index n, const T* alpha, T* x, Index incx) {                         \
    return scal(handle, n, alpha, x, incx);                                                       \
  }                                                                                               \
  PHANTORA_EXPORT cublasStatus_t PHANTORA_BLAS(cublas##letter##copy_v2)(                          \
      cublasHandle_t handle, Index n, const T* x, Index incx, T* y, Index incy) {                 \
    return copy(handle, n, x, incx, y, incy);                                                     \
  }                                                                                               \
  PHANTORA_EXPORT cublasStatus_t PHANTORA_BLAS(cublas##letter##swap_v2)(                          \
      cublasHandle_t handle, Index n, T * x, Index incx, T * y, Index incy) {                     \
    return swap(handle, n, x, incx, y, incy);                                                     \
  }                                                                                               \
  PHANTORA_EXPORT cublasStatus_t PHANTORA_BLAS(cublasI##lower##amax_v2)(                          \
      cublasHandle_t handle, Index n, const T* x, Index incx, Index* result) {                    \
    return extreme(handle, n, x, incx, result, true);                                             \
  }                                                                                               \
  PHANTORA_EXPORT cublasStatus_t PHANTORA_BLAS(cublasI##lower##amin_v2)(                          \
      cublasHandle_t handle, Index n, const T* x, Index incx, Index* result) {                    \
    return extreme(handle, n, x, incx, result, false);                                            \
  }
PHANTORA_VECTORS(S, s, float)
PHANTORA_VECTORS(D, d, double)
PHANTORA_VECTORS(C, c, cuComplex)
PHANTORA_VECTORS(Z, z, cuDoubleComplex)

#define PHANTORA_DOT(name, T, conjugates)                                                          \
  PHANTORA_EXPORT cublasStatus_t PHANTORA_BLAS(name)(                                              \
      cublasHandle_t handle, Index n, const T* x, Index incx, const T* y, Index incy, T* result) { \
    return dot(handle, n, x, incx, y, incy, result, conjugates);                                   \
  }
PHANTORA_DOT(cublasSdot_v2, float, false)
PHANTORA_DOT(cublasDdot_v2, double, false)
PHANTORA_DOT(cublasCdotu_v2, cuComplex, false)
PHANTORA_DOT(cublasCdotc_v2, cuComplex, true)
PHANTORA_DOT(cublasZdotu_v2, cuDoubleComplex, false)
PHANTORA_DOT(cublasZdotc_v2, cuDoubleComplex, true)

#define PHANTORA_NORM(function, name, T, R)                                                      \
  PHANTORA_EXPORT cublasStatus_t PHANTORA_BLAS(name)(cublasHandle_t handle, Index n, const T* x, \
                                                     Index incx, R* result) {                    \
    return function(handle, n, x, incx, result);                                                 \
  }
PHANTORA_NORM(nrm2, cublasSnrm2_v2, float, float)
PHANTORA_NORM(nrm2, cublasDnrm2_v2, double, double)
PHANTORA_NORM(nrm2, cublasScnrm2_v2, cuComplex, float)
PHANTORA_NORM(nrm2, cublasDznrm2_v2, cuDoubleComplex, double)
PHANTORA_NORM(asum, cublasSasum_v2, float, float)
PHANTORA_NORM(asum, cublasDasum_v2, double, double)
PHANTORA_NORM(asum, cublasScasum_v2, cuComplex, float)
PHANTORA_NORM(asum, cublasDzasum_v2, cuDoubleComplex, double)

PHANTORA_EXPORT cublasStatus_t PHANTORA_BLAS(cublasCsscal_v2)(cublasHandle_t handle, Index n,
                                                              const float* alpha, cuComplex* x,
                                                              Index incx) {
  return scal(handle, n, alpha, x, incx);
}

PHANTORA_EXPORT cublasStatus_t PHANTORA_BLAS(cublasZdscal_v2)(cublasHandle_t handle, Index n,
                                                              const double* alpha,
                                                              cuDoubleComplex* x, Index incx) {
  return scal(handle, n, alpha, x, incx);
}

PHANTORA_EXPORT cublasStatus_t PHANTORA_BLAS(cublasDotEx)(cublasHandle_t handle, Index n,
                                                          const void* x, cudaDataType x_type,
                                                          Index incx, const void* y, cudaDataType,
                                                          Index incy, void* result,
                                                          cudaDataType result_type, cudaDataType) {
  return entry(handle, Api::gemm, [&] {
    const auto element = library::real_type(x_type), to = library::real_type(result_type);
    if (!element || !to) return CUBLAS_STATUS_NOT_SUPPORTED;
    rank::launch(stream_of(handle), describe("dot", x_type, n, 2, 2));
    // 16-bit vectors have no C++ number type of their own here: elements are read one by one.
    const auto compute = [=]() -> std::optional<double> {
      const std::size_t size = rank::size_of(*element);
      double sum = 0;
      for (Index i = 0; i < n; ++i) {
        std::byte left[8], right[8];
        const auto* a =
            static_cast<const std::byte*>(x) + static_cast<std::ptrdiff_t>(size) * i * incx;
        const auto* b =
            static_cast<const std::byte*>(y) + static_cast<std::ptrdiff_t>(size) * i * incy;
        if (!rank::known(a, size) || !rank::known(b, size)) return std::nullopt;
        rank::read(left, a, size);
        rank::read(right, b, size);
        sum += rank::load(*element, left).to_real() * rank::load(*element, right).to_real();
      }
      return sum;
    };
    const bool is_small =
        static_cast<std::size_t>(n) * rank::size_of(*element) <= rank::small_bytes;
    const bool device = rank::is_device_address(result);
    const std::size_t bytes = rank::size_of(*to);
    rank::data::enqueue(stream_of(handle), [=, type = *to] {
      std::byte value[8] = {};
      const auto sum = is_small ? compute() : std::nullopt;
      rank::store(type, sum.value_or(0.0), value);
      if (!device) {
        std::memcpy(result, value, bytes);
        if (!sum) rank::count("unknown_reads");
      } else if (sum) {
        rank::write(result, value, bytes);
      } else {
        rank::forget(result, bytes);
      }
    });
    if (!device) rank::synchronize(stream_of(handle));
    return CUBLAS_STATUS_SUCCESS;
  });
}
