#include "rank/code/directed.hpp"
#include "rank/code/warp.hpp"

#include <cmath>
#include <utility>

/// Of Warp: each operation by its code.
namespace phantora::rank::code {

double Warp::perform(std::size_t at, const Instruction& i, unsigned operation, Mask mask) {
  const unsigned to = register_of(i, 16), rounding = i.field(78, 2);
  // Operations on uniform registers do what those on registers do, where it has the same number.
  const bool other = operation == op_uldc || operation == op_r2ur || operation == op_uiadd3_wide ||
                     operation == op_uflo || operation == op_ubrev || operation == op_upopc;
  switch (operation < 0x100 && !other ? operation & ~uniform : operation) {
    case op_mov:
      count(Counts::alu, 0.5);  // either of two units does it
      set(to, b(i), mask);
      return 0;
    case op_cs2r: {
      // 0x50: the SM's clock, whose zero is where the warp begins.
      const unsigned number = i.field(72, 8);
      const bool clock = number == 0x50, zero = number == 0xff;
      const auto cycles = static_cast<std::uint64_t>(timings_[by_memory].clock());
      if (clock && executes()) {
        forget(to, 2, mask);
        return 0;
      }
      count(Counts::alu);
      set(to,
          clock  ? constant(static_cast<std::uint32_t>(cycles))
          : zero ? constant(0)
                 : Lanes{},
          mask);
      if (i.bit(80) && !is_zero(to)) {
        set(to + 1,
            clock  ? constant(static_cast<std::uint32_t>(cycles >> 32))
            : zero ? constant(0)
                   : Lanes{},
            mask);
      }
      return 0;
    }
    case op_sel:
    case op_fsel: {
      const Truth which = predicate(i, 87);
      // With the signs of floats, which names have none of.
      const bool is_float = operation == op_fsel;
      const bool immediate = i.form() == 4;
      const bool changed = is_float && (i.field(72, 2) != 0 || (!immediate && i.field(62, 2) != 0));
      std::array<Lanes, 2> floats;
      if (changed) {
        floats[0] = float_operand(i, a(i), i.bit(72), i.bit(73));
        floats[1] = immediate ? b(i) : float_operand(i, b(i), i.bit(63), i.bit(62));
      }
      const Lanes &x = changed ? floats[0] : a(i), &y = changed ? floats[1] : b(i);
      Lanes result;
      for (std::size_t lane = 0; lane < lanes; ++lane)
        result.value[lane] = (which.value >> lane & 1) != 0 ? x.value[lane] : y.value[lane];
      result.known = which.known & ((which.value & x.known) | (~which.value & y.known));
      const Name choice = new_name();
      for (std::size_t lane = 0; !is_plain(result.known) && lane < lanes; ++lane) {
        const bool first = (which.value >> lane & 1) != 0;
        if ((which.known >> lane & 1) != 0) {
          result.unknown[lane] = first ? x.unknown[lane] : y.unknown[lane];
        } else if (x.identity(lane) == y.identity(lane)) {
          result.unknown[lane] = x.unknown[lane];
        } else if ((which.alike >> lane & 1) != 0) {
          // The same for the warp: threads lie as in the first.
          result.value[lane] = x.value[lane];
          result.unknown[lane] =
              name_by(choice + (std::uint64_t{x.name(lane)} << 32 | y.name(lane)));
        }
      }
      if (changed && names()) result.known = 0;
      count(Counts::alu);
      set(to, result, mask);
      return 0;
    }
    case op_fmnmx: {
      const Truth least = predicate(i, 87);
      const Lanes x = float_operand(i, a(i), i.bit(72), i.bit(73)),
                  y = float_operand(i, b(i), i.bit(63) && i.form() != 4,
                                    i.bit(62) && i.form() != 4);
      Lanes result;
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        const float p = as_float(x.value[lane]), q = as_float(y.value[lane]);
        const bool is_least = (least.value >> lane & 1) != 0;
        std::uint32_t& to_lane = result.value[lane];
        if (std::isnan(p) || std::isnan(q)) {
          // The other one, and of two that are no numbers one comes out.
          to_lane = !std::isnan(q) ? y.value[lane] : !std::isnan(p) ? x.value[lane] : 0x7fffffffU;
        } else if (p == 0 && q == 0) {  // -0 is less than 0
          to_lane = is_least ? x.value[lane] | y.value[lane] : x.value[lane] & y.value[lane];
        } else {
          to_lane = (p < q) == is_least ? x.value[lane] : y.value[lane];
        }
      }
      result.known = x.known & y.known & least.known;
      if (i.field(81, 6) != 0) result.known = 0;  // .NAN, .XORSIGN
      count(Counts::alu);
      set(to, determined(result, x, y), mask);
      return 0;
    }
    case op_isetp:
      count(Counts::alu);
      compare(at, i, mask);
      return 0;
    case op_fsetp:
      count(Counts::alu);
      compare_floats(at, i, mask);
      return 0;
    case op_iadd3:
      count(Counts::alu);
      add(i, mask);
      return 0;
    case op_viadd:
      count(Counts::alu);
      set(to, sum(a(i), b_or_negative(i, i.bit(63) && i.form() != 4)), mask);
      return 0;
    case op_lea:
      count(Counts::alu);
      load_effective_address(i, mask);
      return 0;
    case op_lop3:
      count(Counts::alu);
      logic(at, i, mask);
      return 0;
    case op_plop3:
      count(Counts::alu);
      logic_of_predicates(i, mask);
      return 0;
    case op_iabs: {
      Lanes result = b(i);
      for (std::uint32_t& v : result.value) {
        if ((v >> 31) != 0) v = 0U - v;
      }
      count(Counts::alu);
      set(to, determined(result, b(i)), mask);
      return 0;
    }
    case op_prmt:
      count(Counts::alu);
      permute(i, mask);
      return 0;
    case op_imnmx:
      count(Counts::alu);
      set(to, least_or_greatest(i, a(i), b(i), i.bit(73)), mask);
      return 0;
    case op_vimnmx:
      count(Counts::alu);
      set(to, least_or_greatest(i, a(i), b(i), i.bit(72)), mask);
      return 0;
    case op_viaddmnmx:
      count(Counts::alu);
      set(to, least_or_greatest(i, sum(a(i), b_or_negative(i, negates_b(i))), c(i), i.bit(72)),
          mask);
      return 0;
    case op_shf:
      count(Counts::alu);
      shift(i, mask);
      return 0;
    case op_sgxt: {
      const bool is_signed = i.bit(73);
      count(Counts::alu);
      set(to,
          each(a(i), b(i),
               [&](std::uint32_t x, std::uint32_t bits) {
                 if (i.bit(75)) bits &= 31;
                 if (bits >= 32) return x;
                 if (bits == 0) return 0U;
                 const std::uint32_t kept = x & ((1U << bits) - 1);
                 return is_signed && (kept >> (bits - 1) & 1) != 0 ? kept | ~((1U << bits) - 1)
                                                                   : kept;
               }),
          mask);
      return 0;
    }
    case op_imad: {
      count(Counts::fma, 2);
      multiply_and_add(i, mask);
      return 0;
    }
    case op_imad_wide:
    case op_imad_high:
      count(Counts::fma, 4);
      multiply_wide(i, mask);
      return 0;
    case op_fmul:
      count(Counts::fma);
      ++walk_.products;
      set(to,
          rounded(i, each(float_operand(i, a(i), i.bit(72), i.bit(73)),
                          float_operand(i, b(i), i.bit(63) && i.form() != 4,
                                        i.bit(62) && i.form() != 4),
                          [&](std::uint32_t x, std::uint32_t y) {
                            return as_bits(directed_product(as_float(x), as_float(y), rounding));
                          })),
          mask);
      if (constexpr unsigned as_it_is = 4; i.field(84, 3) != as_it_is) forget(to, 1, mask);
      return 0;
    case op_fadd: {
      count(Counts::fma);
      ++walk_.products;
      const bool immediate = i.form() == 2 || i.form() == 4;
      set(to,
          rounded(
              i, each(float_operand(i, a(i), i.bit(72), i.bit(73)),
                      float_operand(i, b_or_c(i), !immediate && i.bit(63), !immediate && i.bit(62)),
                      [&](std::uint32_t x, std::uint32_t y) {
                        return as_bits(directed_sum(as_float(x), as_float(y), rounding));
                      })),
          mask);
      return 0;
    }
    case op_ffma:
      count(Counts::fma);
      ++walk_.products;
      set(to,
          rounded(i, each(float_operand(i, a(i), i.bit(72), false),
                          float_operand(i, b(i), negates_b(i), false),
                          float_operand(i, c(i), negates_c(i), false),
                          [&](std::uint32_t x, std::uint32_t y, std::uint32_t z) {
                            return as_bits(
                                directed_fma(as_float(x), as_float(y), as_float(z), rounding));
                          })),
          mask);
      return 0;
    case op_hadd2:
    case op_hmul2:
    case op_f2fp:
    case op_hset2:
      count(Counts::fma);
      forget(to, 1, mask);
      return 0;
    case op_hsetp2:
      count(Counts::fma);
      forget_predicate(i, 81, mask);
      forget_predicate(i, 84, mask);
      return 0;
    case op_vote:
      count(Counts::alu);
      vote(i, mask);
      return 0;
    case op_r2p:
      count(Counts::alu);
      unpack_predicates(i, mask);
      return 0;
    case op_p2r:
      count(Counts::alu);
      set(to, packed_predicates(i), mask);
      return 0;
    case op_hfma2:
    case op_hfma2_mma:
      // How the compiler makes small constants: zero times zero plus a pair of halves.
      count(Counts::fma);
      if (i.form() == 2 && i.field(24, 8) == 255 && i.field(64, 8) == 255) {
        set(to, constant(i.immediate()), mask);
      } else {
        forget(to, 1, mask);
      }
      return 0;
    case op_dmul:
    case op_dadd:
    case op_dfma: {
      const auto operand = [&](int number) {
        return number >= 0 ? pair(static_cast<unsigned>(number)) : constant(0);
      };
      const bool second = operation != op_dadd, third = operation != op_dmul;
      count(Counts::fp64);
      if (executes()) {
        ++walk_.products;
        compute_doubles(i, mask);
        return special_latency;
      }
      set_unknown(to, 2, mask, pair(register_of(i, 24)),
                  second ? operand(b_register(i)) : constant(0),
                  third ? operand(c_register(i)) : constant(0));
      return special_latency;
    }
    case op_dsetp:
      count(Counts::fp64);
      compare_doubles(i, mask);
      return special_latency;
    case op_warpgroup:
      // DEPBAR.LE gsb0, N: all groups of products but the last N are done.
      if (i.bit(80))
        for (Timing& timing : timings_) timing.wait_for_products(i.field(72, 4));
      return 0;
    case op_usetmaxreg:
      set_predicate(i, 81, {all_lanes, all_lanes}, mask);  // the registers are there
      return special_latency;
    case op_elect:
      count(Counts::alu);
      set_predicate(i, 81, {Mask{1} << std::countr_zero(mask), all_lanes}, mask);
      return 0;
    case op_imma:
    case op_hmma:
    case op_dmma:
    case op_hgmma:
    case op_igmma:
    case op_qgmma:
      multiply_matrices(i);
      forget(to, 4, mask);
      return matrix_latency;
    case op_i2fp:
    case op_i2f:
      count(operation == op_i2fp ? Counts::alu : Counts::special);
      set(to, converted(i, b(i), true), mask);
      return operation == op_i2fp ? 0 : special_latency;
    case op_f2i:
      count(Counts::special);
      set(to,
          converted(i,
                    float_operand(i, b(i), i.bit(63) && i.form() != 4, i.bit(62) && i.form() != 4),
                    false),
          mask);
      return special_latency;
    case op_mufu:
      count(Counts::special);
      set(to,
          reciprocal_and_others(
              i, float_operand(i, b(i), i.bit(63) && i.form() != 4, i.bit(62) && i.form() != 4)),
          mask);
      return special_latency;
    case op_brev:
    case op_ubrev: {
      Lanes result = b(i);
      for (std::uint32_t& v : result.value) {
        std::uint32_t reversed = 0;
        for (unsigned bit = 0; bit < 32; ++bit) reversed |= (v >> bit & 1) << (31 - bit);
        v = reversed;
      }
      count(Counts::special);
      set(to, determined(result, b(i)), mask);
      return special_latency;
    }
    case op_popc:
    case op_upopc: {
      Lanes result = b(i);
      for (std::uint32_t& v : result.value)
        v = static_cast<std::uint32_t>(std::popcount(i.bit(63) && i.form() != 4 ? ~v : v));
      count(Counts::special);
      set(to, determined(result, b(i)), mask);
      return special_latency;
    }
    case op_flo:
    case op_uflo: {
      Lanes result = b(i);
      const bool from_the_left = i.bit(74);
      for (std::uint32_t& v : result.value) {
        if (i.bit(63) && i.form() != 4) v = ~v;
        const auto zeros = static_cast<std::uint32_t>(std::countl_zero(v));
        v = v == 0 ? ~0U : from_the_left ? zeros : 31 - zeros;
      }
      if (i.bit(73)) result.known = 0;
      count(Counts::special);
      set(to, determined(result, b(i)), mask);
      forget_predicate(i, 81, mask);
      return special_latency;
    }
    case op_fchk:
      // Whether a division needs the slow way: it hardly ever does.
      count(Counts::special);
      set_predicate(i, 81, executes() ? division_is_hard(i) : Truth{0, all_lanes}, mask);
      return special_latency;
    case op_frnd:
    case op_frnd_double:
      count(Counts::special);
      if (executes()) {
        round_to_whole(i, mask);
        return special_latency;
      }
      set_unknown(to, operation == op_frnd ? 1 : 2, mask, b(i));
      return special_latency;
    case op_f2f:  // of halves
    case op_f2f_double:
    case op_f2i_double:
    case op_i2f_double:
      count(Counts::special);
      if (executes() && operation != op_f2f) {
        convert_wide(i, mask);
        return special_latency;
      }
      set_unknown(to, converted_words(i), mask,
                  b_register(i) >= 0 ? pair(static_cast<unsigned>(b_register(i))) : b(i));
      return special_latency;
    case op_s2r:
      set(to, special_register(i.field(72, 8)), mask);
      return special_latency;
    case op_s2ur:
      set(first_uniform + i.field(16, 6), special_register(i.field(72, 8)), mask);
      return special_latency;
    case op_ldc:
      load_constant(i, mask);
      return special_latency;
    case op_shfl:
      count(Counts::lsu);
      exchange(i, mask);
      return shared_latency;
    case op_ldl:
    case op_stl:
      count(Counts::lsu);
      spill(i, operation == op_stl, mask);
      return shared_latency;
    case op_lds:
    case op_sts:
    case op_atoms:
    case op_atoms_cas:
    case op_ldsm:
    case op_stsm:
      return share(i, operation, mask);
    case op_preexit:
    case op_acqbulk:
      return 0;  // they order whole kernels
    case op_bar:
      for (Timing& timing : timings_) timing.pause(barrier_cycles);
      return 0;
    case op_ldgdepbar:
      return 1;
    case op_depbar:
      // DEPBAR.LE SB0, N: all groups of copies but the last N are there.
      if (i.bit(47))
        for (Timing& timing : timings_) timing.wait_for_copies(i.field(38, 6));
      return 0;
    case op_syncs:
      if (checks_phase(i)) {
        set_predicate(i, 81, {all_lanes, all_lanes}, mask);  // what is waited for has come
        if (waited_.insert(at).second)
          for (Timing& timing : timings_) timing.pause_for_memory();
      } else {
        forget(to, 1, mask);
      }
      return shared_latency;
    default:
      break;
  }
  if (is_access(operation)) return access(at, i, operation, mask);
  if (is_bulk_copy(operation)) return copy_in_bulk(at, i, operation);
  if (operation == op_uldc) {
    load_constant(i, mask);
    return 0;
  }
  if (operation == op_redux) {
    count(Counts::alu);
    set(first_uniform + i.field(16, 6), reduced(i, mask), mask);
    return special_latency;
  }
  if (operation == op_r2ur) {
    Lanes value = a(i);
    const auto first = static_cast<std::size_t>(std::countr_zero(mask));
    const bool known = (value.known >> first & 1) != 0;
    value.value.fill(value.value[first]);
    value.unknown.fill(value.unknown[first]);
    value.known = known ? all_lanes : 0;
    set(first_uniform + i.field(16, 6), value, mask);
    return special_latency;
  }
  // Anything else: a result that is not known. What controls the flow or orders memory has none.
  count(Counts::alu);
  if (operation == op_uiadd3_wide) forget(to, 2, mask);
  if (is_texture(operation)) {
    // The components that are asked for: two in the one place and the others in the second, if it
    // is named.
    const unsigned second = i.field(64, 8);
    const auto components = static_cast<unsigned>(std::popcount(i.field(72, 4)));
    const unsigned first = is_zero(second) ? components : std::min(components, 2U);
    forget(to, first, mask);
    forget(second, components - first, mask);
    // An SM has 4 texture units (NVIDIA H100 Tensor Core GPU Architecture, 2022: 528 on 132 SMs), a
    // part of L1 that takes a thread each in a cycle.
    constexpr double units = 4;
    count(Counts::lsu, std::popcount(mask) / units);
    return memory_latency;
  }
  if (operation < 0x100) forget(to, 1, mask);
  return 0;
}

}  // namespace phantora::rank::code
