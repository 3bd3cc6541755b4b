#include "rank/code/machine_code.hpp"

#include <cstdlib>
#include <cstring>

namespace phantora::rank::code {

std::int64_t distance(const Instruction& i, int architecture) {
  const auto offset = static_cast<std::int32_t>(i.low >> 32);
  if (architecture < 90) return offset;
  // Quarters of them: the low 8 bits in bits 16 to 23, the others from bit 34 on.
  return (static_cast<std::int64_t>(offset >> 2) * 256 +
          static_cast<std::int64_t>(i.field(16, 8))) *
         4;
}

bool is_access(unsigned operation) {
  switch (operation) {
    case op_ldg:
    case op_ld:
    case op_stg:
    case op_st:
    case op_red:
    case op_red_float:
    case op_atomg_float:
    case op_atom:
    case op_atom_cas:
    case op_atomg:
    case op_atomg_cas:
    case op_ldgsts:
      return true;
    default:
      return false;
  }
}

bool gives_nothing(const Instruction& i) {
  const unsigned operation = i.operation();
  switch (operation) {
    case op_syncs:
      return checks_phase(i);
    case op_preexit:
    case op_acqbulk:
    case op_nop:
    case op_depbar:
    case op_bar:
    case op_cctl:
    case op_membar:
    case op_errbar:
    case op_ldgdepbar:
    case op_endcollective:
    case op_usetmaxreg:
      return true;
    case op_r2p:  // predicates
    case op_fchk:
    case op_isetp:
    case op_isetp | uniform:
    case op_fsetp:
    case op_dsetp:
    case op_hsetp2:
    case op_plop3:
    case op_plop3 | uniform:
      return true;
    case op_stl:
    case op_sts:
    case op_stsm:
      return true;
    default:
      return operation >= op_bsync && operation < 0x160;
  }
}

bool is_of_floats(unsigned operation) {
  switch (operation) {
    case op_fmnmx:
    case op_fmul:
    case op_fadd:
    case op_ffma:
    case op_dmul:
    case op_dadd:
    case op_dfma:
    case op_hadd2:
    case op_hfma2:
    case op_hmul2:
    case op_hfma2_mma:
    case op_f2fp:
    case op_i2fp:
    case op_f2f:
    case op_f2i:
    case op_i2f:
    case op_frnd:
    case op_mufu:
      return true;
    default:
      return false;
  }
}

bool writes_no_predicate(const Instruction& i) {
  const unsigned operation = i.operation(),
                 plain = operation >= 0x100 ? operation : operation & ~uniform;
  if (is_access(operation) || is_of_floats(plain)) return true;
  switch (plain) {
    case op_mov:
    case op_cs2r:
    case op_sel:
    case op_fsel:
    case op_iabs:
    case op_prmt:
    case op_shf:
    case op_sgxt:
    case op_viadd:
    case op_viaddmnmx:
    case op_nop:
    case op_s2r:
    case op_s2ur:
    case op_ldc:
    case op_ldl:
    case op_lds:
    case op_stl:
    case op_sts:
      return true;
    default:
      return operation == op_uldc;
  }
}

bool may_write_two_predicates(const Instruction& i) {
  switch (i.operation() & ~uniform) {
    case op_imad:
    case op_imad_wide:
    case op_imad_high:
    case op_lea:
    case op_lop3:
      return false;
    default:
      return true;
  }
}

bool is_comparison(unsigned operation) {
  switch (operation & ~uniform) {
    case op_isetp:
    case op_fsetp:
    case op_lop3:
      return operation < 0x100;
    default:
      return false;
  }
}

bool stores_elsewhere(unsigned operation) {
  const bool surfaces = operation >= 0x198 && operation < 0x1a0;
  const bool bulk = operation >= 0x1b5 && operation < 0x1c0;
  return surfaces || bulk;
}

namespace {

/// By how much the counter goes on that the loop's last branch asks about, if that is what
/// compilers unroll by: a step of a warp's size and more is a program's own.
int unrolled(const std::vector<Instruction>& code, std::size_t first, std::size_t branch) {
  constexpr int most = 16;
  const Instruction& end = code[branch];
  const unsigned asked = end.field(12, 3) != 7 ? end.field(12, 3) : end.field(87, 3);
  for (std::size_t at = branch; at-- > first;) {
    const Instruction& compares = code[at];
    if (compares.operation() != op_isetp ||
        (compares.field(81, 3) != asked && compares.field(84, 3) != asked))
      continue;
    for (std::size_t k = first; k < branch; ++k) {
      const Instruction& adds = code[k];
      const unsigned counter = register_of(adds, 16);
      const bool of_itself = (adds.operation() == op_iadd3 || adds.operation() == op_viadd) &&
                             adds.form() == 4 && counter == register_of(adds, 24) &&
                             counter == register_of(compares, 24);
      const auto step = static_cast<std::int32_t>(adds.immediate());
      if (of_itself && step > -most - 1 && step != 0 && step <= most) return std::abs(step);
    }
    return 1;
  }
  return 1;
}

}  // namespace

Program parse(std::span<const std::byte> bytes, int architecture, const CodeLinks& links) {
  Program program;
  program.architecture = architecture;
  program.links = &links;
  for (std::size_t at = 0; at + instruction_bytes <= bytes.size(); at += instruction_bytes) {
    Instruction i;
    std::memcpy(&i.low, bytes.data() + at, sizeof i.low);
    std::memcpy(&i.high, bytes.data() + at + sizeof i.low, sizeof i.high);
    if (i.operation() == op_r2ur_before_sm90) i.low ^= op_r2ur_before_sm90 ^ op_r2ur;
    program.code.push_back(i);
  }
  for (std::size_t at = 0; at < program.code.size(); ++at) {
    const unsigned operation = program.code[at].operation();
    program.number.push_back(is_access(operation) || is_bulk_copy(operation) ? program.accesses++
                             : is_comparison(operation)                      ? program.comparisons++
                                                                             : -1);
    if (operation != op_bra) continue;
    const std::int64_t to = program.target(at);
    // A branch to itself pads the end.
    if (to >= 0 && to < static_cast<std::int64_t>(at))
      program.loops.push_back({static_cast<std::size_t>(to), at,
                               unrolled(program.code, static_cast<std::size_t>(to), at)});
  }
  return program;
}

bool Program::spins(const Loop& loop) const {
  bool looks = false;
  for (std::size_t at = loop.first; at <= loop.last; ++at) {
    const unsigned operation = code[at].operation();
    if (!is_access(operation)) continue;
    const bool of_system = is_of_system(code[at]);
    if (operation == op_stg || operation == op_st || (!of_system && !is_load(operation)))
      return false;
    looks = looks || of_system;
  }
  return looks;
}

bool Program::is_in_spinning(std::size_t at) const {
  const Loop* const loop = innermost_loop(at);
  return loop != nullptr && spins(*loop);
}

bool Program::jumps_over_spinning(std::size_t at, std::int64_t to) const {
  for (std::size_t next = at + 1; static_cast<std::int64_t>(next) < to; ++next) {
    if (is_access(code[next].operation()))
      return is_in_spinning(next) && innermost_loop(next)->first > at;
  }
  return false;
}

bool Program::meets_others() const {
  const auto tells = [](const Instruction& i) {
    return is_of_system(i) && !is_load(i.operation());
  };
  return std::ranges::any_of(code, tells) &&
         std::ranges::any_of(loops, [this](const Loop& loop) { return spins(loop); });
}

const Program::Loop* Program::innermost_loop(std::size_t at) const {
  const Loop* innermost = nullptr;
  for (const Loop& loop : loops) {
    const bool inside = loop.first <= at && at <= loop.last;
    if (inside &&
        (innermost == nullptr || loop.last - loop.first < innermost->last - innermost->first))
      innermost = &loop;
  }
  return innermost;
}

bool Program::is_only_way_out(std::size_t at) const {
  const Loop* loop = innermost_loop(at);
  if (loop == nullptr || !is_unconditional(loop->last)) return false;
  for (std::size_t other = loop->first; other < loop->last; ++other) {
    const unsigned operation = code[other].operation();
    const bool leads_on = operation == op_exit || operation == op_ret || operation == op_brx ||
                          (operation == op_bra && leaves(other, target(other)));
    if (other != at && leads_on) return false;
  }
  return true;
}

std::int32_t offset_of(const Instruction& i) {
  const bool copies = i.operation() == op_ldgsts;
  const unsigned bits = copies ? 12 : 24;
  return static_cast<std::int32_t>(i.field(copies ? 32 : 40, bits) << (32 - bits)) >> (32 - bits);
}

std::uint32_t width(const Instruction& i) {
  constexpr std::array<std::uint32_t, 8> widths{1, 1, 2, 2, 4, 8, 16, 4};
  constexpr std::array<std::uint32_t, 8> of_atomics{4, 4, 8, 4, 4, 8, 8, 8};
  const unsigned kind = i.field(73, 3);
  switch (i.operation()) {
    case op_atom:
    case op_atom_cas:
    case op_atomg:
    case op_atomg_cas:
    case op_atomg_float:
    case op_red:
    case op_red_float:
      return of_atomics[kind];
    default:
      return widths[kind];
  }
}

}  // namespace phantora::rank::code
