#pragma once

#include "rank/code/code_links.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

/// The machine code of a kernel: its instructions, their fields, and where its loops are.
namespace phantora::rank::code {

inline constexpr std::size_t instruction_bytes = 16;
inline constexpr int lanes = 32;
using Mask = std::uint32_t;
inline constexpr Mask all_lanes = ~Mask{0};
inline constexpr std::uint32_t sector_bytes = 32;  // what L2 and device memory are asked for
inline constexpr std::uint32_t sectors_of_line = 4;

// Operations (the low 9 bits) and fields of instructions as nvdisasm -hex prints them for our own
// kernels and Triton's, sm_80 to sm_90. Those on uniform registers have bit 7 set on top.
enum Operation : unsigned {
  op_mov = 0x002,
  op_p2r = 0x003,
  op_r2p = 0x004,
  op_cs2r = 0x005,
  op_vote = 0x006,
  op_sel = 0x007,
  op_fsel = 0x008,
  op_fmnmx = 0x009,
  op_fsetp = 0x00b,
  op_isetp = 0x00c,
  op_iadd3 = 0x010,
  op_lea = 0x011,
  op_lop3 = 0x012,
  op_iabs = 0x013,
  op_prmt = 0x016,
  op_imnmx = 0x017,
  op_shf = 0x019,
  op_sgxt = 0x01a,
  op_plop3 = 0x01c,
  op_fmul = 0x020,
  op_fadd = 0x021,
  op_ffma = 0x023,
  op_imad = 0x024,
  op_imad_wide = 0x025,
  op_imad_high = 0x027,
  op_dmul = 0x028,
  op_dadd = 0x029,
  op_dsetp = 0x02a,
  op_dfma = 0x02b,
  op_preexit = 0x02d,
  op_acqbulk = 0x02e,
  op_elect = 0x02f,
  op_hadd2 = 0x030,
  op_hfma2 = 0x031,
  op_hmul2 = 0x032,
  op_hset2 = 0x033,
  op_hsetp2 = 0x034,
  op_hfma2_mma = 0x035,
  op_viadd = 0x036,
  op_imma = 0x037,
  op_ldsm = 0x03b,
  op_hmma = 0x03c,
  op_f2fp = 0x03e,
  op_dmma = 0x03f,
  op_stsm = 0x044,
  op_i2fp = 0x045,
  op_viaddmnmx = 0x046,
  op_vimnmx = 0x048,
  op_uiadd3_wide = 0x097,
  op_uldc = 0x0b9,
  op_uflo = 0x0bd,
  op_ubrev = 0x0be,
  op_upopc = 0x0bf,
  op_r2ur = 0x0ca,  ///< before sm_90 what follows, which parse() turns into this
  op_flo = 0x100,
  op_brev = 0x101,
  op_fchk = 0x102,
  op_f2f = 0x104,
  op_f2i = 0x105,
  op_i2f = 0x106,
  op_frnd = 0x107,
  op_mufu = 0x108,
  op_popc = 0x109,
  op_f2f_double = 0x110,
  op_f2i_double = 0x111,
  op_i2f_double = 0x112,
  op_frnd_double = 0x113,
  op_nop = 0x118,
  op_s2r = 0x119,
  op_depbar = 0x11a,
  op_endcollective = 0x11b,
  op_bar = 0x11d,
  op_bsync = 0x141,
  op_break = 0x142,
  op_call_absolute = 0x143,
  op_call = 0x144,
  op_bssy = 0x145,
  op_yield = 0x146,
  op_bra = 0x147,
  op_warpsync = 0x148,
  op_brx = 0x149,
  op_jmp = 0x14a,
  op_jmx = 0x14c,
  op_exit = 0x14d,
  op_ret = 0x150,
  op_brxu = 0x158,
  op_jmxu = 0x159,
  op_utmaldg = 0x1b4,
  op_utmastg = 0x1b5,
  op_utmaredg = 0x1b6,
  op_ublkcp = 0x1ba,
  op_ublkred = 0x1bb,
  op_ld = 0x180,
  op_ldg = 0x181,
  op_ldc = 0x182,
  op_ldl = 0x183,
  op_lds = 0x184,
  op_st = 0x185,
  op_stg = 0x186,
  op_stl = 0x187,
  op_sts = 0x188,
  op_shfl = 0x189,
  op_atom = 0x18a,
  op_atom_cas = 0x18b,
  op_atoms = 0x18c,
  op_atoms_cas = 0x18d,
  op_red = 0x18e,
  op_cctl = 0x18f,
  op_membar = 0x192,
  op_red_float = 0x1a6,
  op_atomg_float = 0x1a3,
  op_syncs = 0x1a7,
  op_atomg = 0x1a8,
  op_atomg_cas = 0x1a9,
  op_errbar = 0x1ab,
  op_ldgsts = 0x1ae,
  op_ldgdepbar = 0x1af,
  op_r2ur_before_sm90 = 0x1c2,
  op_s2ur = 0x1c3,
  op_redux = 0x1c4,
  op_warpgroup = 0x1c5,
  op_usetmaxreg = 0x1c8,
  op_hgmma = 0x1f0,
  op_igmma = 0x1f1,
  op_qgmma = 0x1f3,
};
inline constexpr unsigned uniform = 0x080;

struct Instruction {
  std::uint64_t low = 0, high = 0;
  [[nodiscard]] unsigned field(unsigned first, unsigned count) const {
    const std::uint64_t bits =
        first >= 64 ? high >> (first - 64)
                    : (low >> first | (first + count > 64 ? high << (64 - first) : 0));
    return static_cast<unsigned>(bits & ((std::uint64_t{1} << count) - 1));
  }
  [[nodiscard]] bool bit(unsigned at) const { return field(at, 1) != 0; }
  [[nodiscard]] unsigned operation() const { return field(0, 9); }
  [[nodiscard]] unsigned form() const { return field(9, 3); }
  [[nodiscard]] std::uint32_t immediate() const { return field(32, 32); }
};

/// Bytes from the next instruction to where a branch leads.
std::int64_t distance(const Instruction& i, int architecture);
/// Whether an operation goes to device memory.
bool is_access(unsigned operation);
/// Whether such an operation only reads there.
inline bool is_load(unsigned operation) {
  return operation == op_ldg || operation == op_ld || operation == op_ldgsts;
}
/// Whether the host and other GPUs see such an access in the order of the program (.STRONG.SYS in
/// nvdisasm's words, sm_80 to sm_100): one of volatile memory, or of system scope.
inline bool is_of_system(const Instruction& i) {
  constexpr unsigned strong_sys = 10;
  return is_access(i.operation()) && i.field(77, 4) == strong_sys;
}
/// Whether its address may also be one of shared memory or of a thread's own.
inline bool is_generic(unsigned operation) {
  return operation == op_ld || operation == op_st || operation == op_atom ||
         operation == op_atom_cas;
}
inline bool is_texture(unsigned operation) { return operation >= 0x160 && operation < 0x180; }
/// To registers: then the place of the result's number has zeros.
bool gives_nothing(const Instruction& i);
/// Whether an operation computes or converts floats, or integers into them, and has no predicate
/// for a result.
bool is_of_floats(unsigned operation);
/// Predicates that an instruction writes are in bits 81 to 83 and, of some, 84 to 86, which others
/// have other things in. Of operations that are not listed both count.
bool writes_no_predicate(const Instruction& i);
bool may_write_two_predicates(const Instruction& i);
/// SYNCS.PHASECHK: a predicate, and no register. Others (SYNCS.ARRIVE) have no predicate.
inline bool checks_phase(const Instruction& i) {
  return i.operation() == op_syncs && i.form() == 2;
}
/// Registers that a conversion (F2F, F2I, I2F) writes: two for what has 64 bits.
inline unsigned converted_words(const Instruction& i) {
  constexpr unsigned of_64_bits = 3;
  return i.field(75, 2) == of_64_bits ? 2 : 1;
}
/// Whether it is what a loop may end by.
bool is_comparison(unsigned operation);
/// Whether an access goes by two registers, of 64 bits: all of LDGSTS, and those that say .E.
inline bool has_wide_address(const Instruction& i) {
  return i.operation() == op_ldgsts || i.bit(72);
}
/// What an access adds to its register: 24 bits. A copy to shared memory (LDGSTS) adds 12 to the
/// address in device memory, and the 20 above them to the other.
std::int32_t offset_of(const Instruction& i);
/// Whether the unit for bulk copies (TMA) moves something between device and shared memory, for one
/// thread of a warp.
inline bool is_bulk_copy(unsigned operation) {
  return operation == op_utmaldg || operation == op_utmastg || operation == op_utmaredg ||
         operation == op_ublkcp || operation == op_ublkred;
}
/// Bytes per thread of an access, in bits 73 to 75: signed and unsigned 1 and 2, then 4, 8, 16; of
/// an atomic one the type, of which 0, 1, 3 and 4 have 4 bytes.
std::uint32_t width(const Instruction& i);

// Registers by number: general ones, of which 255 is zero, and from 256 on those that a warp has
// one of, the last of which is zero.
inline constexpr unsigned first_uniform = 256, all_registers = 256 + 64;
inline bool is_zero(unsigned number) {
  return number == first_uniform - 1 || number == all_registers - 1;
}
/// Whether the instruction works on uniform registers.
inline bool is_of_warp(const Instruction& i) {
  const unsigned operation = i.operation();
  return ((operation & 0x180) == uniform && operation != op_r2ur) || operation == op_usetmaxreg;
}
inline unsigned register_of(const Instruction& i, unsigned at) {
  return is_of_warp(i) ? first_uniform + i.field(at, 6) : i.field(at, 8);
}
/// Register number of the second and third operand, or -1 where it is no register.
inline int b_register(const Instruction& i) {
  switch (i.form()) {
    case 1:
      return static_cast<int>(register_of(i, 32));
    case 2:
    case 3:
    case 7:
      return static_cast<int>(register_of(i, 64));
    case 6:
      return static_cast<int>(first_uniform + i.field(32, 6));
    default:
      return -1;
  }
}
inline int c_register(const Instruction& i) {
  switch (i.form()) {
    case 2:
    case 3:
      return -1;
    case 7:
      return static_cast<int>(first_uniform + i.field(32, 6));
    default:
      return static_cast<int>(register_of(i, 64));
  }
}
/// Whether it may write device memory in a way that is_access() does not know.
bool stores_elsewhere(unsigned operation);

/// The code of a kernel, taken apart once.
struct Program {
  std::vector<Instruction> code;
  struct Loop {
    std::size_t first, last;
    int unrolled = 1;  ///< how many of the program's trips one of them is
  };
  std::vector<Loop> loops;  ///< what backward branches close
  std::vector<int> number;  ///< of an access among accesses, of a comparison likewise
  int accesses = 0, comparisons = 0;
  int architecture = 90;
  const CodeLinks* links = nullptr;

  [[nodiscard]] std::int64_t target(std::size_t at) const {
    return static_cast<std::int64_t>(at) + 1 +
           distance(code[at], architecture) / static_cast<std::int64_t>(instruction_bytes);
  }
  /// Of a branch or an exit.
  [[nodiscard]] bool is_unconditional(std::size_t at) const {
    constexpr unsigned always = 7;
    return code[at].field(12, 4) == always && code[at].field(87, 4) == always;
  }
  /// Whether a loop only looks at memory, or changes what others of the system look at, until they
  /// have written what it waits for.
  [[nodiscard]] bool spins(const Loop& loop) const;
  /// Whether the smallest loop that has an instruction is such a one.
  [[nodiscard]] bool is_in_spinning(std::size_t at) const;
  /// Whether what follows `at`, as far as `to`, is such a loop and no other access: a first look
  /// has come before.
  [[nodiscard]] bool jumps_over_spinning(std::size_t at, std::int64_t to) const;
  /// Whether the code waits for others of the system, and tells them something.
  [[nodiscard]] bool meets_others() const;
  /// The smallest loop that has an instruction, or nullptr.
  [[nodiscard]] const Loop* innermost_loop(std::size_t at) const;
  /// Where a switch (BRX) at `at` leads, whose register has `jump` of the jump table.
  [[nodiscard]] std::int64_t switch_target(std::size_t at, std::uint32_t jump) const {
    return target(at) + jump / static_cast<std::int64_t>(instruction_bytes);
  }
  /// Whether a branch from `at` to `to` leaves a loop forwards.
  [[nodiscard]] bool leaves(std::size_t at, std::int64_t to) const {
    return std::any_of(loops.begin(), loops.end(), [&](const Loop& loop) {
      return loop.first <= at && at <= loop.last && to > static_cast<std::int64_t>(loop.last);
    });
  }
  /// Whether the innermost loop around `at` is left by nothing else and closed without a condition:
  /// then the condition of `at` is that of the loop.
  [[nodiscard]] bool is_only_way_out(std::size_t at) const;
  /// Instructions that are gone through instead of those that a forward branch leaves out: what
  /// they end by leads out of the kernel, or over these.
  [[nodiscard]] std::int64_t instead(std::int64_t to) const {
    const auto size = static_cast<std::int64_t>(code.size());
    if (to < 1 || to > size) return 0;
    const auto last = static_cast<std::size_t>(to - 1);
    if (!is_unconditional(last)) return 0;
    if (code[last].operation() == op_exit) return size - to;
    return code[last].operation() == op_bra ? target(last) - to : 0;
  }
  [[nodiscard]] bool jumps_over_call(std::size_t at, std::int64_t to) const {
    const std::size_t end =
        std::min(code.size(), static_cast<std::size_t>(std::max<std::int64_t>(0, to)));
    for (std::size_t i = at + 1; i < end; ++i) {
      if (code[i].operation() == op_call) return true;
    }
    return false;
  }
};

/// @param links  has to live as long as the program.
Program parse(std::span<const std::byte> bytes, int architecture, const CodeLinks& links);

}  // namespace phantora::rank::code
