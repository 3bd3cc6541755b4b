#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

/// Element types of device tensors, and values of any of them.
namespace phantora::rank {

enum class ElementType : std::uint8_t {
  boolean,
  uint8,
  int8,
  int16,
  uint16,
  int32,
  uint32,
  int64,
  uint64,
  float8_e4m3,  ///< no infinities, one NaN
  float8_e5m2,
  float16,
  bfloat16,
  float32,
  float64,
  complex32,  ///< of two float16
  complex64,
  complex128
};

constexpr std::size_t size_of(ElementType type) noexcept {
  switch (type) {
    case ElementType::boolean:
    case ElementType::uint8:
    case ElementType::int8:
    case ElementType::float8_e4m3:
    case ElementType::float8_e5m2:
      return 1;
    case ElementType::int16:
    case ElementType::uint16:
    case ElementType::float16:
    case ElementType::bfloat16:
      return 2;
    case ElementType::int32:
    case ElementType::uint32:
    case ElementType::float32:
    case ElementType::complex32:
      return 4;
    case ElementType::int64:
    case ElementType::uint64:
    case ElementType::float64:
    case ElementType::complex64:
      break;
    case ElementType::complex128:
      return 16;
  }
  return 8;
}
/// Whether it is of real numbers, and not of integers.
bool is_floating(ElementType type) noexcept;
bool is_complex(ElementType type) noexcept;
/// The type that PyTorch computes in: float32 for narrower floats, complex64 for complex32, else
/// the type itself.
ElementType compute_type(ElementType type) noexcept;
/// From a C++ type as demangled: "float", "c10::BFloat16", "unsigned char", "long". Not the complex
/// ones: most families compute with what has an order.
std::optional<ElementType> element_type_named(std::string_view name);
/// The complex ones too: "c10::complex<float>".
std::optional<ElementType> number_type_named(std::string_view name);
/// From c10::ScalarType's number (torch/headeronly/core/ScalarType.h).
std::optional<ElementType> element_type_of_scalar_type(std::uint8_t number);
/// An unsigned type of `bytes`, for data that is moved and not computed with.
std::optional<ElementType> opaque_type(std::size_t bytes);

/// A number: exact for every element type (uint64 keeps its bits).
struct Value {
  double real = 0;
  double imaginary = 0;  ///< of complex numbers, which are floating
  std::int64_t integer = 0;
  bool floating = false;

  Value() = default;
  Value(double v) : real{v}, floating{true} {}  // NOLINT(google-explicit-constructor)
  Value(float v) : real{v}, floating{true} {}   // NOLINT(google-explicit-constructor)
  Value(std::int64_t v) : integer{v} {}         // NOLINT(google-explicit-constructor)
  Value(int v) : integer{v} {}                  // NOLINT(google-explicit-constructor)
  Value(bool v) : integer{v} {}                 // NOLINT(google-explicit-constructor)
  template <class R>
  Value(std::complex<R> v)  // NOLINT(google-explicit-constructor)
      : real{v.real()}, imaginary{v.imag()}, floating{true} {}

  /// As a device converts: truncating towards zero and saturating from floating to integer.
  [[nodiscard]] std::int64_t to_integer() const noexcept;
  [[nodiscard]] double to_real() const noexcept {
    return floating ? real : static_cast<double>(integer);
  }
  [[nodiscard]] std::complex<double> to_complex() const noexcept { return {to_real(), imaginary}; }
  [[nodiscard]] bool to_bool() const noexcept {
    return floating ? real != 0 || imaginary != 0 : integer != 0;
  }
  /// As C: float, double, a std::complex of these, or std::int64_t.
  template <class C>
  [[nodiscard]] C as() const noexcept;
};
template <>
inline float Value::as<float>() const noexcept {
  return floating ? static_cast<float>(real) : static_cast<float>(integer);
}
template <>
inline double Value::as<double>() const noexcept {
  return to_real();
}
template <>
inline std::int64_t Value::as<std::int64_t>() const noexcept {
  return to_integer();
}
template <>
inline std::complex<float> Value::as<std::complex<float>>() const noexcept {
  return {as<float>(), static_cast<float>(imaginary)};
}
template <>
inline std::complex<double> Value::as<std::complex<double>>() const noexcept {
  return to_complex();
}

Value load(ElementType type, const std::byte* source) noexcept;
/// Converts to `type` as static_cast does on the device.
void store(ElementType type, const Value& value, std::byte* destination) noexcept;
/// `value` after a conversion to `type`.
Value converted(ElementType type, const Value& value) noexcept;

/// Calls `f` with a zero of the C++ type that `type`, which is not complex, is computed in.
template <class F>
auto in_compute_type(ElementType type, F f) {
  switch (compute_type(type)) {
    case ElementType::float32:
      return f(float{});
    case ElementType::float64:
      return f(double{});
    default:
      return f(std::int64_t{});
  }
}
/// Of complex types too, for functions that need no order.
template <class F>
auto in_number_type(ElementType type, F f) {
  switch (compute_type(type)) {
    case ElementType::complex64:
      return f(std::complex<float>{});
    case ElementType::complex128:
      return f(std::complex<double>{});
    default:
      return in_compute_type(type, f);
  }
}

}  // namespace phantora::rank
