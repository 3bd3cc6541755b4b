#include "rank/kernels/families/element_type.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

namespace phantora::rank {

namespace {

template <class T>
T raw(const std::byte* source) noexcept {
  T value;
  std::memcpy(&value, source, sizeof value);
  return value;
}
template <class T>
void put(T value, std::byte* destination) noexcept {
  std::memcpy(destination, &value, sizeof value);
}

float from_bfloat16(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::uint16_t to_bfloat16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return 0x7fc0;
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);  // nearest, even
}

float from_float16(std::uint16_t bits) noexcept {
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  float magnitude = 0;
  if (exponent == 31) {
    magnitude = mantissa == 0 ? std::numeric_limits<float>::infinity()
                              : std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<float>(mantissa), -24);
  } else {
    magnitude = std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

std::uint16_t to_float16(float value) noexcept {
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7e00);
  const float magnitude = std::fabs(value);
  if (magnitude >= 65520.0f) return static_cast<std::uint16_t>(sign | 0x7c00);  // rounds to inf
  if (magnitude == 0) return sign;
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude = m * 2^exponent, m in [1/2, 1)
  // 11 significant bits, at least 2^-24 each: nearbyint rounds to nearest, even.
  const int unit = std::max(exponent - 11, -24);
  const auto units = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(magnitude, -unit)));
  const std::uint32_t bits =
      unit == -24 ? units : units + (static_cast<std::uint32_t>(unit + 24) << 10);
  return static_cast<std::uint16_t>(sign | bits);
}

/// The nearest float of eight bits, even of two; `overflow`: the bits of what rounds to more than
/// those of `greatest`.
std::uint8_t to_float8(float value, int mantissa_bits, int greatest, int overflow) noexcept {
  const int sign = std::signbit(value) ? 0x80 : 0;
  const float magnitude = std::fabs(value);
  if (magnitude == 0) return static_cast<std::uint8_t>(sign);
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude = m * 2^exponent, m in [1/2, 1)
  const int bias = (1 << (6 - mantissa_bits)) - 1;
  const int least_unit = 1 - bias - mantissa_bits;
  const int unit = std::max(exponent - mantissa_bits - 1, least_unit);
  const int units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, -unit)));
  const int bits = units + ((unit - least_unit) << mantissa_bits);
  return static_cast<std::uint8_t>(sign | (bits > greatest ? overflow : bits));
}

float from_float8_e4m3(std::uint8_t bits) noexcept {
  const int exponent = (bits >> 3) & 15;
  const int mantissa = bits & 7;
  float magnitude = 0;
  if (exponent == 15 && mantissa == 7) {
    magnitude = std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<float>(mantissa), -9);
  } else {
    magnitude = std::ldexp(static_cast<float>(mantissa + 8), exponent - 10);
  }
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

/// What is too great becomes NaN, as on the CPU. (PyTorch for CUDA 13.2 and later saturates when it
/// converts a float32 tensor; recipes for float8 scale first, so that nothing is too great.)
std::uint8_t to_float8_e4m3(float value) noexcept {
  if (!std::isfinite(value)) return std::signbit(value) ? 0xff : 0x7f;
  return to_float8(value, 3, 0x7e, 0x7f);
}

float from_float8_e5m2(std::uint8_t bits) noexcept {
  return from_float16(static_cast<std::uint16_t>(bits << 8));  // its upper half
}

std::uint8_t to_float8_e5m2(float value) noexcept {
  const int sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value)) return static_cast<std::uint8_t>(sign | 0x7f);
  if (std::isinf(value)) return static_cast<std::uint8_t>(sign | 0x7c);
  return to_float8(value, 2, 0x7b, 0x7c);
}

/// A complex number's parts, one after the other.
ElementType part_of(ElementType type) noexcept {
  return type == ElementType::complex32   ? ElementType::float16
         : type == ElementType::complex64 ? ElementType::float32
                                          : ElementType::float64;
}

}  // namespace

bool is_floating(ElementType type) noexcept {
  return type >= ElementType::float8_e4m3 && type <= ElementType::float64;
}

bool is_complex(ElementType type) noexcept { return type >= ElementType::complex32; }

ElementType compute_type(ElementType type) noexcept {
  if (type == ElementType::complex32) return ElementType::complex64;
  return is_floating(type) && type < ElementType::float32 ? ElementType::float32 : type;
}

std::optional<ElementType> element_type_named(std::string_view name) {
  constexpr std::pair<std::string_view, ElementType> names[] = {
      {"bool", ElementType::boolean},
      {"unsigned char", ElementType::uint8},
      {"signed char", ElementType::int8},
      {"char", ElementType::int8},
      {"short", ElementType::int16},
      {"unsigned short", ElementType::uint16},
      {"int", ElementType::int32},
      {"unsigned int", ElementType::uint32},
      {"long", ElementType::int64},
      {"long long", ElementType::int64},
      {"unsigned long", ElementType::uint64},
      {"unsigned long long", ElementType::uint64},
      {"c10::Half", ElementType::float16},
      {"__half", ElementType::float16},
      {"c10::BFloat16", ElementType::bfloat16},
      {"__nv_bfloat16", ElementType::bfloat16},
      {"c10::Float8_e4m3fn", ElementType::float8_e4m3},
      {"c10::Float8_e5m2", ElementType::float8_e5m2},
      {"float", ElementType::float32},
      {"double", ElementType::float64},
      // As sources write them, which nobody demangled.
      {"at::Half", ElementType::float16},
      {"at::BFloat16", ElementType::bfloat16},
      {"int8_t", ElementType::int8},
      {"uint8_t", ElementType::uint8},
      {"int16_t", ElementType::int16},
      {"int32_t", ElementType::int32},
      {"int64_t", ElementType::int64},
  };
  for (const auto& [text, type] : names) {
    if (text == name) return type;
  }
  return std::nullopt;
}

std::optional<ElementType> number_type_named(std::string_view name) {
  constexpr std::pair<std::string_view, ElementType> names[] = {
      {"c10::complex<c10::Half>", ElementType::complex32},
      {"c10::complex<float>", ElementType::complex64},
      {"c10::complex<double>", ElementType::complex128},
      // As sources write them, which nobody demangled.
      {"std::complex<at::Half>", ElementType::complex32},
      {"std::complex<float>", ElementType::complex64},
      {"std::complex<double>", ElementType::complex128},
  };
  for (const auto& [text, type] : names) {
    if (text == name) return type;
  }
  return element_type_named(name);
}

std::optional<ElementType> element_type_of_scalar_type(std::uint8_t number) {
  switch (number) {
    case 0:
      return ElementType::uint8;
    case 1:
      return ElementType::int8;
    case 2:
      return ElementType::int16;
    case 3:
      return ElementType::int32;
    case 4:
      return ElementType::int64;
    case 5:
      return ElementType::float16;
    case 6:
      return ElementType::float32;
    case 7:
      return ElementType::float64;
    case 8:
      return ElementType::complex32;
    case 9:
      return ElementType::complex64;
    case 10:
      return ElementType::complex128;
    case 11:
      return ElementType::boolean;
    case 15:
      return ElementType::bfloat16;
    case 23:
      return ElementType::float8_e5m2;
    case 24:
      return ElementType::float8_e4m3;
    case 27:
      return ElementType::uint16;
    case 28:
      return ElementType::uint32;
    case 29:
      return ElementType::uint64;
    default:
      return std::nullopt;
  }
}

std::optional<ElementType> opaque_type(std::size_t bytes) {
  switch (bytes) {
    case 1:
      return ElementType::uint8;
    case 2:
      return ElementType::uint16;
    case 4:
      return ElementType::uint32;
    case 8:
      return ElementType::uint64;
    default:
      return std::nullopt;
  }
}

std::int64_t Value::to_integer() const noexcept {
  if (!floating) return integer;
  if (std::isnan(real)) return 0;
  constexpr double limit = 9223372036854775808.0;  // 2^63
  if (real >= limit) return std::numeric_limits<std::int64_t>::max();
  if (real < -limit) return std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(real);
}

Value load(ElementType type, const std::byte* source) noexcept {
  switch (type) {
    case ElementType::boolean:
      return raw<std::uint8_t>(source) != 0;
    case ElementType::uint8:
      return static_cast<std::int64_t>(raw<std::uint8_t>(source));
    case ElementType::int8:
      return static_cast<std::int64_t>(raw<std::int8_t>(source));
    case ElementType::int16:
      return static_cast<std::int64_t>(raw<std::int16_t>(source));
    case ElementType::uint16:
      return static_cast<std::int64_t>(raw<std::uint16_t>(source));
    case ElementType::int32:
      return static_cast<std::int64_t>(raw<std::int32_t>(source));
    case ElementType::uint32:
      return static_cast<std::int64_t>(raw<std::uint32_t>(source));
    case ElementType::int64:
    case ElementType::uint64:
      return raw<std::int64_t>(source);
    case ElementType::float16:
      return from_float16(raw<std::uint16_t>(source));
    case ElementType::bfloat16:
      return from_bfloat16(raw<std::uint16_t>(source));
    case ElementType::float32:
      return raw<float>(source);
    case ElementType::float64:
      return raw<double>(source);
    case ElementType::float8_e4m3:
      return from_float8_e4m3(raw<std::uint8_t>(source));
    case ElementType::float8_e5m2:
      return from_float8_e5m2(raw<std::uint8_t>(source));
    case ElementType::complex32:
    case ElementType::complex64:
    case ElementType::complex128: {
      const ElementType part = part_of(type);
      return std::complex{load(part, source).real, load(part, source + size_of(part)).real};
    }
  }
  return {};
}

void store(ElementType type, const Value& value, std::byte* destination) noexcept {
  switch (type) {
    case ElementType::boolean:
      return put(static_cast<std::uint8_t>(value.to_bool()), destination);
    case ElementType::uint8:
    case ElementType::int8:
      return put(static_cast<std::uint8_t>(value.to_integer()), destination);
    case ElementType::int16:
    case ElementType::uint16:
      return put(static_cast<std::uint16_t>(value.to_integer()), destination);
    case ElementType::int32:
    case ElementType::uint32:
      return put(static_cast<std::uint32_t>(value.to_integer()), destination);
    case ElementType::int64:
    case ElementType::uint64:
      return put(value.to_integer(), destination);
    case ElementType::float16:
      return put(to_float16(value.as<float>()), destination);
    case ElementType::bfloat16:
      return put(to_bfloat16(value.as<float>()), destination);
    case ElementType::float32:
      return put(value.as<float>(), destination);
    case ElementType::float64:
      return put(value.to_real(), destination);
    case ElementType::float8_e4m3:
      return put(to_float8_e4m3(value.as<float>()), destination);
    case ElementType::float8_e5m2:
      return put(to_float8_e5m2(value.as<float>()), destination);
    case ElementType::complex32:
    case ElementType::complex64:
    case ElementType::complex128: {
      const ElementType part = part_of(type);
      store(part, value.to_real(), destination);
      return store(part, value.imaginary, destination + size_of(part));
    }
  }
}

Value converted(ElementType type, const Value& value) noexcept {
  std::byte bytes[16];
  store(type, value, bytes);
  return load(type, bytes);
}

}  // namespace phantora::rank
