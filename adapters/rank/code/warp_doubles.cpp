#include "rank/code/directed.hpp"
#include "rank/code/warp.hpp"

#include <cmath>

/// Of Warp: doubles, and conversions from and to what has 64 bits, where data count.
///
/// Encodings as nvdisasm shows them (sm_90, CUDA 13.0). A double lies in a pair of registers; one
/// that stands in the instruction has its upper half there.
namespace phantora::rank::code {
namespace {

/// Kinds of a conversion's operand and result.
constexpr unsigned word = 2, two_words = 3;
/// Of integers and of whole numbers: down, up, to zero, or to the nearest even one.
double whole(double x, unsigned rounding) {
  switch (rounding) {
    case 1:
      return std::floor(x);
    case 2:
      return std::ceil(x);
    case 3:
      return std::trunc(x);
    default:
      return std::nearbyint(x);
  }
}

/// The nearest of the integers of so many bits.
std::uint64_t saturated(double whole, bool is_signed, unsigned bits) {
  const double beyond = std::ldexp(1.0, static_cast<int>(bits - (is_signed ? 1 : 0)));
  const std::uint64_t all = bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
  if (!is_signed) return whole >= beyond ? all : whole <= 0 ? 0 : static_cast<std::uint64_t>(whole);
  if (whole >= beyond) return all >> 1U;
  if (whole < -beyond) return (all >> 1U) + 1;
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(whole)) & all;
}

}  // namespace

std::array<std::uint64_t, lanes> Warp::wide_bits(const Instruction& i, Operand operand,
                                                 Mask& known) const {
  const int number = operand == Operand::first    ? static_cast<int>(register_of(i, 24))
                     : operand == Operand::second ? b_register(i)
                                                  : c_register(i);
  const bool immediate = i.form() == (operand == Operand::second ? 4U : 2U);
  Lanes room;
  const Lanes low = number >= 0 ? get(static_cast<unsigned>(number))
                    : immediate ? constant(0)
                                : bank(i, room);
  const Lanes upper = number >= 0 ? high(static_cast<unsigned>(number))
                      : immediate ? constant(i.immediate())
                                  : bank(i, room, 4);
  known = low.known & upper.known;
  std::array<std::uint64_t, lanes> bits{};
  for (std::size_t lane = 0; lane < lanes; ++lane)
    bits[lane] = std::uint64_t{upper.value[lane]} << 32 | low.value[lane];
  return bits;
}

Warp::Doubles Warp::double_operand(const Instruction& i, Operand operand) const {
  Doubles result;
  const auto bits = wide_bits(i, operand, result.known);
  const bool third = operand == Operand::third;
  const bool behind = third ? i.form() != 2 && i.form() != 3 && i.form() != 7
                            : i.form() == 2 || i.form() == 3 || i.form() == 7;
  const bool immediate = i.form() == (third ? 2U : 4U);
  const unsigned absolute = operand == Operand::first ? 73 : behind ? 74 : 62;
  const bool negates = operand == Operand::first ? i.bit(72) : third ? negates_c(i) : negates_b(i);
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    double x = std::bit_cast<double>(bits[lane]);
    if (i.bit(absolute) && (operand == Operand::first || !immediate)) x = std::fabs(x);
    result.value[lane] = negates ? -x : x;
  }
  return result;
}

void Warp::set_wide(unsigned to, const std::array<std::uint64_t, lanes>& bits, Mask known,
                    Mask mask) {
  Lanes low, upper;
  low.known = upper.known = known;
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    low.value[lane] = static_cast<std::uint32_t>(bits[lane]);
    upper.value[lane] = static_cast<std::uint32_t>(bits[lane] >> 32U);
  }
  set(to, low, mask);
  if (!is_zero(to)) set(to + 1, upper, mask);
}

void Warp::set_doubles(unsigned to, const Doubles& value, Mask mask) {
  std::array<std::uint64_t, lanes> bits{};
  for (std::size_t lane = 0; lane < lanes; ++lane)
    bits[lane] = std::bit_cast<std::uint64_t>(value.value[lane]);
  set_wide(to, bits, value.known, mask);
}

void Warp::compute_doubles(const Instruction& i, Mask mask) {
  const unsigned operation = i.operation() & ~uniform;
  const bool sums = operation == op_dadd, products = operation == op_dmul;
  const unsigned rounding = i.field(78, 2);
  const Doubles x = double_operand(i, Operand::first);
  const Doubles y = sums ? Doubles{{}, all_lanes} : double_operand(i, Operand::second);
  const Doubles z = products ? Doubles{{}, all_lanes} : double_operand(i, Operand::third);
  Doubles result;
  result.known = x.known & y.known & z.known;
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    const double p = x.value[lane], q = y.value[lane], r = z.value[lane];
    result.value[lane] = sums       ? directed_sum(p, r, rounding)
                         : products ? directed_product(p, q, rounding)
                                    : directed_fma(p, q, r, rounding);
  }
  set_doubles(register_of(i, 16), result, mask);
}

Truth Warp::compared_doubles(const Instruction& i) const {
  // A number in the instruction, or in a constant bank, takes the third operand's place.
  const bool behind = i.form() == 2 || i.form() == 3 || i.form() == 7;
  const Doubles x = double_operand(i, Operand::first),
                y = double_operand(i, behind ? Operand::third : Operand::second);
  const unsigned relation = i.field(76, 4);
  constexpr unsigned least = 0, greatest = 15;
  Truth truth{0, x.known & y.known};
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    const double p = x.value[lane], q = y.value[lane];
    const bool unordered = std::isnan(p) || std::isnan(q);
    bool holds = false;
    if (relation == least || relation == greatest) {
      // Of no numbers, and of zeros with signs, nobody has written down which is taken.
      if (unordered || (p == 0 && q == 0 && std::signbit(p) != std::signbit(q)))
        truth.known &= ~(Mask{1} << lane);
      holds = relation == least ? p < q : p > q;
    } else {
      holds = relation_holds(relation, p, q);
    }
    if (holds) truth.value |= Mask{1} << lane;
  }
  return truth;
}

void Warp::convert_wide(const Instruction& i, Mask mask) {
  const unsigned operation = i.operation(), from = i.field(84, 2), into = i.field(75, 2),
                 rounding = i.field(78, 2), to = register_of(i, 16);
  const bool plain_form = i.form() == 4 || i.field(62, 2) == 0;  // no signs are changed
  if (from < word || into < word || (operation == op_i2f_double && !plain_form)) {
    forget(to, converted_words(i), mask);
    return;
  }
  Mask known = 0;
  std::array<std::uint64_t, lanes> bits{};
  Doubles x;
  if (from == two_words) {
    bits = wide_bits(i, Operand::second, known);
    x = double_operand(i, Operand::second);
  } else {
    const bool integer = operation == op_i2f_double;
    const Lanes narrow =
        integer ? b(i)
                : float_operand(i, b(i), i.bit(63) && i.form() != 4, i.bit(62) && i.form() != 4);
    known = narrow.known;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      bits[lane] = integer && i.bit(74) ? static_cast<std::uint64_t>(static_cast<std::int64_t>(
                                              static_cast<std::int32_t>(narrow.value[lane])))
                                        : narrow.value[lane];
      x.value[lane] = as_float(narrow.value[lane]);
    }
  }
  std::array<std::uint64_t, lanes> result{};
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    const double value = x.value[lane];
    if (operation == op_i2f_double) {
      const bool is_signed = i.bit(74);
      const auto number = static_cast<std::int64_t>(bits[lane]);
      if (into == two_words) {
        const double made =
            is_signed ? directed<double>(number, rounding) : directed<double>(bits[lane], rounding);
        result[lane] = std::bit_cast<std::uint64_t>(made);
      } else {
        result[lane] = as_bits(is_signed ? directed<float>(number, rounding)
                                         : directed<float>(bits[lane], rounding));
      }
    } else if (operation == op_f2i_double) {
      // What is no number becomes one of several, as the compiler asks.
      if (std::isnan(value)) known &= ~(Mask{1} << lane);
      result[lane] = std::isnan(value) ? 0
                                       : saturated(whole(value, rounding), i.bit(72),
                                                   into == two_words ? 64 : 32);
    } else if (into == two_words) {
      result[lane] = std::bit_cast<std::uint64_t>(value);
    } else {
      std::uint32_t made = as_bits(directed<float>(value, rounding));
      if (i.bit(80) && (made & 0x7f800000U) == 0) made &= 0x80000000U;  // .FTZ
      result[lane] = made;
    }
  }
  if (into == two_words) return set_wide(to, result, known, mask);
  Lanes single;
  single.known = known;
  for (std::size_t lane = 0; lane < lanes; ++lane)
    single.value[lane] = static_cast<std::uint32_t>(result[lane]);
  set(to, single, mask);
}

void Warp::round_to_whole(const Instruction& i, Mask mask) {
  const unsigned rounding = i.field(78, 2), to = register_of(i, 16);
  if (i.operation() == op_frnd_double) {
    Doubles x = double_operand(i, Operand::second);
    if (i.field(84, 2) != two_words || i.field(75, 2) != two_words) x.known = 0;
    for (double& value : x.value) value = whole(value, rounding);
    return set_doubles(to, x, mask);
  }
  Lanes x = float_operand(i, b(i), i.bit(63) && i.form() != 4, i.bit(62) && i.form() != 4);
  if (i.field(84, 2) != word || i.field(75, 2) != word) x.known = 0;
  for (std::uint32_t& value : x.value)
    value = as_bits(static_cast<float>(whole(as_float(value), rounding)));
  set(to, x, mask);
}

}  // namespace phantora::rank::code
