#include "rank/kernels/code_walk.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <utility>

namespace phantora::rank {

namespace {

constexpr std::size_t instruction_bytes = 16;
constexpr int lanes = 32;
using Mask = std::uint32_t;
constexpr Mask all_lanes = ~Mask{0};
constexpr std::uint32_t sector_bytes = 32;  // what L2 and device memory are asked for

// Operations (the low 9 bits) and fields of instructions as nvdisasm -hex prints them for our own
// kernels and Triton's, sm_80 to sm_90. Those on uniform registers have bit 7 set on top.
enum Operation : unsigned {
  op_mov = 0x002,
  op_cs2r = 0x005,
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
  op_elect = 0x02f,
  op_hadd2 = 0x030,
  op_hfma2 = 0x031,
  op_hmul2 = 0x032,
  op_hfma2_mma = 0x035,
  op_viadd = 0x036,
  op_imma = 0x037,
  op_ldsm = 0x03b,
  op_hmma = 0x03c,
  op_dmma = 0x03f,
  op_stsm = 0x044,
  op_i2fp = 0x045,
  op_viaddmnmx = 0x046,
  op_vimnmx = 0x048,
  op_uiadd3_wide = 0x097,
  op_uldc = 0x0b9,
  op_r2ur = 0x0ca,
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
  op_s2r = 0x119,
  op_depbar = 0x11a,
  op_bar = 0x11d,
  op_call = 0x144,
  op_bra = 0x147,
  op_exit = 0x14d,
  op_ret = 0x150,
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
  op_atoms = 0x18c,
  op_atoms_cas = 0x18d,
  op_red = 0x18e,
  op_red_float = 0x1a6,
  op_atomg_float = 0x1a3,
  op_syncs = 0x1a7,
  op_atomg = 0x1a8,
  op_atomg_cas = 0x1a9,
  op_ldgsts = 0x1ae,
  op_ldgdepbar = 0x1af,
  op_s2ur = 0x1c3,
  op_hgmma = 0x1f0,
  op_igmma = 0x1f1,
  op_qgmma = 0x1f3,
};
constexpr unsigned uniform = 0x080;

// Cycles until the result of what takes as long as it takes. Others are in the stall counts that
// the compiler wrote. Shared memory: Luo et al., "Dissecting the NVIDIA Hopper Architecture through
// Microbenchmarking" (2024). Device memory under load: half a microsecond, as full reductions by
// one block show (round_trip_seconds of lib/kernels/roofline.cpp).
constexpr double shared_latency = 29;
constexpr double memory_latency = 900;
constexpr double special_latency = 20;
constexpr double matrix_latency = 33;
constexpr double barrier_cycles = 25;

/// How often loops run that end by data alone, per entry: any figure is a guess; sparse rows,
/// probes of hash tables and searches have some.
constexpr int unknown_trips = 8;
/// Of those that may end otherwise too.
constexpr int most_unknown_trips = 64;
/// Of the way of one launch's warps, so that a walk ends: a quarter of a second.
constexpr std::int64_t most_steps = 1'000'000;

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
std::int64_t distance(const Instruction& i, int architecture) {
  const auto offset = static_cast<std::int32_t>(i.low >> 32);
  if (architecture < 90) return offset;
  // Quarters of them: the low 8 bits in bits 16 to 23, the others from bit 34 on.
  return (static_cast<std::int64_t>(offset >> 2) * 256 +
          static_cast<std::int64_t>(i.field(16, 8))) *
         4;
}

/// A register of the 32 threads; bits of `known` say of which threads it is known.
struct Lanes {
  std::array<std::uint32_t, lanes> value{};
  Mask known = 0;
};
/// A predicate of the 32 threads.
struct Truth {
  Mask value = 0, known = 0;
};

/// The last execution of a comparison: what was compared.
struct Comparison {
  enum class Kind : std::uint8_t { none, integers, exact } kind = Kind::none;
  unsigned relation = 0;
  Mask known = 0;
  std::array<std::int64_t, lanes> difference{};  ///< of integers; else what was compared
};

/// Sums over what a warp did.
struct Counts {
  enum Unit : unsigned {
    instructions,
    alu,
    fma,
    fp64,
    special,
    lsu,
    half_flops,
    tf32_flops,
    eight_flops,
    fp64_flops,
    atomics,
    partial_sectors,
    guessed,
    units
  };
  std::array<double, units> sum{};
  std::vector<double> sectors{};  ///< by number of the access in the code
  double clock = 0;
  std::uint64_t way = 0;  ///< sum over the instructions executed: equal for equal ways

  void add(const Counts& other) {
    for (std::size_t u = 0; u < sum.size(); ++u) sum[u] += other.sum[u];
    for (std::size_t i = 0; i < sectors.size(); ++i) sectors[i] += other.sectors[i];
    clock += other.clock;
  }
  /// Adds `times` what came since `before`.
  void repeat(const Counts& before, double times) {
    for (std::size_t u = 0; u < sum.size(); ++u) sum[u] += times * (sum[u] - before.sum[u]);
    for (std::size_t i = 0; i < sectors.size(); ++i) {
      sectors[i] += times * (sectors[i] - before.sectors[i]);
    }
    clock += times * (clock - before.clock);
    way += static_cast<std::uint64_t>(times) * (way - before.way);
  }
};

struct Registers {
  std::array<Lanes, 256 + 64> general{};  ///< 255 is zero; uniform ones from 256 on
  std::array<Truth, 16> predicates{};     ///< 7 and 15 are true; uniform ones from 8 on
  std::vector<Comparison> comparisons{};  ///< by number of the comparison in the code
};

/// The code of a kernel, taken apart once.
struct Program {
  std::vector<Instruction> code;
  struct Loop {
    std::size_t first, last;
  };
  std::vector<Loop> loops;  ///< what backward branches close
  std::vector<int> number;  ///< of an access among accesses, of a comparison likewise
  int accesses = 0, comparisons = 0;
  int architecture = 90;

  [[nodiscard]] std::int64_t target(std::size_t at) const {
    return static_cast<std::int64_t>(at) + 1 +
           distance(code[at], architecture) / static_cast<std::int64_t>(instruction_bytes);
  }
  /// Whether a branch from `at` to `to` leaves a loop forwards.
  [[nodiscard]] bool leaves(std::size_t at, std::int64_t to) const {
    return std::any_of(loops.begin(), loops.end(), [&](const Loop& loop) {
      return loop.first <= at && at <= loop.last && to > static_cast<std::int64_t>(loop.last);
    });
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
    case op_atomg:
    case op_atomg_cas:
    case op_ldgsts:
      return true;
    default:
      return false;
  }
}

/// What a loop may end by.
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

Program parse(std::span<const std::byte> bytes, int architecture) {
  Program program;
  program.architecture = architecture;
  for (std::size_t at = 0; at + instruction_bytes <= bytes.size(); at += instruction_bytes) {
    Instruction i;
    std::memcpy(&i.low, bytes.data() + at, sizeof i.low);
    std::memcpy(&i.high, bytes.data() + at + sizeof i.low, sizeof i.high);
    program.code.push_back(i);
  }
  for (std::size_t at = 0; at < program.code.size(); ++at) {
    const unsigned operation = program.code[at].operation();
    program.number.push_back(is_access(operation)       ? program.accesses++
                             : is_comparison(operation) ? program.comparisons++
                                                        : -1);
    if (operation != op_bra) continue;
    const std::int64_t to = program.target(at);
    // A branch to itself pads the end.
    if (to >= 0 && to < static_cast<std::int64_t>(at))
      program.loops.push_back({static_cast<std::size_t>(to), at});
  }
  return program;
}

/// Bytes per thread of an access, in bits 73 to 75: signed and unsigned 1 and 2, then 4, 8, 16.
std::uint32_t width(const Instruction& i) {
  constexpr std::array<std::uint32_t, 8> widths{1, 1, 2, 2, 4, 8, 16, 4};
  return widths[i.field(73, 3)];
}

float as_float(std::uint32_t bits) { return std::bit_cast<float>(bits); }
std::uint32_t as_bits(float value) { return std::bit_cast<std::uint32_t>(value); }

/// First and last address that an access of the code went to, over all warps.
struct Extent {
  std::uint64_t first = std::numeric_limits<std::uint64_t>::max(), last = 0;
  bool unknown = false;  ///< or some of them came from memory
  bool written = false;
};

/// What the warps of a launch share.
struct Walk {
  const CodeLaunch& launch;
  const Program& program;
  std::vector<Extent> extents;
  std::int64_t steps = 0;
};

/// One warp on its way.
class Warp {
 public:
  Warp(Walk& walk, const KernelQuery::Dim3& block, unsigned first_thread)
      : walk_{walk}, program_{walk.program}, block_{block} {
    const KernelQuery::Dim3& size = walk.launch.block;
    for (unsigned lane = 0; lane < lanes; ++lane) {
      const unsigned thread = first_thread + lane;
      if (thread >= size.x * size.y * size.z) break;
      alive_ |= Mask{1} << lane;
      thread_[lane] = {thread % size.x, thread / size.x % size.y, thread / (size.x * size.y)};
    }
    registers_.general[255].known = all_lanes;
    registers_.general[256 + 63].known = all_lanes;
    for (const std::size_t always : {std::size_t{7}, std::size_t{15}})
      registers_.predicates[always] = {all_lanes, all_lanes};
    registers_.comparisons.resize(static_cast<std::size_t>(program_.comparisons));
    counts_.sectors.resize(static_cast<std::size_t>(program_.accesses));
    first_sectors_.resize(counts_.sectors.size());
    visits_.resize(program_.code.size());
  }

  /// Goes on until all threads have ended; false if that takes too long.
  bool run() {
    while (alive_ != 0) {
      if (++walk_.steps > most_steps) return false;
      // Those that are behind go first, so that threads meet again after a branch.
      std::size_t at = std::numeric_limits<std::size_t>::max();
      for (int lane = 0; lane < lanes; ++lane) {
        if ((alive_ >> lane & 1) != 0) at = std::min(at, pc_[static_cast<std::size_t>(lane)]);
      }
      if (at >= program_.code.size()) return true;
      Mask active = 0;
      for (int lane = 0; lane < lanes; ++lane) {
        if ((alive_ >> lane & 1) != 0 && pc_[static_cast<std::size_t>(lane)] == at)
          active |= Mask{1} << lane;
      }
      execute(at, active);
    }
    return true;
  }

  [[nodiscard]] const Counts& counts() const { return counts_; }
  /// Sectors of each access' first execution, sorted.
  [[nodiscard]] const std::vector<std::vector<std::uint64_t>>& first_sectors() const {
    return first_sectors_;
  }

 private:
  // ------------------------------------------------------------ operands

  [[nodiscard]] static bool is_of_warp(const Instruction& i) {
    return (i.operation() & 0x180) == uniform && i.operation() != op_r2ur;
  }
  [[nodiscard]] static unsigned register_of(const Instruction& i, unsigned at) {
    return is_of_warp(i) ? 256 + i.field(at, 6) : i.field(at, 8);
  }
  [[nodiscard]] static Lanes constant(std::uint32_t value) {
    Lanes result;
    result.value.fill(value);
    result.known = all_lanes;
    return result;
  }
  [[nodiscard]] Lanes bank(const Instruction& i, unsigned more = 0) const {
    const unsigned offset = i.field(38, 16) + more;
    std::uint32_t value = 0;
    if (i.field(54, 5) != 0 || i.bit(91) || offset + sizeof value > walk_.launch.constants.size()) {
      return {};
    }
    std::memcpy(&value, walk_.launch.constants.data() + offset, sizeof value);
    return constant(value);
  }
  /// Register number of an operand, or -1 where it is no register.
  [[nodiscard]] static int b_register(const Instruction& i) {
    switch (i.form()) {
      case 1:
        return static_cast<int>(register_of(i, 32));
      case 2:
      case 3:
      case 7:
        return static_cast<int>(register_of(i, 64));
      case 6:
        return 256 + static_cast<int>(i.field(32, 6));
      default:
        return -1;
    }
  }
  [[nodiscard]] static int c_register(const Instruction& i) {
    switch (i.form()) {
      case 2:
      case 3:
        return -1;
      case 7:
        return 256 + static_cast<int>(i.field(32, 6));
      default:
        return static_cast<int>(register_of(i, 64));
    }
  }
  [[nodiscard]] Lanes a(const Instruction& i) const { return get(register_of(i, 24)); }
  [[nodiscard]] Lanes b(const Instruction& i) const {
    const int number = b_register(i);
    if (number >= 0) return get(static_cast<unsigned>(number));
    return i.form() == 4 ? constant(i.immediate()) : bank(i);
  }
  [[nodiscard]] Lanes c(const Instruction& i) const {
    const int number = c_register(i);
    if (number >= 0) return get(static_cast<unsigned>(number));
    return i.form() == 2 ? constant(i.immediate()) : bank(i);
  }
  /// The upper half of a 64-bit third operand.
  [[nodiscard]] Lanes c_high(const Instruction& i) const {
    const int number = c_register(i);
    if (number >= 0) return high(static_cast<unsigned>(number));
    return i.form() == 2 ? constant(0) : bank(i, 4);
  }
  /// The other operand of an addition of two: the second, or where that is no register, the third.
  [[nodiscard]] Lanes b_or_c(const Instruction& i) const {
    return i.form() == 2 || i.form() == 3 || i.form() == 7 ? c(i) : b(i);
  }
  [[nodiscard]] const Lanes& get(unsigned number) const { return registers_.general[number]; }
  [[nodiscard]] static bool is_zero(unsigned number) { return number == 255 || number == 256 + 63; }
  /// The register after `number`, which holds the upper half of 64 bits.
  [[nodiscard]] const Lanes& high(unsigned number) const {
    return is_zero(number) ? get(number) : get(std::min<unsigned>(number + 1, 256 + 63));
  }
  [[nodiscard]] Truth predicate(const Instruction& i, unsigned at) const {
    Truth truth = registers_.predicates[(is_of_warp(i) ? 8 : 0) + i.field(at, 3)];
    if (i.bit(at + 3)) truth.value = ~truth.value;
    return truth;
  }

  void set(unsigned number, const Lanes& value, Mask mask) {
    if (is_zero(number)) return;
    if (number >= 256) mask = all_lanes;  // a warp has one
    ++written_[number];
    Lanes& to = registers_.general[number];
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      if ((mask >> lane & 1) != 0) to.value[lane] = value.value[lane];
    }
    to.known = (to.known & ~mask) | (value.known & mask);
  }
  void forget(unsigned number, unsigned count, Mask mask) {
    for (unsigned n = number; n < number + count; ++n) {
      if (is_zero(n) || n >= registers_.general.size()) continue;
      registers_.general[n].known &= ~mask;
      ++written_[n];
    }
  }
  void set_predicate(const Instruction& i, unsigned at, Truth truth, Mask mask) {
    const bool of_warp = is_of_warp(i);
    const unsigned number = (of_warp ? 8 : 0) + i.field(at, 3);
    if (number % 8 == 7) return;
    if (of_warp) mask = all_lanes;
    Truth& to = registers_.predicates[number];
    to.value = (to.value & ~mask) | (truth.value & mask);
    to.known = (to.known & ~mask) | (truth.known & mask);
  }

  /// f of two or three registers, thread by thread.
  template <class F>
  static Lanes each(const Lanes& x, const Lanes& y, F f) {
    Lanes result;
    for (std::size_t lane = 0; lane < lanes; ++lane)
      result.value[lane] = f(x.value[lane], y.value[lane]);
    result.known = x.known & y.known;
    return result;
  }
  template <class F>
  static Lanes each(const Lanes& x, const Lanes& y, const Lanes& z, F f) {
    Lanes result;
    for (std::size_t lane = 0; lane < lanes; ++lane)
      result.value[lane] = f(x.value[lane], y.value[lane], z.value[lane]);
    result.known = x.known & y.known & z.known;
    return result;
  }
  static Lanes negated(Lanes x, bool negate) {
    if (negate) {
      for (std::uint32_t& v : x.value) v = 0U - v;
    }
    return x;
  }
  static Lanes float_modified(Lanes x, bool negate, bool absolute) {
    for (std::uint32_t& v : x.value) {
      if (absolute) v &= 0x7fffffffU;
      if (negate) v ^= 0x80000000U;
    }
    return x;
  }
  [[nodiscard]] static Truth combined(Truth x, Truth y, unsigned operation) {
    Truth result;
    switch (operation) {
      case 0:
        result.value = x.value & y.value;
        result.known = (x.known & y.known) | (x.known & ~x.value) | (y.known & ~y.value);
        break;
      case 1:
        result.value = x.value | y.value;
        result.known = (x.known & y.known) | (x.known & x.value) | (y.known & y.value);
        break;
      default:
        result.value = x.value ^ y.value;
        result.known = x.known & y.known;
        break;
    }
    // What is not known may stand for anything: where it decides nothing, the known side has.
    const Mask decided_by_one = result.known & ~(x.known & y.known);
    if (operation == 0) result.value &= ~decided_by_one;
    if (operation == 1) result.value |= decided_by_one;
    return result;
  }

  // ------------------------------------------------------------ execution

  void count(Counts::Unit unit, double times = 1) { counts_.sum[unit] += times; }

  void execute(std::size_t at, Mask active) {
    const Instruction& i = program_.code[at];
    const unsigned operation = i.operation();
    count(Counts::instructions);
    counts_.way += (at + 1) * 0x9e3779b97f4a7c15ULL;
    if (in_guessed_loop(at)) count(Counts::guessed);
    // Waits for what it needs, as the compiler says.
    const unsigned waits = i.field(116, 6);
    for (std::size_t s = 0; s < scoreboard_.size(); ++s) {
      if ((waits >> s & 1) != 0) counts_.clock = std::max(counts_.clock, scoreboard_[s]);
    }
    Truth guard = registers_.predicates[(is_of_warp(i) ? 8 : 0) + i.field(12, 3)];
    if (i.bit(15)) guard.value = ~guard.value;
    // Memory is accessed, and arithmetic done, where that is not known.
    const Mask mask = active & (guard.value | ~guard.known);
    double latency = 0;
    if (operation == op_bra || operation == op_exit || operation == op_call ||
        operation == op_ret) {
      transfer(at, active, guard);
    } else {
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        if ((active >> lane & 1) != 0) pc_[lane] = at + 1;
      }
      if (mask != 0) latency = perform(at, i, operation, mask);
      // A result under a guard that is not known is not known.
      const Mask unsure = active & ~guard.known;
      if (unsure != 0 && !is_access(operation)) forget(register_of(i, 16), 1, unsure);
    }
    if (latency > 0) {
      const unsigned writes = i.field(110, 3);
      if (writes < scoreboard_.size()) scoreboard_[writes] = counts_.clock + latency;
      // Operands are read long before the result is there.
      const unsigned reads = i.field(113, 3);
      if (reads < scoreboard_.size())
        scoreboard_[reads] = std::max(scoreboard_[reads], counts_.clock + special_latency);
    }
    counts_.clock += std::max(1U, i.field(105, 4));
  }

  [[nodiscard]] bool in_guessed_loop(std::size_t at) const {
    return std::any_of(guessed_loops_.begin(), guessed_loops_.end(),
                       [&](const Program::Loop& l) { return l.first <= at && at <= l.last; });
  }

  /// Which of the threads whose condition only data tell go where a branch leads.
  Mask unknown_takers(std::size_t at, std::int64_t to, Mask unsure) {
    const bool backward = to <= static_cast<std::int64_t>(at);
    if (backward || program_.leaves(at, to)) {
      const int visit = ++visits_[at];
      if (unsure != 0) {
        for (const Program::Loop& loop : program_.loops) {
          if (loop.first <= at && at <= loop.last && backward && loop.last == at &&
              !in_guessed_loop(at)) {
            guessed_loops_.push_back(loop);
          }
        }
      }
      // Loops that end by what data say in the middle mostly end otherwise.
      if (backward) return visit % unknown_trips == 0 ? 0 : unsure;
      return visit % most_unknown_trips == 0 ? unsure : 0;
    }
    // The compiler puts what is hardly ever needed into functions: denormals in divisions.
    if (program_.jumps_over_call(at, to)) return unsure;
    constexpr Mask half = 0x55555555;
    return unsure & half;
  }

  void transfer(std::size_t at, Mask active, Truth guard) {
    const Instruction& i = program_.code[at];
    const unsigned operation = i.operation();
    count(Counts::alu);
    Truth condition = guard;
    if (operation == op_bra) condition = combined(guard, predicate(i, 87), 0);
    const Mask unsure = active & ~condition.known;
    if (operation == op_exit) {
      // Not the whole warp ends by a chance.
      const Mask ends = (active & condition.known & condition.value);
      alive_ &= ~ends;
      advance(at + 1, active & ~ends);
      return;
    }
    if (operation == op_ret) {
      Mask done = active;
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        if ((active >> lane & 1) == 0) continue;
        if (returns_[lane].empty()) continue;
        pc_[lane] = returns_[lane].back();
        returns_[lane].pop_back();
        done &= ~(Mask{1} << lane);
      }
      alive_ &= ~done;
      return;
    }
    const std::int64_t to = program_.target(at);
    Mask takes = active & condition.known & condition.value;
    if (unsure != 0) takes |= unknown_takers(at, to, unsure);
    const Mask stays = active & ~takes;
    advance(at + 1, stays);
    if (takes == 0) return;
    if (to < 0 || static_cast<std::size_t>(to) >= program_.code.size() ||
        (operation == op_bra && to == static_cast<std::int64_t>(at))) {
      alive_ &= ~takes;
      return;
    }
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      if ((takes >> lane & 1) != 0 && operation == op_call) returns_[lane].push_back(at + 1);
    }
    advance(static_cast<std::size_t>(to), takes);
    if (operation == op_bra && to < static_cast<std::int64_t>(at) && stays == 0 && active == alive_)
      count_through(at, static_cast<std::size_t>(to));
  }

  void advance(std::size_t to, Mask mask) {
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      if ((mask >> lane & 1) != 0) pc_[lane] = to;
    }
  }

  // ------------------------------------------------------------ loops

  struct Passage {
    Registers registers;
    Counts counts;
  };

  /// Trips that a comparison leaves until its outcome changes, given its last three differences.
  static double trips_left(const Comparison& c0, const Comparison& c1, const Comparison& c2,
                           Mask active) {
    double least = std::numeric_limits<double>::infinity();
    if (c0.kind == Comparison::Kind::none) return least;
    const Mask known = c0.known & c1.known & c2.known & active;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      if ((known >> lane & 1) == 0) continue;
      const std::int64_t x = c0.difference[lane];
      const std::int64_t step = x - c1.difference[lane];
      if (step != c1.difference[lane] - c2.difference[lane]) return 0;
      if (step == 0) continue;
      if (c0.kind == Comparison::Kind::exact) return 0;
      // Where the sign that the relation asks for changes: x < 0, x == 0, x > 0.
      const bool upwards = step > 0;
      double left = std::numeric_limits<double>::infinity();
      const auto until = [&](std::int64_t bound) {  // first trip with x beyond `bound`
        const std::int64_t way = upwards ? bound - x : x - bound;
        if (way >= 0)
          left = std::min(
              left, std::floor(static_cast<double>(way) / static_cast<double>(std::abs(step))));
      };
      switch (c0.relation) {
        case 1:  // <
        case 6:  // >=
          until(upwards ? -1 : 0);
          break;
        case 3:  // <=
        case 4:  // >
          until(upwards ? 0 : 1);
          break;
        default:  // equal or not: just before, and on it
          until(upwards ? -1 : 1);
          if (x == 0) left = 0;
          break;
      }
      least = std::min(least, left);
    }
    return least;
  }

  /// At a branch back to `first` that all threads take: where the last two trips were alike, and
  /// what was compared in them goes on evenly, the trips until a comparison turns out otherwise are
  /// as the last.
  void count_through(std::size_t branch, std::size_t first) {
    // What lies inside was entered anew.
    std::erase_if(passages_, [&](const auto& p) { return p.first >= first && p.first < branch; });
    std::vector<Passage>& past = passages_[branch];
    past.insert(past.begin(), Passage{registers_, counts_});
    if (past.size() < 3) return;
    past.resize(3);
    const Counts &now = past[0].counts, &before = past[1].counts, &long_before = past[2].counts;
    if (now.way - before.way != before.way - long_before.way) return;
    double trips = std::numeric_limits<double>::infinity();
    for (std::size_t i = first; i <= branch; ++i) {
      if (!is_comparison(program_.code[i].operation())) continue;
      const auto n = static_cast<std::size_t>(program_.number[i]);
      trips = std::min(
          trips, trips_left(past[0].registers.comparisons[n], past[1].registers.comparisons[n],
                            past[2].registers.comparisons[n], alive_));
      if (trips < 1) return;
    }
    if (!std::isfinite(trips)) return;
    trips = std::floor(trips);
    const double clock = counts_.clock;
    counts_.repeat(before, trips);
    for (double& ready : scoreboard_) ready += counts_.clock - clock;
    const auto times = static_cast<std::uint32_t>(static_cast<std::uint64_t>(trips));
    for (std::size_t r = 0; r < registers_.general.size(); ++r) {
      Lanes& value = registers_.general[r];
      const Lanes &v1 = past[1].registers.general[r], &v2 = past[2].registers.general[r];
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        const std::uint32_t step = value.value[lane] - v1.value[lane];
        if (step != v1.value[lane] - v2.value[lane]) value.known &= ~(Mask{1} << lane);
        value.value[lane] += times * step;
      }
      value.known &= v1.known & v2.known;
    }
    for (const std::size_t zero : {std::size_t{255}, std::size_t{256 + 63}})
      registers_.general[zero].known = all_lanes;
    past.clear();
  }

  // ------------------------------------------------------------ instructions

  Comparison& comparison(std::size_t at) {
    return registers_.comparisons[static_cast<std::size_t>(program_.number[at])];
  }

  void compare(std::size_t at, const Instruction& i, Mask mask) {
    const bool is_signed = i.bit(73), extended = i.bit(72);
    const unsigned relation = i.field(76, 3);
    const Lanes x = a(i), y = b(i);
    const Mask known = x.known & y.known;
    Truth truth{0, known};
    const Truth lower = extended ? predicate(i, 68) : Truth{};
    Comparison& last = comparison(at);
    last.kind = Comparison::Kind::integers;
    last.relation = relation;
    last.known = known & mask;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const std::int64_t difference =
          is_signed ? std::int64_t{static_cast<std::int32_t>(x.value[lane])} -
                          static_cast<std::int32_t>(y.value[lane])
                    : std::int64_t{x.value[lane]} - std::int64_t{y.value[lane]};
      last.difference[lane] = difference;
      bool holds = false;
      switch (relation) {
        case 1:
          holds = difference < 0;
          break;
        case 2:
          holds = difference == 0;
          break;
        case 3:
          holds = difference <= 0;
          break;
        case 4:
          holds = difference > 0;
          break;
        case 5:
          holds = difference != 0;
          break;
        case 6:
          holds = difference >= 0;
          break;
        case 7:
          holds = true;
          break;
        default:
          break;
      }
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
    Truth other{~truth.value, truth.known};
    set_predicate(i, 81, combined(truth, predicate(i, 87), i.field(74, 2)), mask);
    set_predicate(i, 84, combined(other, predicate(i, 87), i.field(74, 2)), mask);
  }

  void compare_floats(std::size_t at, const Instruction& i, Mask mask) {
    const Lanes x = float_modified(a(i), i.bit(72), i.bit(73));
    const Lanes y = float_modified(b(i), i.bit(63) && i.form() != 4, i.bit(62) && i.form() != 4);
    Truth truth{0, x.known & y.known};
    const unsigned relation = i.field(76, 4);
    Comparison& last = comparison(at);
    last.kind = Comparison::Kind::exact;
    last.known = truth.known & mask;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const float p = as_float(x.value[lane]), q = as_float(y.value[lane]);
      const bool unordered = std::isnan(p) || std::isnan(q);
      const bool holds = unordered
                             ? relation >= 8
                             : ((relation & 1) != 0 && p < q) || ((relation & 2) != 0 && p == q) ||
                                   ((relation & 4) != 0 && p > q);
      last.difference[lane] = std::int64_t{x.value[lane]} << 32 ^ y.value[lane];
      if (holds) truth.value |= Mask{1} << lane;
    }
    const Truth other{~truth.value, truth.known};
    set_predicate(i, 81, combined(truth, predicate(i, 87), i.field(74, 2)), mask);
    set_predicate(i, 84, combined(other, predicate(i, 87), i.field(74, 2)), mask);
  }

  /// A sum of three with carries in and out.
  void add(const Instruction& i, Mask mask) {
    const bool extended = i.bit(74);
    const auto operand = [&](Lanes x, bool negate) {
      if (negate) {
        for (std::uint32_t& v : x.value) v = extended ? ~v : 0U - v;
      }
      return x;
    };
    const bool b_negated = i.bit(63) && i.form() != 4;
    const Lanes x = operand(a(i), i.bit(72)), y = operand(b(i), b_negated),
                z = operand(c(i), i.bit(75));
    const Truth carry = extended ? predicate(i, 87) : Truth{0, all_lanes};
    const Truth carry_2 = extended ? predicate(i, 77) : Truth{0, all_lanes};
    Lanes result;
    Truth out{0, x.known & y.known & z.known & carry.known & carry_2.known};
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      // Minus a carries as its complement plus one does.
      const auto wide = [&](std::uint32_t v, bool negate) {
        return std::uint64_t{v} + (negate && !extended && v == 0 ? std::uint64_t{1} << 32 : 0);
      };
      const std::uint64_t sum = wide(x.value[lane], i.bit(72)) + wide(y.value[lane], b_negated) +
                                wide(z.value[lane], i.bit(75)) + (carry.value >> lane & 1) +
                                (carry_2.value >> lane & 1);
      result.value[lane] = static_cast<std::uint32_t>(sum);
      if (sum >> 32 != 0) out.value |= Mask{1} << lane;
    }
    result.known = out.known;
    set(register_of(i, 16), result, mask);
    set_predicate(i, 81, out, mask);
    set_predicate(i, 84, {0, out.known}, mask);
  }

  void multiply_wide(const Instruction& i, Mask mask) {
    const bool is_signed = i.bit(73);
    const Lanes x = a(i), y = negated(b(i), i.bit(63) && i.form() == 1), low = c(i),
                upper = c_high(i);
    Lanes result, result_high;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const std::uint64_t product =
          is_signed
              ? static_cast<std::uint64_t>(std::int64_t{static_cast<std::int32_t>(x.value[lane])} *
                                           static_cast<std::int32_t>(y.value[lane]))
              : std::uint64_t{x.value[lane]} * y.value[lane];
      std::uint64_t addend = std::uint64_t{upper.value[lane]} << 32 | low.value[lane];
      if (i.bit(75)) addend = 0 - addend;
      const std::uint64_t sum = product + addend;
      result.value[lane] = static_cast<std::uint32_t>(sum);
      result_high.value[lane] = static_cast<std::uint32_t>(sum >> 32);
    }
    result.known = result_high.known = x.known & y.known & low.known & upper.known;
    const unsigned to = register_of(i, 16);
    if ((i.operation() & ~uniform) == op_imad_high) {
      set(to, result_high, mask);
      return;
    }
    set(to, result, mask);
    if (!is_zero(to)) set(to + 1, result_high, mask);
  }

  void load_effective_address(const Instruction& i, Mask mask) {
    const unsigned shift = i.field(75, 5);
    const bool upper = i.bit(80), extended = i.bit(74);
    const Lanes x = a(i), y = b(i);
    Lanes z = c(i);
    if (!upper) z = constant(0);
    const Truth carry = extended ? predicate(i, 87) : Truth{0, all_lanes};
    Lanes result;
    Truth out{0, 0};
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      std::uint64_t from = x.value[lane];
      if (upper) {
        const std::uint32_t high_word =
            i.bit(73) ? static_cast<std::uint32_t>(static_cast<std::int32_t>(x.value[lane]) >> 31)
                      : z.value[lane];
        from |= std::uint64_t{high_word} << 32;
      }
      if (i.bit(72)) from = 0 - from;
      const auto part = static_cast<std::uint32_t>(upper ? (from << shift) >> 32 : from << shift);
      const std::uint64_t sum = std::uint64_t{part} + y.value[lane] + (carry.value >> lane & 1);
      result.value[lane] = static_cast<std::uint32_t>(sum);
      if (sum >> 32 != 0) out.value |= Mask{1} << lane;
    }
    result.known = x.known & y.known & carry.known & (upper && !i.bit(73) ? z.known : all_lanes);
    out.known = result.known;
    set(register_of(i, 16), result, mask);
    set_predicate(i, 81, out, mask);
  }

  void logic(std::size_t at, const Instruction& i, Mask mask) {
    const unsigned table = i.field(72, 8);
    const Lanes x = a(i), y = b(i), z = c(i);
    Lanes result = each(x, y, z, [&](std::uint32_t p, std::uint32_t q, std::uint32_t r) {
      std::uint32_t bits = 0;
      for (unsigned entry = 0; entry < 8; ++entry) {
        if ((table >> entry & 1) == 0) continue;
        bits |=
            ((entry & 4) != 0 ? p : ~p) & ((entry & 2) != 0 ? q : ~q) & ((entry & 1) != 0 ? r : ~r);
      }
      return bits;
    });
    set(register_of(i, 16), result, mask);
    if (i.field(81, 3) == 7) return;
    Truth truth{0, result.known};
    Comparison& last = comparison(at);
    last.kind = Comparison::Kind::exact;
    last.known = result.known & mask;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      last.difference[lane] = result.value[lane];
      if (result.value[lane] != 0) truth.value |= Mask{1} << lane;
    }
    set_predicate(i, 81, combined(truth, predicate(i, 87), 1), mask);
  }

  void logic_of_predicates(const Instruction& i, Mask mask) {
    const std::array<Truth, 3> in{predicate(i, 87), predicate(i, 77), predicate(i, 68)};
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
    set_predicate(i, 81, truth, mask);
    forget_predicate(i, 84, mask);
  }
  void forget_predicate(const Instruction& i, unsigned at, Mask mask) {
    set_predicate(i, at, {0, 0}, mask);
  }

  void shift(const Instruction& i, Mask mask) {
    const unsigned type = i.field(73, 2);  // I64, U64, S32, U32
    const bool right = i.bit(76), upper = i.bit(80), wraps = i.bit(75);
    const bool is_signed = type == 0 || type == 2;
    const unsigned bits = type < 2 ? 64 : 32;
    const Lanes low = a(i), by = b(i), high_word = c(i);
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
    set(register_of(i, 16), result, mask);
  }

  void permute(const Instruction& i, Mask mask) {
    const Lanes x = a(i), selector = b(i), z = c(i);
    Lanes result = each(x, selector, z, [&](std::uint32_t p, std::uint32_t s, std::uint32_t q) {
      const std::uint64_t bytes = std::uint64_t{q} << 32 | p;
      std::uint32_t out = 0;
      for (unsigned n = 0; n < 4; ++n) {
        const unsigned pick = s >> (4 * n) & 0xf;
        auto byte = static_cast<std::uint32_t>(bytes >> (8 * (pick & 7)) & 0xff);
        if ((pick & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;
        out |= byte << (8 * n);
      }
      return out;
    });
    if (i.field(72, 3) != 0) result.known = 0;
    set(register_of(i, 16), result, mask);
  }

  [[nodiscard]] Lanes special_register(unsigned number) const {
    Lanes result;
    result.known = all_lanes;
    const unsigned threads = walk_.launch.block.x * walk_.launch.block.y * walk_.launch.block.z;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      std::uint32_t value = 0;
      switch (number) {
        case 0x00:
          value = static_cast<std::uint32_t>(lane);
          break;
        case 0x20:  // all three of the thread's indices
          value = thread_[lane].x | thread_[lane].y << 16 | thread_[lane].z << 26;
          break;
        case 0x21:
          value = thread_[lane].x;
          break;
        case 0x22:
          value = thread_[lane].y;
          break;
        case 0x23:
          value = thread_[lane].z;
          break;
        case 0x25:
          value = block_.x;
          break;
        case 0x26:
          value = block_.y;
          break;
        case 0x27:
          value = block_.z;
          break;
        case 0x29:
          value = threads;
          break;
        case 0x38:
          value = 1U << lane;
          break;
        case 0x39:
          value = (1U << lane) - 1;
          break;
        case 0x88:  // of a block in its cluster: blocks are taken to be alike
        case 0xff:
          break;
        default:
          result.known = 0;
          break;
      }
      result.value[lane] = value;
    }
    return result;
  }

  void load_constant(const Instruction& i, Mask mask) {
    const unsigned size = i.field(73, 3);
    const unsigned words = size == 5 ? 2 : size == 6 ? 4 : 1;
    const unsigned to = register_of(i, 16);
    // Where the offset is a register's, threads may read anywhere.
    const bool indexed = i.operation() == op_ldc && i.field(24, 8) != 255;
    for (unsigned w = 0; w < words; ++w) {
      Lanes value = indexed ? Lanes{} : bank(i, 4 * w);
      if (size < 4) {
        for (std::uint32_t& v : value.value) v &= size < 2 ? 0xffU : 0xffffU;
      }
      if (!is_zero(to)) set(to + w, value, mask);
    }
  }

  void exchange(const Instruction& i, Mask mask) {
    const Lanes x = a(i);
    const unsigned mode = i.field(58, 2);
    Lanes by = i.form() == 7 || i.form() == 4 ? constant(i.field(53, 5)) : get(i.field(32, 8));
    Lanes result;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      std::size_t from = lane;
      const std::uint32_t n = by.value[lane] & 31;
      switch (mode) {
        case 0:
          from = n;
          break;
        case 1:
          from = lane >= n ? lane - n : lane;
          break;
        case 2:
          from = lane + n < lanes ? lane + n : lane;
          break;
        default:
          from = lane ^ n;
          break;
      }
      result.value[lane] = x.value[from];
      if ((by.known >> lane & 1) != 0 && (x.known >> from & 1) != 0)
        result.known |= Mask{1} << lane;
    }
    set(register_of(i, 16), result, mask);
    forget_predicate(i, 81, mask);
  }

  [[nodiscard]] Lanes least_or_greatest(const Instruction& i, const Lanes& x, const Lanes& y,
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
    return result;
  }

  /// Functions of the special units that index arithmetic needs: divisions go by reciprocals.
  [[nodiscard]] static Lanes reciprocal_and_others(const Instruction& i, const Lanes& x) {
    const unsigned function = i.field(74, 4);
    Lanes result = x;
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
        case 8:
          v = as_bits(std::sqrt(f));
          break;
        default:
          result.known = 0;
          break;
      }
    }
    return result;
  }

  /// Integer to float and back, with the rounding that division by reciprocals asks for.
  [[nodiscard]] static Lanes converted(const Instruction& i, const Lanes& x, bool to_float) {
    Lanes result = x;
    const unsigned rounding = i.field(78, 2);  // nearest, down, up, to zero
    for (std::uint32_t& v : result.value) {
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
        if (is_signed) {
          v = static_cast<std::uint32_t>(
              static_cast<std::int32_t>(std::clamp(f, -2147483648.0, 2147483647.0)));
        } else {
          v = static_cast<std::uint32_t>(std::clamp(f, 0.0, 4294967295.0));
        }
      }
    }
    return result;
  }

  /// FLOP of a warp's part of a product on the tensor cores.
  void multiply_matrices(const Instruction& i) {
    constexpr double rows_and_columns = 2.0 * 16 * 8;
    switch (i.operation()) {
      case op_hmma: {
        const bool tf32 = i.bit(83);
        const double k = (i.bit(75) ? 16 : 8) / (tf32 ? 2.0 : 1.0);
        count(tf32 ? Counts::tf32_flops : Counts::half_flops, rows_and_columns * k);
        return;
      }
      case op_imma:
        count(Counts::eight_flops, rows_and_columns * 32);
        return;
      case op_dmma:
        count(Counts::fp64_flops, 2.0 * 8 * 8 * 4);
        return;
      default: {
        // A warp group's: 64 rows, of which each warp does 16.
        const double n = 8.0 * (i.field(53, 5) + 1);
        const bool half = i.operation() == op_hgmma;
        count(half ? Counts::half_flops : Counts::eight_flops, 2.0 * 16 * n * (half ? 16 : 32));
        return;
      }
    }
  }

  double perform(std::size_t at, const Instruction& i, unsigned operation, Mask mask) {
    const unsigned to = register_of(i, 16);
    // Operations on uniform registers do what those on registers do, where it has the same number.
    const bool other = operation == op_uldc || operation == op_r2ur || operation == op_uiadd3_wide;
    switch (operation < 0x100 && !other ? operation & ~uniform : operation) {
      case op_mov:
        count(Counts::alu, 0.5);  // either of two units does it
        set(to, b(i), mask);
        return 0;
      case op_cs2r: {
        const bool zero = i.field(72, 8) == 0xff;
        const Lanes value = zero ? constant(0) : Lanes{};
        count(Counts::alu);
        set(to, value, mask);
        if (i.bit(80) && !is_zero(to)) set(to + 1, value, mask);
        return 0;
      }
      case op_sel:
      case op_fsel: {
        const Truth which = predicate(i, 87);
        const Lanes x = a(i), y = b(i);
        Lanes result;
        for (std::size_t lane = 0; lane < lanes; ++lane)
          result.value[lane] = (which.value >> lane & 1) != 0 ? x.value[lane] : y.value[lane];
        result.known = which.known & ((which.value & x.known) | (~which.value & y.known));
        count(Counts::alu);
        set(to, result, mask);
        return 0;
      }
      case op_fmnmx: {
        const Truth least = predicate(i, 87);
        const Lanes x = float_modified(a(i), i.bit(72), i.bit(73)), y = b(i);
        Lanes result;
        for (std::size_t lane = 0; lane < lanes; ++lane) {
          const float p = as_float(x.value[lane]), q = as_float(y.value[lane]);
          result.value[lane] =
              as_bits((least.value >> lane & 1) != 0 ? std::fmin(p, q) : std::fmax(p, q));
        }
        result.known = x.known & y.known & least.known;
        count(Counts::alu);
        set(to, result, mask);
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
        set(to, each(a(i), negated(b(i), i.bit(63) && i.form() != 4), std::plus<>{}), mask);
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
        set(to, result, mask);
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
        set(to, least_or_greatest(i, each(a(i), b(i), std::plus<>{}), c(i), i.bit(72)), mask);
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
                   if (bits == 0 || bits >= 32) return x;
                   const std::uint32_t kept = x & ((1U << bits) - 1);
                   return is_signed && (kept >> (bits - 1) & 1) != 0 ? kept | ~((1U << bits) - 1)
                                                                     : kept;
                 }),
            mask);
        return 0;
      }
      case op_imad: {
        count(Counts::fma, 2);
        const Lanes x = a(i), y = negated(b(i), i.bit(63) && i.form() == 1),
                    z = negated(c(i), i.bit(75) && !i.bit(74));
        const Truth carry = i.bit(74) ? predicate(i, 87) : Truth{0, all_lanes};
        Lanes result;
        result.known = x.known & y.known & z.known & carry.known;
        for (std::size_t lane = 0; lane < lanes; ++lane) {
          const std::uint32_t addend = i.bit(74) && i.bit(75) ? ~z.value[lane] : z.value[lane];
          result.value[lane] = x.value[lane] * y.value[lane] + addend + (carry.value >> lane & 1);
        }
        set(to, result, mask);
        return 0;
      }
      case op_imad_wide:
      case op_imad_high:
        count(Counts::fma, 4);
        multiply_wide(i, mask);
        return 0;
      case op_fmul:
        count(Counts::fma);
        set(to,
            each(float_modified(a(i), i.bit(72), i.bit(73)),
                 float_modified(b(i), i.bit(63) && i.form() != 4, i.bit(62) && i.form() != 4),
                 [](std::uint32_t x, std::uint32_t y) {
                   return as_bits(as_float(x) * as_float(y));
                 }),
            mask);
        return 0;
      case op_fadd: {
        count(Counts::fma);
        const bool immediate = i.form() == 2 || i.form() == 4;
        set(to,
            each(float_modified(a(i), i.bit(72), i.bit(73)),
                 float_modified(b_or_c(i), !immediate && i.bit(63), !immediate && i.bit(62)),
                 [](std::uint32_t x, std::uint32_t y) {
                   return as_bits(as_float(x) + as_float(y));
                 }),
            mask);
        return 0;
      }
      case op_ffma:
        count(Counts::fma);
        set(to,
            each(float_modified(a(i), i.bit(72), false),
                 float_modified(b(i), i.bit(63) && i.form() == 1, false),
                 float_modified(c(i), i.bit(75), false),
                 [](std::uint32_t x, std::uint32_t y, std::uint32_t z) {
                   return as_bits(std::fma(as_float(x), as_float(y), as_float(z)));
                 }),
            mask);
        return 0;
      case op_hadd2:
      case op_hfma2:
      case op_hmul2:
        count(Counts::fma);
        forget(to, 1, mask);
        return 0;
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
      case op_dfma:
        count(Counts::fp64);
        forget(to, 2, mask);
        return special_latency;
      case op_dsetp:
        count(Counts::fp64);
        forget_predicate(i, 81, mask);
        forget_predicate(i, 84, mask);
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
        set(to, converted(i, b(i), false), mask);
        return special_latency;
      case op_mufu:
        count(Counts::special);
        set(to,
            reciprocal_and_others(
                i, float_modified(b(i), i.bit(63) && i.form() != 4, i.bit(62) && i.form() != 4)),
            mask);
        return special_latency;
      case op_popc: {
        Lanes result = b(i);
        for (std::uint32_t& v : result.value) v = static_cast<std::uint32_t>(std::popcount(v));
        count(Counts::special);
        set(to, result, mask);
        return special_latency;
      }
      case op_flo: {
        Lanes result = b(i);
        const bool from_the_left = i.bit(74);
        for (std::uint32_t& v : result.value) {
          const auto zeros = static_cast<std::uint32_t>(std::countl_zero(v));
          v = v == 0 ? ~0U : from_the_left ? zeros : 31 - zeros;
        }
        if (i.bit(73)) result.known = 0;
        count(Counts::special);
        set(to, result, mask);
        return special_latency;
      }
      case op_fchk:
        // Whether a division needs the slow way: it does not.
        count(Counts::special);
        set_predicate(i, 81, {0, all_lanes}, mask);
        return special_latency;
      case op_f2f:
      case op_frnd:
      case op_brev:
      case op_f2f_double:
      case op_f2i_double:
      case op_i2f_double:
        count(Counts::special);
        forget(to, 2, mask);
        return special_latency;
      case op_s2r:
        set(to, special_register(i.field(72, 8)), mask);
        return special_latency;
      case op_s2ur:
        set(256 + i.field(16, 6), special_register(i.field(72, 8)), mask);
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
        if (operation == op_ldl) forget(to, (width(i) + 3) / 4, mask);
        return shared_latency;
      case op_lds:
      case op_sts:
      case op_atoms:
      case op_atoms_cas:
      case op_ldsm:
      case op_stsm:
        return share(i, operation, mask);
      case op_bar:
        counts_.clock += barrier_cycles;
        return 0;
      case op_ldgdepbar:
        return std::max(0.0, copies_ready_ - counts_.clock) + 1;
      case op_syncs:
        forget(to, 1, mask);
        set_predicate(i, 81, {all_lanes, all_lanes}, mask);  // what is waited for has come
        return shared_latency;
      default:
        break;
    }
    if (is_access(operation)) return access(at, i, operation, mask);
    if (operation == op_uldc) {
      load_constant(i, mask);
      return 0;
    }
    if (operation == op_r2ur) {
      Lanes value = a(i);
      const auto first = static_cast<std::size_t>(std::countr_zero(mask));
      const bool known = (value.known >> first & 1) != 0;
      value.value.fill(value.value[first]);
      value.known = known ? all_lanes : 0;
      set(256 + i.field(16, 6), value, mask);
      return special_latency;
    }
    count(Counts::alu);
    if (operation == op_uiadd3_wide) forget(to, 2, mask);
    // Anything else: a result that is not known. What controls the flow or orders memory has none.
    const bool textures = operation >= 0x160 && operation < 0x180;
    if (operation < 0x100 || textures) forget(to, textures ? 4 : 1, mask);
    return textures ? memory_latency : 0;
  }

  // ------------------------------------------------------------ memory

  double share(const Instruction& i, unsigned operation, Mask mask) {
    const bool matrices = operation == op_ldsm || operation == op_stsm;
    const std::uint32_t bytes = matrices ? 4U << i.field(72, 2) : width(i);
    const bool loads = operation == op_lds || operation == op_ldsm;
    // Passes: as many as the busiest bank has different words.
    double passes = 1;
    const Lanes address = get(i.field(24, 8));
    if (matrices) {
      passes = bytes / 4.0;
    } else {
      std::vector<std::uint32_t> words;
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        if ((mask >> lane & 1) == 0 || (address.known >> lane & 1) == 0) continue;
        for (std::uint32_t w = 0; w < std::max(1U, bytes / 4); ++w)
          words.push_back(address.value[lane] / 4 + w);
      }
      std::sort(words.begin(), words.end());
      words.erase(std::unique(words.begin(), words.end()), words.end());
      std::array<int, 32> in_bank{};
      for (const std::uint32_t word : words)
        passes = std::max<double>(passes, ++in_bank[word % 32]);
      // Of threads at addresses that are not known: as if they were one after the other.
      const double elsewhere = std::popcount(mask & ~address.known);
      passes = std::max(passes, elsewhere * bytes / 128.0);
    }
    if (operation == op_atoms || operation == op_atoms_cas) {
      // Random places: with 32 threads at 32 banks the busiest has 3.5 in the mean.
      passes = std::max(passes, address.known == 0 ? 3.5 : 1.0) * 2;
      forget(i.field(16, 8), (bytes + 3) / 4, mask);
    }
    count(Counts::lsu, passes);
    if (loads) forget(i.field(16, 8), (bytes + 3) / 4, mask);
    return shared_latency + passes;
  }

  double access(std::size_t at, const Instruction& i, unsigned operation, Mask mask) {
    const std::uint32_t bytes = width(i);
    const bool stores = operation == op_stg || operation == op_st;
    const bool loads = operation == op_ldg || operation == op_ld || operation == op_ldgsts;
    const bool atomic = !stores && !loads;
    const auto number = static_cast<std::size_t>(program_.number[at]);
    const unsigned base = i.field(24, 8);
    const Lanes low = get(base), upper = high(base);
    const bool is_wide = i.bit(72);
    const auto offset =
        static_cast<std::int64_t>(static_cast<std::int32_t>(i.field(40, 24) << 8) >> 8);
    Extent& extent = walk_.extents[number];
    extent.written = extent.written || !loads;
    std::array<std::uint64_t, lanes> sectors{};
    std::size_t count_of_sectors = 0;
    double scattered = 0;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      if ((mask >> lane & 1) == 0) continue;
      const bool known =
          (low.known >> lane & 1) != 0 && (!is_wide || (upper.known >> lane & 1) != 0);
      if (!known) {
        extent.unknown = true;
        scattered += std::max(1.0, bytes / 32.0);
        continue;
      }
      const std::uint64_t address = (is_wide ? std::uint64_t{upper.value[lane]} << 32 : 0) +
                                    low.value[lane] +
                                    static_cast<std::uint64_t>(operation == op_ldgsts ? 0 : offset);
      extent.first = std::min(extent.first, address);
      extent.last = std::max(extent.last, address + bytes);
      sectors[count_of_sectors++] = address / sector_bytes;
    }
    std::sort(sectors.begin(), sectors.begin() + static_cast<std::ptrdiff_t>(count_of_sectors));
    // Those that are not written whole.
    double partial = scattered;
    for (std::size_t s = 0, next = 0; s < count_of_sectors; s = next) {
      while (next < count_of_sectors && sectors[next] == sectors[s]) ++next;
      if (static_cast<double>((next - s) * bytes) < sector_bytes) partial += 1;
    }
    count_of_sectors = static_cast<std::size_t>(
        std::unique(sectors.begin(),
                    sectors.begin() + static_cast<std::ptrdiff_t>(count_of_sectors)) -
        sectors.begin());
    const double threads = std::popcount(mask);
    // L1 takes a request's lines one after the other.
    double lines = scattered;
    for (std::size_t s = 0; s < count_of_sectors; ++s) {
      if (s == 0 || sectors[s] / 4 != sectors[s - 1] / 4) lines += 1;
    }
    count(Counts::lsu, std::max(lines, threads * bytes / 128.0));
    std::vector<std::uint64_t>& first = first_sectors_[number];
    if (first.empty())
      first.assign(sectors.begin(),
                   sectors.begin() + static_cast<std::ptrdiff_t>(count_of_sectors));
    // The next elements after an address that is not known lie beside it.
    const std::uint64_t beside =
        std::uint64_t{1} << 63 | std::uint64_t{base} << 48 | std::uint64_t{written_[base]} << 24 |
        (static_cast<std::uint64_t>(offset / std::int64_t{sector_bytes}) & 0xffffff);
    double missed = scattered > 0 && loads && hit(beside) ? 0 : scattered;
    for (std::size_t s = 0; s < count_of_sectors; ++s) missed += loads && hit(sectors[s]) ? 0 : 1;
    counts_.sectors[number] += missed;
    if (stores) count(Counts::partial_sectors, partial);
    if (atomic) count(Counts::atomics, threads);
    if (operation == op_ldg || operation == op_ld || atomic)
      forget(i.field(16, 8), (bytes + 3) / 4, mask);
    const double latency = missed > 0 ? memory_latency : shared_latency + 4;
    if (operation == op_ldgsts) copies_ready_ = std::max(copies_ready_, counts_.clock + latency);
    return stores ? special_latency : latency;
  }

  /// The warp's share of the L1 cache: 4 KiB where 64 warps share 256.
  bool hit(std::uint64_t sector) {
    constexpr std::size_t kept = 128;
    const auto found = std::find(cached_.begin(), cached_.end(), sector);
    const bool here = found != cached_.end();
    if (here) {
      std::rotate(cached_.begin(), found, found + 1);
    } else {
      cached_.insert(cached_.begin(), sector);
      if (cached_.size() > kept) cached_.pop_back();
    }
    return here;
  }

  Walk& walk_;
  const Program& program_;
  KernelQuery::Dim3 block_;
  std::array<KernelQuery::Dim3, lanes> thread_{};
  Mask alive_ = 0;
  std::array<std::size_t, lanes> pc_{};
  std::array<std::vector<std::size_t>, lanes> returns_{};
  Registers registers_{};
  Counts counts_{};
  std::array<double, 6> scoreboard_{};
  double copies_ready_ = 0;
  std::vector<std::uint64_t> cached_{};
  std::array<std::uint32_t, 256 + 64> written_{};  ///< how often each register was
  std::vector<std::vector<std::uint64_t>> first_sectors_{};
  std::vector<int> visits_{};
  std::vector<Program::Loop> guessed_loops_{};
  std::map<std::size_t, std::vector<Passage>> passages_{};
};

/// Takes from the sectors of each load those that warps of a block have in common, all but once.
void share_reads(const Walk& walk, const std::vector<std::vector<std::uint64_t>>& first,
                 const std::vector<std::vector<std::uint64_t>>& second, unsigned warps,
                 std::vector<double>& sectors) {
  if (first.empty()) return;
  std::vector<std::uint64_t> read;
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (!walk.extents[i].written) read.insert(read.end(), first[i].begin(), first[i].end());
  }
  std::sort(read.begin(), read.end());
  for (std::size_t i = 0; i < second.size(); ++i) {
    if (second[i].empty() || walk.extents[i].written) continue;
    const auto shared = std::count_if(
        second[i].begin(), second[i].end(),
        [&](std::uint64_t sector) { return std::binary_search(read.begin(), read.end(), sector); });
    const double common = static_cast<double>(shared) / static_cast<double>(second[i].size());
    sectors[i] *= 1.0 - common + common / warps;
  }
}

/// Device memory that a launch moves one way: what all its accesses reach, but no more than they
/// ask for.
double moved(const Walk& walk, const std::vector<double>& sectors, bool written) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> reached;
  double asked = 0, scattered = 0;
  for (std::size_t i = 0; i < sectors.size(); ++i) {
    const Extent& extent = walk.extents[i];
    if (extent.written != written || sectors[i] == 0) continue;
    if (extent.unknown) {
      scattered += sectors[i] * sector_bytes;
      continue;
    }
    asked += sectors[i] * sector_bytes;
    reached.emplace_back(extent.first, extent.last);
  }
  std::sort(reached.begin(), reached.end());
  double bytes = 0;
  std::uint64_t end = 0;
  for (const auto& [from, to] : reached) {
    bytes += static_cast<double>(to > std::max(from, end) ? to - std::max(from, end) : 0);
    end = std::max(end, to);
  }
  return std::min(bytes, asked) + scattered;
}

/// What device memory moves on top for threads that go anywhere: its bursts are of two sectors,
/// and what is written in part is read before.
double random_bytes(const Walk& walk, const std::vector<double>& sectors) {
  double bytes = 0;
  for (std::size_t i = 0; i < sectors.size(); ++i) {
    if (walk.extents[i].unknown)
      bytes += sectors[i] * sector_bytes * (walk.extents[i].written ? 3.0 : 1.0);
  }
  return bytes;
}

}  // namespace

std::optional<CodeWork> walk(const CodeLaunch& launch) {
  const Program program = parse(launch.code, launch.architecture);
  if (program.code.empty()) return std::nullopt;
  Walk walk{launch, program, std::vector<Extent>(static_cast<std::size_t>(program.accesses)), 0};
  const double threads = launch.block.count();
  const auto warps = static_cast<unsigned>(std::ceil(threads / lanes));
  const double blocks = launch.grid.count();

  struct Sample {
    double block;
    unsigned warp;
  };
  std::vector<Sample> samples;
  // All of them, or the first and the last, which see the operands' ends, and some in between.
  constexpr std::size_t most_samples = 40, least_samples = 10;
  const bool whole = blocks * warps <= static_cast<double>(most_samples);
  if (whole) {
    for (double block = 0; block < blocks; ++block)
      for (unsigned warp = 0; warp < warps; ++warp) samples.push_back({block, warp});
  } else {
    samples = {{0, 0}, {blocks - 1, warps - 1}};
    constexpr double golden = 0.6180339887498949, silver = 0.4142135623730950;
    for (double k = 1; samples.size() < most_samples; ++k) {
      const auto part = [&](double irrational, double of) {
        return std::floor((k * irrational - std::floor(k * irrational)) * of);
      };
      samples.push_back({part(golden, blocks), static_cast<unsigned>(part(silver, warps))});
    }
  }

  Counts total;
  total.sectors.resize(walk.extents.size());
  std::vector<std::vector<std::uint64_t>> first, second;
  double all = 0;
  std::size_t walked = 0;
  for (const Sample& sample : samples) {
    // Long ways are walked by fewer.
    constexpr std::int64_t enough_steps = 20'000;
    if (!whole && walked >= least_samples && walk.steps > enough_steps) break;
    const auto block = static_cast<std::uint64_t>(sample.block);
    const KernelQuery::Dim3 at{static_cast<std::uint32_t>(block % launch.grid.x),
                               static_cast<std::uint32_t>(block / launch.grid.x % launch.grid.y),
                               static_cast<std::uint32_t>(block / launch.grid.x / launch.grid.y)};
    Warp warp{walk, at, sample.warp * lanes};
    if (!warp.run()) return std::nullopt;
    const bool border = !whole && ++walked <= 2;
    if (border) continue;  // for the operands' ends alone
    const Counts& counts = warp.counts();
    total.add(counts);
    all += 1;
    // What a neighbour reads too comes from the L1 cache.
    if (first.empty() && warps > 1) {
      Warp neighbour{walk, at,
                     (sample.warp + 1 < warps ? sample.warp + 1 : sample.warp - 1) * lanes};
      if (!neighbour.run()) return std::nullopt;
      first = warp.first_sectors();
      second = neighbour.first_sectors();
    }
  }
  const double weight = blocks * warps / all;
  const auto sum = [&](Counts::Unit unit) { return weight * total.sum[unit]; };
  CodeWork work{
      .instructions = sum(Counts::instructions),
      .alu = sum(Counts::alu),
      .fma = sum(Counts::fma),
      .fp64 = sum(Counts::fp64),
      .special = sum(Counts::special),
      .l1_passes = sum(Counts::lsu),
      .half_flops = sum(Counts::half_flops),
      .tf32_flops = sum(Counts::tf32_flops),
      .eight_flops = sum(Counts::eight_flops),
      .fp64_flops = sum(Counts::fp64_flops),
      .atomics = sum(Counts::atomics),
      .partial_sectors = sum(Counts::partial_sectors),
      .warp_cycles = total.clock / all,
      .guessed = total.sum[Counts::guessed] / std::max(1.0, total.sum[Counts::instructions])};
  std::vector<double> sectors = total.sectors;
  for (double& count : sectors) count *= weight;
  share_reads(walk, first, second, warps, sectors);
  for (std::size_t i = 0; i < sectors.size(); ++i) work.sectors += sectors[i];
  work.read_bytes = moved(walk, sectors, false);
  work.written_bytes = moved(walk, sectors, true);
  work.random_bytes = random_bytes(walk, sectors);
  return work;
}

}  // namespace phantora::rank
