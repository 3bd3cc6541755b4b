#include "rank/kernels/contrast.hpp"

#include <cmath>
#include <limits>

namespace phantora::rank {

namespace {

/// The least and the greatest value of a type.
std::pair<Value, Value> extremes(ElementType type) {
  if (is_floating(type) || is_complex(type)) {  // of a complex number its real part
    constexpr double infinity = std::numeric_limits<double>::infinity();
    return {Value{-infinity}, Value{infinity}};
  }
  const auto bits = static_cast<unsigned>(8 * size_of(type));
  switch (type) {
    case ElementType::boolean:
      return {Value{0}, Value{1}};
    case ElementType::uint8:
    case ElementType::uint16:
    case ElementType::uint32:
      return {Value{0}, Value{(std::int64_t{1} << bits) - 1}};
    default: {
      // A uint64 keeps its bits in a signed value, and is compared as one.
      const std::int64_t most = std::numeric_limits<std::int64_t>::max() >> (64 - bits);
      return {Value{-most - 1}, Value{most}};
    }
  }
}

}  // namespace

std::vector<Value> contrasting(Contrast contrast, ElementType type,
                               std::span<const std::optional<Value>> beside) {
  std::vector<Value> values;
  switch (contrast) {
    case Contrast::none:
      return {};
    case Contrast::choice:
      values = {Value{1}, Value{0}};
      break;
    case Contrast::bits:
      values = {Value{0}, Value{-1}};
      break;
    case Contrast::product:
      values = {Value{1}, Value{0}, Value{-1}};
      break;
    case Contrast::order: {
      constexpr double greatest_of_fp16 = 65504;
      const auto [least, greatest] = extremes(type);
      values = is_floating(type) ? std::vector{Value{-greatest_of_fp16}, Value{greatest_of_fp16}}
                                 : std::vector{least, greatest};
      break;
    }
    case Contrast::monotone:
    case Contrast::equality: {
      const auto [least, greatest] = extremes(type);
      values = {least, greatest};
      if (is_floating(type) || is_complex(type))
        values.emplace_back(std::numeric_limits<double>::quiet_NaN());
      if (contrast == Contrast::equality) {
        for (const auto& value : beside) {
          if (value) values.push_back(*value);
        }
      }
      break;
    }
  }
  for (Value& value : values) value = converted(type, value);
  return values;
}

bool same_result(const Value& a, const Value& b) noexcept {
  if (!a.floating && !b.floating) return a.integer == b.integer;
  const auto same = [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); };
  return same(a.to_real(), b.to_real()) && same(a.imaginary, b.imaginary);
}

Decider::Decider(Contrast contrast, std::span<const ElementType> types)
    : contrast_{contrast},
      types_{types.begin(), types.end()},
      tries_(types.size()),
      values_(types.size()),
      counts_(types.size()),
      at_(types.size()) {
  for (std::size_t a = 0; a < types.size(); ++a) tries_[a] = contrasting(contrast, types[a], {});
}

}  // namespace phantora::rank
