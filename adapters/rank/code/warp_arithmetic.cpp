#include "rank/code/warp.hpp"

#include <cmath>
#include <utility>

/// Of Warp: integers, FP32, predicates, tensor cores.
namespace phantora::rank::code {

Mask Warp::same_names(const Lanes& x, const Lanes& y, Mask of) const {
  if (!names() || of == 0) return 0;
  const auto first = static_cast<std::size_t>(std::countr_zero(of));
  Mask same = 0;
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    if ((of >> lane & 1) != 0 && x.name(lane) == x.name(first) && y.name(lane) == y.name(first))
      same |= Mask{1} << lane;
  }
  return same;
}

Name Warp::name_of(const Lanes& x, const Lanes& y, Mask alike) {
  if (alike == 0) return no_name;
  const auto first = static_cast<std::size_t>(std::countr_zero(alike));
  return name_by(std::uint64_t{x.name(first)} << 32 | y.name(first));
}

void Warp::compare_doubles(const Instruction& i, Mask mask) {
  if (executes()) {
    const Truth truth = compared_doubles(i), with = predicate(i, 87);
    const unsigned relation = i.field(76, 4);
    constexpr unsigned least = 0, greatest = 15;
    // Of a minimum the other says that an operand is no number.
    const Truth other = relation == least || relation == greatest
                            ? Truth{0, truth.known}
                            : Truth{~truth.value, truth.known};
    set_predicate(i, 81, combined(truth, with, i.field(74, 2)), mask);
    set_predicate(i, 84, combined(other, with, i.field(74, 2)), mask);
    return;
  }
  const int number = b_register(i);
  const Lanes x = pair(register_of(i, 24)),
              y = number >= 0 ? pair(static_cast<unsigned>(number)) : constant(0);
  Truth truth;
  truth.alike = same_names(x, y, mask);
  truth.name = name_of(x, y, truth.alike);
  const Truth with = predicate(i, 87);
  set_predicate(i, 81, combined(truth, with, i.field(74, 2)), mask);
  set_predicate(i, 84, combined(truth, with, i.field(74, 2)), mask);
}

Mask Warp::integers_relate(unsigned relation, bool is_signed, const Lanes& x, const Lanes& y) {
  constexpr unsigned less = 1, equal = 2, greater = 4;
  const auto if_asked = [&](unsigned one) {
    return static_cast<std::uint8_t>((relation & one) != 0 ? 1 : 0);
  };
  const std::uint8_t if_less = if_asked(less), if_equal = if_asked(equal),
                     if_greater = if_asked(greater);
  // Signed numbers are in the order of unsigned ones once their signs are flipped.
  const std::uint32_t flip = is_signed ? 0x8000'0000U : 0;
  std::array<std::uint8_t, lanes> holds{};
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    const std::uint32_t p = x.value[lane] ^ flip, q = y.value[lane] ^ flip;
    holds[lane] = p < q ? if_less : p > q ? if_greater : if_equal;
  }
  Mask all = 0;
  for (std::size_t lane = 0; lane < lanes; ++lane) all |= Mask{holds[lane]} << lane;
  return all;
}

void Warp::compare(std::size_t at, const Instruction& i, Mask mask) {
  const bool is_signed = i.bit(73), extended = i.bit(72);
  const unsigned relation = i.field(76, 3);
  const Lanes &x = a(i), &y = b(i);
  // The operand may be one of the results.
  const Truth with = predicate(i, 87);
  const auto set_both = [&](const Truth& truth) {
    const Truth other{~truth.value, truth.known, truth.alike, truth.name};
    set_predicate(i, 81, combined(truth, with, i.field(74, 2)), mask);
    set_predicate(i, 84, combined(other, with, i.field(74, 2)), mask);
  };
  if (executes() && !extended)
    return set_both({integers_relate(relation, is_signed, x, y), x.known & y.known});
  // Of places behind the same unknown base the difference is known.
  Mask known = x.known & y.known, relative = 0;
  for (std::size_t lane = 0; !is_plain(known) && lane < lanes; ++lane) {
    if (x.name(lane) != no_name && x.name(lane) == y.name(lane)) relative |= Mask{1} << lane;
  }
  known |= relative;
  Truth truth{0, known};
  const Truth lower = extended ? predicate(i, 68) : Truth{};
  std::array<std::int64_t, lanes> differences{};
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    const std::int64_t difference =
        (relative >> lane & 1) != 0
            ? std::int64_t{static_cast<std::int32_t>(x.value[lane] - y.value[lane])}
        : is_signed ? std::int64_t{static_cast<std::int32_t>(x.value[lane])} -
                          static_cast<std::int32_t>(y.value[lane])
                    : std::int64_t{x.value[lane]} - std::int64_t{y.value[lane]};
    differences[lane] = difference;
    constexpr unsigned less = 1, equal = 2, greater = 4;
    bool holds = (relation & (difference < 0 ? less : difference > 0 ? greater : equal)) != 0;
    if (extended) {
      const bool low = (lower.value >> lane & 1) != 0;
      const bool low_known = (lower.known >> lane & 1) != 0;
      if (difference == 0) {
        holds = relation == 5 ? low : relation == 7 || (relation != 0 && low);
        if (!low_known) truth.known &= ~(Mask{1} << lane);
      } else if (relation == 2) {
        holds = false;
      }
    }
    if (holds) truth.value |= Mask{1} << lane;
  }
  compared(at, Comparison::Kind::integers, known & mask, differences, relation);
  // Threads behind one base are on the same side of a bound that is not known, but for the warp at
  // it.
  truth.alike = same_names(x, y, mask & ~truth.known);
  if (extended) truth.alike &= lower.known | lower.alike;
  truth.name = name_of(x, y, truth.alike);
  set_both(truth);
}

bool Warp::relation_holds(unsigned relation, double p, double q) {
  constexpr unsigned less = 1, equal = 2, greater = 4, unordered_too = 8;
  if (std::isnan(p) || std::isnan(q)) return relation >= unordered_too;
  return ((relation & less) != 0 && p < q) || ((relation & equal) != 0 && p == q) ||
         ((relation & greater) != 0 && p > q);
}

void Warp::compare_floats(std::size_t at, const Instruction& i, Mask mask) {
  const Lanes x = float_operand(i, a(i), i.bit(72), i.bit(73));
  const Lanes y = float_operand(i, b(i), i.bit(63) && i.form() != 4, i.bit(62) && i.form() != 4);
  Truth truth{0, x.known & y.known};
  const unsigned relation = i.field(76, 4);
  std::array<std::int64_t, lanes> both{};
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    const float p = as_float(x.value[lane]), q = as_float(y.value[lane]);
    both[lane] = std::int64_t{x.value[lane]} << 32 ^ y.value[lane];
    if (relation_holds(relation, p, q)) truth.value |= Mask{1} << lane;
  }
  compared(at, Comparison::Kind::exact, truth.known & mask, both);
  const Lanes p = determined(x, x), q = determined(y, y);
  truth.alike = same_names(p, q, mask & ~truth.known);
  truth.name = name_of(p, q, truth.alike);
  const Truth other{~truth.value, truth.known, truth.alike, truth.name};
  // The operand may be one of the results.
  const Truth with = predicate(i, 87);
  set_predicate(i, 81, combined(truth, with, i.field(74, 2)), mask);
  set_predicate(i, 84, combined(other, with, i.field(74, 2)), mask);
}

void Warp::add(const Instruction& i, Mask mask) {
  const bool extended = i.bit(74);
  const std::array<bool, 3> negates{i.bit(72), i.bit(63) && i.form() != 4, i.bit(75)};
  const Lanes &x = a(i), &y = b(i), &z = c(i);
  const Mask known = x.known & y.known & z.known;
  const unsigned to = register_of(i, 16);
  Lanes result;
  if (!extended && is_plain(known) && gives_no_predicate(i, 81) && gives_no_predicate(i, 84)) {
    const auto sign = [&](std::size_t operand) { return negates[operand] ? ~0U : 0U; };
    const std::uint32_t x_sign = sign(0), y_sign = sign(1), z_sign = sign(2);
    for (std::size_t lane = 0; lane < lanes; ++lane)
      result.value[lane] = ((x.value[lane] ^ x_sign) - x_sign) +
                           ((y.value[lane] ^ y_sign) - y_sign) +
                           ((z.value[lane] ^ z_sign) - z_sign);
    result.known = known;
    set(to, result, mask);
    return;
  }
  const Truth carry = extended ? predicate(i, 87) : Truth{0, all_lanes};
  const Truth carry_2 = extended ? predicate(i, 77) : Truth{0, all_lanes};
  Truth out{0, known & carry.known & carry_2.known};
  Truth out_2{0, out.known};
  // Minus is the complement plus one, which carries; carries in have the one, where there are any.
  const auto operand = [&](std::uint32_t v, bool negate) {
    return !negate ? std::uint64_t{v} : std::uint64_t{~v} + (extended ? 0U : 1U);
  };
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    const std::uint64_t sum = operand(x.value[lane], negates[0]) +
                              operand(y.value[lane], negates[1]) +
                              operand(z.value[lane], negates[2]) + (carry.value >> lane & 1) +
                              (carry_2.value >> lane & 1);
    result.value[lane] = static_cast<std::uint32_t>(sum);
    if (sum >> 32 != 0) out.value |= Mask{1} << lane;
    if (sum >> 32 > 1) out_2.value |= Mask{1} << lane;
  }
  result.known = out.known;
  const Mask carries = carry.known & carry_2.known;
  const auto name = [&](const Lanes& of, std::size_t lane, bool negate) {
    return negate ? times(of.name(lane), -1) : of.name(lane);
  };
  for (std::size_t lane = 0; !is_plain(result.known) && lane < lanes; ++lane)
    name_sum(
        result, lane,
        plus(plus(name(x, lane, negates[0]), name(y, lane, negates[1])), name(z, lane, negates[2])),
        (carries >> lane & 1) != 0);
  set(to, result, mask);
  set_predicate(i, 81, out, mask);
  set_predicate(i, 84, out_2, mask);
}

void Warp::multiply_and_add(const Instruction& i, Mask mask) {
  const bool subtracts = negates_c(i), extended = i.bit(74);
  const Lanes &x = a(i), &z = c(i);
  const Lanes& y = b_or_negative(i, negates_b(i));
  const Truth carry = extended ? predicate(i, 87) : Truth{0, all_lanes};
  Lanes result;
  result.known = x.known & y.known & z.known & carry.known;
  // Minus is the complement plus one, which is in the carry where there is one.
  const std::uint32_t sign = subtracts ? ~0U : 0, one = subtracts && !extended ? 1 : 0;
  for (std::size_t lane = 0; lane < lanes; ++lane)
    result.value[lane] = x.value[lane] * y.value[lane] + (z.value[lane] ^ sign) + one;
  for (std::size_t lane = 0; carry.value != 0 && lane < lanes; ++lane)
    result.value[lane] += carry.value >> lane & 1;
  for (std::size_t lane = 0; !is_plain(result.known) && lane < lanes; ++lane)
    name_sum(result, lane,
             plus(name_of_product(x, y, lane), times(z.name(lane), subtracts ? -1 : 1)),
             (carry.known >> lane & 1) != 0);
  set(register_of(i, 16), result, mask);
}

void Warp::multiply_wide(const Instruction& i, Mask mask) {
  const bool is_signed = i.bit(73);
  const Lanes &x = a(i), &low = c(i), &upper = c_high(i);
  const Lanes& y = b_or_negative(i, negates_b(i));
  const bool subtracts = negates_c(i);
  const bool extended = i.bit(74);
  const Truth carry = extended ? predicate(i, 87) : Truth{0, all_lanes};
  Truth out;
  Lanes result, result_high;
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    const std::uint64_t product =
        is_signed
            ? static_cast<std::uint64_t>(std::int64_t{static_cast<std::int32_t>(x.value[lane])} *
                                         static_cast<std::int32_t>(y.value[lane]))
            : std::uint64_t{x.value[lane]} * y.value[lane];
    std::uint64_t addend = std::uint64_t{upper.value[lane]} << 32 | low.value[lane];
    if (subtracts) addend = extended ? ~addend : 0 - addend;
    const std::uint64_t part = product + addend;
    const std::uint64_t sum = part + (carry.value >> lane & 1);
    result.value[lane] = static_cast<std::uint32_t>(sum);
    result_high.value[lane] = static_cast<std::uint32_t>(sum >> 32);
    if (part < product || sum < part) out.value |= Mask{1} << lane;
  }
  result.known = result_high.known = x.known & y.known & low.known & upper.known & carry.known;
  for (std::size_t lane = 0; !is_plain(result.known) && lane < lanes; ++lane) {
    const Name product = name_of_product(x, y, lane),
               addend = times(low.name(lane), subtracts ? -1 : 1);
    name_sum(result, lane, plus(product, addend));
    name_sum(result_high, lane, upper_name(product + (std::uint64_t{addend} << 32), upper, lane),
             (carry.known >> lane & 1) != 0);
  }
  // What a carry of signed or subtracted numbers is, nobody has written down.
  out.known = is_signed || subtracts ? 0 : result.known;
  set_predicate(i, 81, out, mask);
  const unsigned to = register_of(i, 16);
  if ((i.operation() & ~uniform) == op_imad_high) {
    set(to, result_high, mask);
    return;
  }
  set(to, result, mask);
  if (!is_zero(to)) set(to + 1, result_high, mask);
}

Name Warp::name_of_product(const Lanes& x, const Lanes& y, std::size_t lane) {
  const Name p = x.name(lane), q = y.name(lane);
  return plus(times(p, q), plus(times(p, static_cast<std::int32_t>(y.value[lane])),
                                times(q, static_cast<std::int32_t>(x.value[lane]))));
}

Name Warp::upper_name(std::uint64_t lower, const Lanes& upper, std::size_t lane) {
  return plus(lower == 0 ? no_name : name_by(lower), upper.name(lane));
}

void Warp::load_effective_address(const Instruction& i, Mask mask) {
  const unsigned shift = i.field(75, 5);
  const bool upper = i.bit(80), extended = i.bit(74), negates = i.bit(72), is_signed = i.bit(73);
  const bool subtracts = i.bit(63) && i.form() != 4;
  const Lanes& x = a(i);
  const Lanes& y = b_or_negative(i, subtracts);
  const unsigned to = register_of(i, 16);
  Lanes result;
  if (!upper && !extended && !subtracts && !negates && is_plain(x.known & y.known) &&
      gives_no_predicate(i, 81)) {
    for (std::size_t lane = 0; lane < lanes; ++lane)
      result.value[lane] = (x.value[lane] << shift) + y.value[lane];
    result.known = x.known & y.known;
    set(to, result, mask);
    return;
  }
  const Lanes& z = upper && !is_signed ? c(i) : constant(0, rooms_.c);
  const Truth carry = extended ? predicate(i, 87) : Truth{0, all_lanes};
  Truth out{0, 0};
  std::array<std::uint32_t, lanes> parts{};
  for (std::size_t lane = 0; upper && lane < lanes; ++lane) {
    const std::uint32_t high_word =
        is_signed ? static_cast<std::uint32_t>(static_cast<std::int32_t>(x.value[lane]) >> 31)
                  : z.value[lane];
    std::uint64_t from = std::uint64_t{high_word} << 32 | x.value[lane];
    if (negates) from = 0 - from;
    parts[lane] = static_cast<std::uint32_t>((from << shift) >> 32);
  }
  for (std::size_t lane = 0; !upper && lane < lanes; ++lane)
    parts[lane] = (negates ? 0 - x.value[lane] : x.value[lane]) << shift;
  for (std::size_t lane = 0; lane < lanes; ++lane) result.value[lane] = parts[lane] + y.value[lane];
  for (std::size_t lane = 0; carry.value != 0 && lane < lanes; ++lane)
    result.value[lane] += carry.value >> lane & 1;
  for (std::size_t lane = 0; !gives_no_predicate(i, 81) && lane < lanes; ++lane) {
    const std::uint64_t sum =
        std::uint64_t{parts[lane]} + y.value[lane] + (carry.value >> lane & 1);
    if (sum >> 32 != 0) out.value |= Mask{1} << lane;
  }
  result.known = x.known & y.known & carry.known & z.known;
  out.known = subtracts || negates ? 0 : result.known;
  if (subtracts && extended) result.known = 0;
  for (std::size_t lane = 0; !is_plain(result.known) && lane < lanes; ++lane) {
    Name part = times(x.name(lane), (negates ? -1LL : 1LL) << shift);
    if (upper) part = upper_name(part, z, lane);
    name_sum(result, lane, plus(part, y.name(lane)), (carry.known >> lane & 1) != 0);
  }
  set(to, result, mask);
  set_predicate(i, 81, out, mask);
}

namespace {

/// What a table of three operands gives for bits.
class Table3 {
 public:
  explicit Table3(unsigned table) {
    for (unsigned entry = 0; entry < entries_.size(); ++entry)
      entries_[entry] = (table >> entry & 1) != 0 ? ~0U : 0;
  }
  std::uint32_t operator()(std::uint32_t p, std::uint32_t q, std::uint32_t r) const {
    const auto choice = [](std::uint32_t by, std::uint32_t zero, std::uint32_t one) {
      return zero ^ (by & (zero ^ one));
    };
    const auto of_two = [&](std::size_t first) {
      return choice(q, choice(r, entries_[first], entries_[first + 1]),
                    choice(r, entries_[first + 2], entries_[first + 3]));
    };
    return choice(p, of_two(0), of_two(4));
  }

 private:
  std::array<std::uint32_t, 8> entries_{};
};

constexpr std::uint32_t lower_half = 0xffff;

}  // namespace

void Warp::name_logic(Lanes& result, const std::array<const Lanes*, 3>& operands,
                      unsigned table) const {
  if (is_plain(result.known)) return;
  const Table3 by_table{table};
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    std::size_t unknown = operands.size();
    int count = 0;
    for (std::size_t k = 0; k < operands.size(); ++k) {
      if (operands[k]->name(lane) == no_name) continue;
      unknown = k;
      ++count;
    }
    if (count != 1) continue;
    // Unknown parts are taken to have zeros where known ones have bits, as aligned bases have: then
    // bits are added, and masks leave a part of either.
    const auto with = [&](std::uint32_t bits) {
      std::array<std::uint32_t, 3> v{};
      for (std::size_t k = 0; k < v.size(); ++k)
        v[k] = k == unknown ? bits : operands[k]->value[lane];
      return by_table(v[0], v[1], v[2]);
    };
    const std::uint32_t zeros = with(0), ones = with(~0U), lost = ~(zeros ^ ones) & ~zeros;
    const Name name = operands[unknown]->name(lane);
    result.value[lane] = with(operands[unknown]->value[lane]);
    const bool known_half = (zeros ^ ones) <= lower_half && upper_halves_.contains(name);
    if (zeros == ones || known_half) {
      result.known |= Mask{1} << lane;
    } else {
      result.unknown[lane] = lost == 0 ? name : name_by(std::uint64_t{name} << 32 | lost);
    }
  }
}

void Warp::logic(std::size_t at, const Instruction& i, Mask mask) {
  const unsigned table = i.field(72, 8);
  const Lanes &x = a(i), &y = b(i), &z = c(i);
  Lanes result = each(x, y, z, Table3{table});
  name_logic(result, {&x, &y, &z}, table);
  set(register_of(i, 16), result, mask);
  if (i.field(81, 3) == 7) return;
  Truth truth{0, result.known};
  truth.alike = same_names(result, constant(0), mask & ~result.known);
  std::array<std::int64_t, lanes> values{};
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    values[lane] = result.value[lane];
    if (result.value[lane] != 0) truth.value |= Mask{1} << lane;
  }
  compared(at, Comparison::Kind::exact, result.known & mask, values);
  const bool both = i.bit(80);
  set_predicate(i, 81, combined(truth, predicate(i, 87), both ? 0 : 1), mask);
}

void Warp::logic_of_predicates(const Instruction& i, Mask mask) {
  std::array<Truth, 3> in{predicate(i, 87), predicate(i, 77), predicate(i, 68)};
  if (i.bit(67) && !is_of_warp(i)) in[2] = predicate_of_warp(i, 68);
  const unsigned table = i.field(64, 3) | i.field(72, 5) << 3;
  Truth truth{0, 0};
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    // Known where all that the unknown inputs may be comes to the same.
    bool may_be_true = false, may_be_false = false;
    for (unsigned entry = 0; entry < 8; ++entry) {
      bool possible = true;
      for (unsigned k = 0; k < 3; ++k) {
        const bool value = (entry >> (2 - k) & 1) != 0;
        if ((in[k].known >> lane & 1) != 0 && ((in[k].value >> lane & 1) != 0) != value)
          possible = false;
      }
      if (!possible) continue;
      ((table >> entry & 1) != 0 ? may_be_true : may_be_false) = true;
    }
    if (may_be_true != may_be_false) truth.known |= Mask{1} << lane;
    if (may_be_true) truth.value |= Mask{1} << lane;
  }
  truth.alike = ~truth.known;
  for (const Truth& t : in) {
    truth.alike &= t.known | t.alike;
    truth.name = plus(truth.name, t.name);
  }
  set_predicate(i, 81, truth, mask);
  forget_predicate(i, 84, mask);
}

Lanes Warp::packed_predicates(const Instruction& i) const {
  const std::uint32_t asked = i.immediate() & 0x7f;
  Lanes result = a(i);
  // Uniform ones, and other bytes of the register, are not looked at.
  if (is_of_warp(i) || i.form() != 4 || i.field(72, 8) != 0) result.known = 0;
  for (std::uint32_t& v : result.value) v &= ~asked;
  for (unsigned p = 0; p < 7; ++p) {
    if ((asked >> p & 1) == 0) continue;
    const Truth& truth = registers_.predicates[p];
    result.known &= truth.known;
    for (std::size_t lane = 0; lane < lanes; ++lane)
      result.value[lane] |= (truth.value >> lane & 1) << p;
  }
  return result;
}

void Warp::unpack_predicates(const Instruction& i, Mask mask) {
  const Lanes bits = a(i);
  // Uniform ones, and other bytes of the register, are not looked at.
  const bool looked_at = !is_of_warp(i) && i.form() == 4 && i.field(72, 8) == 0;
  for (unsigned p = 0; p < 7; ++p) {
    if ((i.immediate() >> p & 1) == 0) continue;
    Truth truth{0, looked_at ? bits.known : 0};
    for (std::size_t lane = 0; lane < lanes; ++lane)
      truth.value |= (bits.value[lane] >> p & 1) << lane;
    Truth& to = registers_.predicates[p];
    to.value = (to.value & ~mask) | (truth.value & mask);
    to.known = (to.known & ~mask) | (truth.known & mask & ~unsure_);
    to.alike &= ~mask;
  }
}

Lanes Warp::reduced(const Instruction& i, Mask mask) const {
  constexpr unsigned of_sums = 3;
  const Lanes x = a(i);
  if (i.field(78, 3) != of_sums || (mask & ~x.known) != 0 || (mask & unsure_) != 0) return {};
  std::uint32_t sum = 0;
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    if ((mask >> lane & 1) != 0) sum += x.value[lane];
  }
  return constant(sum);
}

void Warp::vote(const Instruction& i, Mask mask) {
  // The operand is always one of the threads', though the result may be the warp's.
  Truth of_threads = registers_.predicates[i.field(87, 3)];
  if (i.bit(90)) of_threads.value = ~of_threads.value;
  const unsigned mode = i.field(72, 2);
  constexpr unsigned all = 0, any = 1;
  const bool known = (mask & ~of_threads.known) == 0 && (mask & unsure_) == 0 && mode <= any;
  const Mask holds = of_threads.value & mask;
  const bool outcome = mode == all ? holds == mask : holds != 0;
  Lanes ballot = constant(holds);
  if (!known) {
    ballot.known = 0;
    ballot = of_warp(ballot);
  }
  set(register_of(i, 16), ballot, mask);
  set_predicate(i, 81,
                {outcome ? all_lanes : 0, known ? all_lanes : 0, known ? 0 : all_lanes, new_name()},
                mask);
}

void Warp::shift(const Instruction& i, Mask mask) {
  const unsigned type = i.field(73, 2);  // I64, U64, S32, U32
  const bool right = i.bit(76), upper = i.bit(80), wraps = i.bit(75);
  const bool is_signed = type == 0 || type == 2;
  const unsigned bits = type < 2 ? 64 : 32;
  const Lanes &low = a(i), &by = b(i), &high_word = c(i);
  Lanes result = each(low, by, high_word, [&](std::uint32_t l, std::uint32_t s, std::uint32_t h) {
    s = wraps ? s % bits : std::min(s, bits);
    const std::uint64_t both = std::uint64_t{h} << 32 | l;
    if (!right) {
      const std::uint64_t moved = s >= 64 ? 0 : both << s;
      return static_cast<std::uint32_t>(upper ? moved >> 32 : moved);
    }
    if (bits == 32 && upper) {
      if (l != 0 && s > 0 && s < 32 && wraps) return h >> s;  // only the upper word is asked for
      if (s >= 32)
        return is_signed ? static_cast<std::uint32_t>(static_cast<std::int32_t>(h) >> 31) : 0U;
      return is_signed ? static_cast<std::uint32_t>(static_cast<std::int32_t>(h) >> s) : h >> s;
    }
    const std::uint64_t moved =
        s >= 64     ? (is_signed && (h >> 31) != 0 ? ~std::uint64_t{0} : 0)
        : is_signed ? static_cast<std::uint64_t>(static_cast<std::int64_t>(both) >> s)
                    : both >> s;
    return static_cast<std::uint32_t>(upper ? moved >> 32 : moved);
  });
  for (std::size_t lane = 0; !is_plain(result.known) && lane < lanes; ++lane) {
    if (by.name(lane) != no_name || (result.known >> lane & 1) != 0) continue;
    const std::uint32_t s = wraps ? by.value[lane] % bits : by.value[lane];
    const Name name = low.name(lane);
    if (!right && !upper) {
      result.value[lane] = s >= 32 ? 0 : low.value[lane] << s;
      name_sum(result, lane, times(name, s >= 32 ? 0 : std::int64_t{1} << s));
      continue;
    }
    // Unknown parts are taken to be aligned: none of their bits are shifted out. What goes into or
    // comes out of an upper half is the same but for borders of 4 GiB.
    const Lanes& from = right && upper ? high_word : low;
    result.value[lane] = right
                             ? static_cast<std::uint32_t>(
                                   static_cast<std::int32_t>(from.value[lane]) >> std::min(s, 31U))
                             : 0;
    result.unknown[lane] =
        name_by((std::uint64_t{name} << 32 | high_word.name(lane)) + (at_ << 8) + s);
  }
  set(register_of(i, 16), result, mask);
}

namespace {

/// Four bytes of p (0 to 3) and q (4 to 7), which nibbles of `picks` name; 8 more: their signs.
std::uint32_t permuted(std::uint32_t p, std::uint32_t picks, std::uint32_t q) {
  const std::uint64_t bytes = std::uint64_t{q} << 32 | p;
  std::uint32_t out = 0;
  for (unsigned n = 0; n < 4; ++n) {
    const unsigned pick = picks >> (4 * n) & 0xf;
    auto byte = static_cast<std::uint32_t>(bytes >> (8 * (pick & 7)) & 0xff);
    if ((pick & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;
    out |= byte << (8 * n);
  }
  return out;
}

}  // namespace

void Warp::permute(const Instruction& i, Mask mask) {
  const Lanes &x = a(i), &selector = b(i), &z = c(i);
  Lanes result = each(x, selector, z, permuted);
  if (i.field(72, 3) != 0) {
    result.known = 0;
  } else {
    name_upper_half(result, x, selector, z);
  }
  set(register_of(i, 16), result, mask);
}

void Warp::name_upper_half(Lanes& result, const Lanes& x, const Lanes& selector, const Lanes& z) {
  if (is_plain(result.known)) return;
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    if ((result.known >> lane & 1) != 0 || (selector.known >> lane & 1) == 0) continue;
    const std::uint32_t picks = selector.value[lane];
    const auto is_known = [&](unsigned n) {
      const Lanes& from = (picks >> (4 * n) & 4) == 0 ? x : z;
      return (from.known >> lane & 1) != 0;
    };
    if (!is_known(0) || !is_known(1)) continue;
    result.value[lane] = permuted(x.value[lane], picks, z.value[lane]) & lower_half;
    upper_halves_.insert(result.unknown[lane]);
  }
}

Lanes Warp::least_or_greatest(const Instruction& i, const Lanes& x, const Lanes& y,
                              bool is_signed) const {
  const Truth least = predicate(i, 87);
  Lanes result;
  result.known = x.known & y.known & least.known;
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    const std::uint32_t p = x.value[lane], q = y.value[lane];
    const bool p_less =
        is_signed ? static_cast<std::int32_t>(p) < static_cast<std::int32_t>(q) : p < q;
    result.value[lane] = ((least.value >> lane & 1) != 0) == p_less ? p : q;
  }
  // Bounds are taken not to bind.
  Lanes named = determined(result, x, y);
  for (std::size_t lane = 0; !is_plain(x.known & y.known) && lane < lanes; ++lane) {
    if ((x.name(lane) == no_name) == (y.name(lane) == no_name)) continue;
    const Lanes& free = x.name(lane) == no_name ? y : x;
    named.value[lane] = free.value[lane];
    named.unknown[lane] = free.unknown[lane];
  }
  return named;
}

Lanes Warp::rounded(const Instruction& i, const Lanes& exact) {
  Lanes result = exact;
  const bool saturates = i.bit(77), flushes = i.bit(80);
  for (std::uint32_t& v : result.value) {
    if (flushes && (v & 0x7f800000U) == 0) v &= 0x80000000U;
    if (std::isnan(as_float(v))) v = saturates ? 0 : 0x7fffffffU;
    if (saturates) v = as_bits(std::clamp(as_float(v), 0.0F, 1.0F));
  }
  return result;
}

Lanes Warp::float_operand(const Instruction& i, Lanes x, bool negate, bool absolute) {
  for (std::uint32_t& v : x.value) {
    if (i.bit(80) && (v & 0x7f800000U) == 0) v &= 0x80000000U;  // .FTZ
    if (absolute) v &= 0x7fffffffU;
    if (negate) v ^= 0x80000000U;
  }
  return x;
}

Truth Warp::division_is_hard(const Instruction& i) const {
  // What the quick way may do hangs on exponents; the long one is right for all numbers, and either
  // gives the same. So the quick one is taken where no step of it can lose a bit.
  const Lanes x = a(i), y = b(i);
  Truth truth{0, x.known & y.known};
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    const auto exponent = [](std::uint32_t v) { return static_cast<int>(v >> 23 & 0xff) - 127; };
    const int p = exponent(x.value[lane]), q = exponent(y.value[lane]);
    constexpr int easy = 60;
    if (std::abs(p) > easy || std::abs(q) > easy) truth.value |= Mask{1} << lane;
  }
  return truth;
}

Lanes Warp::reciprocal_and_others(const Instruction& i, const Lanes& x) const {
  const unsigned function = i.field(74, 4);
  Lanes result = x;
  if (i.field(72, 2) != 0) result.known = 0;  // of halves
  for (std::uint32_t& v : result.value) {
    const float f = as_float(v);
    switch (function) {
      case 2:
        v = as_bits(std::exp2(f));
        break;
      case 3:
        v = as_bits(std::log2(f));
        break;
      case 4:
        v = as_bits(1.0F / f);
        break;
      case 5:
        v = as_bits(1.0F / std::sqrt(f));
        break;
      case 6:  // of the upper half of a double, as the next
      case 7: {
        const double d = std::bit_cast<double>(std::uint64_t{v} << 32);
        v = static_cast<std::uint32_t>(
            std::bit_cast<std::uint64_t>(function == 6 ? 1.0 / d : 1.0 / std::sqrt(d)) >> 32);
        if (!executes()) result.known = 0;
        break;
      }
      case 8:
        v = as_bits(std::sqrt(f));
        break;
      default:
        result.known = 0;
        break;
    }
  }
  return determined(result, x);
}

Lanes Warp::converted(const Instruction& i, const Lanes& x, bool to_float) const {
  Lanes result = x;
  // Of integers of 32 bits; parts of registers are not looked at.
  if (i.operation() != op_i2fp && i.field(to_float ? 84 : 75, 2) != 2) result.known = 0;
  // To and from floats, not halves.
  if (i.operation() != op_i2fp && i.field(to_float ? 75 : 84, to_float ? 3 : 2) != 2)
    result.known = 0;
  const unsigned rounding = i.field(78, 2);  // nearest, down, up, to zero
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    std::uint32_t& v = result.value[lane];
    if (to_float) {
      const bool is_signed = i.bit(74);
      const double exact = is_signed ? double{static_cast<double>(static_cast<std::int32_t>(v))}
                                     : double{static_cast<double>(v)};
      auto rounded = static_cast<float>(exact);
      const double back = rounded;
      if (rounding == 2 && back < exact) rounded = std::nextafter(rounded, INFINITY);
      if ((rounding == 1 && back > exact) || (rounding == 3 && std::abs(back) > std::abs(exact)))
        rounded = std::nextafter(rounded, rounding == 1 ? -INFINITY : 0.0F);
      v = as_bits(rounded);
    } else {
      const bool is_signed = i.bit(72);
      double f = as_float(v);
      f = rounding == 3   ? std::trunc(f)
          : rounding == 1 ? std::floor(f)
          : rounding == 2 ? std::ceil(f)
                          : std::nearbyint(f);
      if (std::isnan(f)) {
        if (!i.bit(77)) result.known &= ~(Mask{1} << lane);  // without .NTZ it is not zero
        v = 0;
      } else if (is_signed) {
        v = static_cast<std::uint32_t>(
            static_cast<std::int32_t>(std::clamp(f, -2147483648.0, 2147483647.0)));
      } else {
        v = static_cast<std::uint32_t>(std::clamp(f, 0.0, 4294967295.0));
      }
    }
  }
  return determined(result, x);
}

void Warp::multiply_matrices(const Instruction& i) {
  constexpr double rows_and_columns = 2.0 * 16 * 8;
  switch (i.operation()) {
    case op_hmma: {
      const bool tf32 = i.bit(83);
      const double k = (i.bit(75) ? 16 : 8) / (tf32 ? 2.0 : 1.0);
      count(tf32 ? Counts::tf32_flops : Counts::half_flops, rows_and_columns * k);
      count(Counts::mma_sync_flops, rows_and_columns * k);
      return;
    }
    case op_imma:
      count(Counts::eight_flops, rows_and_columns * 32);
      count(Counts::mma_sync_flops, rows_and_columns * 32);
      return;
    case op_dmma:
      count(Counts::fp64_flops, 2.0 * 8 * 8 * 4);
      return;
    default: {
      // A warp group's: 64 rows, of which each warp does 16.
      const double n = 8.0 * (i.field(53, 5) + 1);
      const bool half = i.operation() == op_hgmma;
      const double flops = 2.0 * 16 * n * (half ? 16 : 32);
      count(half ? Counts::half_flops : Counts::eight_flops, flops);
      const double of_group =
          4 * flops / (half ? half_flops_per_cycle : eight_bit_flops_per_cycle) / wgmma_attained;
      // Of both operands each row has 32 bytes; the first lies in registers or beside the second.
      const bool first_is_shared = !i.bit(10);
      const double read = 32.0 * (n + (first_is_shared ? 64 : 0)) / shared_bytes_per_cycle;
      const bool ends_group = i.field(84, 3) != 7;  // "gsb0"
      for (Timing& timing : timings_)
        timing.multiply(std::max(of_group, read) * walk_.side_by_side, ends_group);
      return;
    }
  }
}

}  // namespace phantora::rank::code
