#pragma once

#include "rank/code/code_walk.hpp"
#include "rank/code/launch_memory.hpp"
#include "rank/code/machine_code.hpp"
#include "rank/code/store_origins.hpp"
#include "rank/code/tensor_map.hpp"
#include "rank/code/unknown.hpp"
#include "rank/code/warp_timing.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

/// A warp that goes through a kernel's machine code.
namespace phantora::rank::code {

/// What tensor cores make in a cycle of an SM of Hopper, by operand type (NVIDIA H100 Tensor Core
/// GPU Architecture, 2022), and how much of that is to be had by mma.sync and by wgmma
/// (code_seconds() of lib/kernels/code_roofline.cpp).
inline constexpr double half_flops_per_cycle = 4096, tf32_flops_per_cycle = 2048,
                        eight_bit_flops_per_cycle = 8192, fp64_flops_per_cycle = 256;
inline constexpr double mma_sync_attained = 0.6, wgmma_attained = 0.74;

/// How often loops run that end by data alone, per entry: any figure is a guess; sparse rows,
/// probes of hash tables and searches have some.
inline constexpr int unknown_trips = 8;
/// Of those that may end otherwise too.
inline constexpr int most_unknown_trips = 64;
/// Of a warp's way, so that a walk ends: a quarter of a second.
inline constexpr std::int64_t most_steps = 1'000'000;

/// The upper half of generic addresses of shared memory, where no other memory is.
inline constexpr std::uint32_t shared_window = 1;

/// A register of the 32 threads; bits of `known` say of which threads it is known. Of the others it
/// is an unknown part and `value`: threads whose `unknown` is equal have the same unknown part, as
/// those that follow one pointer have.
struct Lanes {
  std::array<std::uint32_t, lanes> value{};
  Mask known = 0;
  std::array<Name, lanes> unknown{};

  [[nodiscard]] Name name(std::size_t lane) const {
    return (known >> lane & 1) != 0 ? no_name : unknown[lane];
  }
  /// The same for equal values.
  [[nodiscard]] std::uint64_t identity(std::size_t lane) const {
    return mixed(std::uint64_t{name(lane)} << 32 | value[lane]);
  }
};
/// A predicate of the 32 threads. Those that are `alike` have the same one, though it is not known:
/// it hangs on what `name` stands for.
struct Truth {
  Mask value = 0, known = 0, alike = 0;
  Name name = no_name;
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
    mma_sync_flops,
    atomics,
    partial_sectors,
    partial_lines,
    lone_sectors,
    hits,
    local_bytes,
    guessed,
    units
  };
  std::array<double, units> sum{};
  std::vector<double> sectors{};  ///< by number of the access in the code
  std::vector<double> random{};   ///< bytes that device memory moves for nothing, by the same
  std::uint64_t way = 0;          ///< sum over the instructions executed: equal for equal ways

  /// But for the way, which is each warp's own.
  void add(const Counts& other) {
    for (std::size_t u = 0; u < sum.size(); ++u) sum[u] += other.sum[u];
    for (std::size_t i = 0; i < sectors.size(); ++i) sectors[i] += other.sectors[i];
    for (std::size_t i = 0; i < random.size(); ++i) random[i] += other.random[i];
  }
  /// Adds `times` what came since `before`, but for the way.
  void repeat(const Counts& before, double times) {
    for (std::size_t u = 0; u < sum.size(); ++u) sum[u] += times * (sum[u] - before.sum[u]);
    for (std::size_t i = 0; i < sectors.size(); ++i) {
      sectors[i] += times * (sectors[i] - before.sectors[i]);
      random[i] += times * (random[i] - before.random[i]);
    }
  }
};

/// What answers loads: memory, but for what L1 has; the L2 cache; memory, and the L2 cache for
/// stacks.
enum Assumption : std::size_t { by_memory, by_l2, stacks_by_l2, assumptions };

/// What a warp's threads hold. Of 80 KiB of registers kernels use a part: there are those up to the
/// last that was written. Nothing hangs on what the others hold, and words of the stack before they
/// are written, which are taken to be zero: compilers keep predicates as single bits of registers
/// to which nothing else is written.
class Registers {
 public:
  Registers() {
    // What operands refer to stays where it is when others are written.
    written_[0].reserve(first_uniform);
    written_[1].reserve(all_registers - first_uniform);
  }
  [[nodiscard]] const Lanes& operator[](unsigned number) const {
    const std::vector<Lanes>& of = written_[number / first_uniform];
    const std::size_t at = number % first_uniform;
    return at < of.size() ? of[at] : zero_;
  }
  /// One that is not zero always, to be written.
  [[nodiscard]] Lanes& changed(unsigned number) {
    std::vector<Lanes>& of = written_[number / first_uniform];
    const std::size_t at = number % first_uniform;
    if (at >= of.size()) of.resize(at + 1, zero_);
    return of[at];
  }
  /// Words of local memory, from the stack's end down.
  [[nodiscard]] const Lanes& word(std::size_t at) const {
    return at < stack_.size() ? stack_[at] : *unwritten_word_;
  }
  [[nodiscard]] Lanes& changed_word(std::size_t at) {
    if (at >= stack_.size()) stack_.resize(at + 1, *unwritten_word_);
    return stack_[at];
  }
  [[nodiscard]] std::size_t words() const { return stack_.size(); }
  /// Something was written anywhere in local memory.
  void lose_words() {
    stack_.clear();
    unwritten_word_ = &unknown_;
  }
  /// f of the number of each one that was written.
  template <class F>
  void each_written(F f) const {
    for (unsigned first : {0U, first_uniform}) {
      for (unsigned n = 0; n < written_[first / first_uniform].size(); ++n) f(first + n);
    }
  }

  std::array<Truth, 16> predicates{};     ///< 7 and 15 are true; uniform ones from 8 on
  std::vector<Comparison> comparisons{};  ///< by number of the comparison in the code

 private:
  static constexpr Lanes unknown_{}, zero_{.known = all_lanes};
  std::array<std::vector<Lanes>, 2> written_{};  ///< general registers, and uniform ones
  std::vector<Lanes> stack_{};
  const Lanes* unwritten_word_ = &zero_;
};

inline float as_float(std::uint32_t bits) { return std::bit_cast<float>(bits); }
inline std::uint32_t as_bits(float value) { return std::bit_cast<std::uint32_t>(value); }

/// Behind one unknown base: first and last offset over all warps.
struct Behind {
  std::uint32_t first = 0, last = 0;
  std::size_t warp = 0;  ///< the last that went there
  bool shared = false;   ///< others did too
};

/// First and last address that an access of the code went to, over all warps.
struct Extent {
  std::uint64_t first = std::numeric_limits<std::uint64_t>::max(), last = 0;
  bool unknown = false;  ///< or some of them came from memory
  bool written = false;
  /// By the name of the unknown base; those of random accesses are too many to be kept.
  std::unordered_map<Name, Behind> behind{};
  [[nodiscard]] bool goes_anywhere() const { return behind.size() >= most_bases; }
  static constexpr std::size_t most_bases = 4096;
  /// Of atomics: sectors, how many requests for sectors there were, and of how many threads.
  std::unordered_set<std::uint64_t> changed{};
  double requests = 0, atomics = 0;
  bool past_l1 = false;  ///< as TMA reads
  double gone_to = 0;    ///< sectors, but for those of trips that were counted through
  int in_vain = 0;       ///< so many threads found nothing known there, one after the other
  /// Whether requests met in few sectors.
  [[nodiscard]] bool hot() const { return requests >= 2 * static_cast<double>(changed.size()); }
};

/// How much of tables that all blocks read each SM's L1 cache keeps: half of what an SM has for L1
/// and shared memory. With that QuACK's RMS norms lose a third of their time, as on an H100
/// (bench/accuracy/README.md).
inline constexpr double kept_of_l1 = 128 * 1024;

/// Of lines that are there, of different threads. With the 0.8 of the passes that code_seconds()
/// takes for attained these are 2.8 in a cycle: 28 to 31 lines in 10.3 to 11.4 cycles of an H100's
/// SM, 20 in 7.1 (sums_of_64 in bench/accuracy/user_kernels/table_kernels.cu).
inline constexpr double lines_of_a_pass = 3.5;

/// A tensor or a variable that an access goes to at unknown places.
struct Table {
  std::uint64_t first = 0;  ///< its address; of variables one where no memory is; 0: nobody knows
  double bytes = std::numeric_limits<double>::infinity();
};

/// Where addresses behind unknown bases are, by the bases' names: no memory is there.
inline constexpr std::uint64_t unknown_base = std::uint64_t{1} << 63;
/// The same of variables of the module.
inline constexpr std::uint64_t variables_base = std::uint64_t{1} << 62;
inline std::uint64_t behind_base(Name base, std::uint32_t offset) {
  return unknown_base | std::uint64_t{base} << 32 | offset;
}

/// Shared memory of one block, byte by byte.
struct SharedBytes {
  std::vector<std::byte> bytes;
  std::vector<std::uint8_t> known;
};

/// What the warps of a launch share.
struct Walk {
  const CodeLaunch& launch;
  const Program& program;
  std::vector<Extent> extents{std::vector<Extent>(static_cast<std::size_t>(program.accesses))};
  std::int64_t steps = 0;
  std::int64_t products = 0;  ///< of them, that add or multiply floating-point numbers
  std::int64_t stores = 0;    ///< of threads to known addresses
  std::int64_t limit = most_steps;
  std::uint64_t names = 0;  ///< given to what nothing else tells apart
  std::size_t warps = 0;    ///< that went on their ways
  /// What is known of device memory; nullptr: nothing is.
  LaunchMemory* memory = nullptr;
  /// Of the block that is executed; nullptr: the way of the warps alone is of interest.
  SharedBytes* shared = nullptr;
  /// Where pointers lie in constant bank 0, as far as it matters what is written through them.
  std::vector<std::size_t> pointers{};
  /// The access with that number, a store, goes to an address that is not known: somewhere behind
  /// the pointers that it comes from, or that lie where they were loaded.
  void store_somewhere(std::size_t number);
  /// Warps of a block that each of the SM's four schedulers has. They are taken to do the same at
  /// the same time, as barriers and shared tiles let them.
  double side_by_side = 1;
  /// Whether warps wait for other GPUs.
  bool meets_others = launch.is_of_peer != nullptr && program.meets_others();
  /// Why what the code does to memory cannot be told.
  Obstacle obstacle = Obstacle::none;

  void stop_unless(bool can, Obstacle because = Obstacle::data) {
    if (!can && obstacle == Obstacle::none) obstacle = because;
  }
  [[nodiscard]] bool lost() const { return obstacle != Obstacle::none; }

  /// Of an access' address; nullptr where nobody can tell of any.
  const Origin* origin(std::size_t access);
  /// Whether an access goes to shared memory or to the thread's own stack, by an address that might
  /// be one of device memory, too: nothing that leads there is in it.
  bool stays_on_chip(std::size_t access, unsigned operation);
  /// Of an access that goes to unknown places, of a walk whose `pointers` nobody set.
  const Table& table(std::size_t access);

  void follow_table(std::size_t load);
  /// Bytes of the tensor behind the first of a set of pointers, if it is one that the code also
  /// reads there, so that somebody wrote the tensor before: gradients that are added up, in a block
  /// of an allocation that small integers lie in, too. 0: nobody knows.
  std::uint64_t most_behind(std::uint64_t these);
  /// Where the first of a set of pointers leads, a bit for each.
  [[nodiscard]] std::uint64_t pointer(std::uint64_t these) const {
    const std::size_t at = pointers[static_cast<std::size_t>(std::countr_zero(these))];
    if (launch.looked_at) launch.looked_at->note(at, sizeof(void*));
    return pointer_at(launch.constants, at);
  }
  /// Of the addresses of accesses, looked for when needed; empty where nobody can tell.
  std::optional<std::vector<Origin>> origins{};
  std::vector<std::optional<Table>> tables{};
  bool by_data = false, knew = false;      ///< as CodeWork has them
  std::optional<std::uint64_t> updated{};  ///< a bit for each pointer: read behind it, once asked
  std::uint64_t written_behind = 0;        ///< a bit for each pointer: somewhere behind it
  std::vector<AddressRange> followed{};    ///< of each access: the table that was followed last
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
    for (const std::size_t always : {std::size_t{7}, std::size_t{15}})
      registers_.predicates[always] = {all_lanes, all_lanes};
    if (executes()) return;  // what follows is of interest where nobody knows the way
    registers_.comparisons.resize(static_cast<std::size_t>(program_.comparisons));
    counts_.sectors.resize(static_cast<std::size_t>(program_.accesses));
    counts_.random.resize(counts_.sectors.size());
    first_sectors_.resize(counts_.sectors.size());
    visits_.resize(program_.code.size());
  }

  /// Goes on until all threads have ended, or wait for the block's other warps; false if that takes
  /// too long, or the walk is lost.
  bool run();
  [[nodiscard]] bool ended() const { return alive_ == 0; }

  [[nodiscard]] const Counts& counts() const { return counts_; }
  /// Cycles until its end by each of the assumptions.
  [[nodiscard]] std::array<double, assumptions> clocks() const {
    std::array<double, assumptions> result{};
    for (std::size_t n = 0; n < assumptions; ++n) result[n] = timings_[n].clock();
    return result;
  }
  /// Sectors of each access' first execution, sorted.
  [[nodiscard]] const std::vector<std::vector<std::uint64_t>>& first_sectors() const {
    return first_sectors_;
  }

 private:
  // ------------------------------------------------------------ operands

  [[nodiscard]] static Lanes constant(std::uint32_t value) {
    Lanes result;
    result.value.fill(value);
    result.known = all_lanes;
    return result;
  }
  /// The present instruction's operands that are numbers or constants, not registers.
  struct Rooms {
    Lanes b{}, c{}, c_high{};
  };
  static const Lanes& constant(std::uint32_t value, Lanes& room) {
    room.value.fill(value);
    room.unknown.fill(no_name);
    room.known = all_lanes;
    return room;
  }
  [[nodiscard]] const Lanes& bank(const Instruction& i, Lanes& room, unsigned more = 0) const {
    const unsigned offset = i.field(38, 16) + more;
    std::uint32_t value = 0;
    const bool known = constant_at(i, offset, value);
    constant(value, room);
    if (known) return room;
    room.known = 0;  // the same for the warp
    room.unknown.fill(name_by(static_cast<std::uint64_t>(walk_.steps) << 16 | offset));
    return room;
  }
  /// The word at an offset in the constant bank that the instruction names; false where that is not
  /// known. The last parameter may be shorter than a word.
  bool constant_at(const Instruction& i, std::size_t offset, std::uint32_t& value) const {
    constexpr unsigned parameters = 0, jumps = 2;
    const unsigned number = i.field(54, 5);
    if (i.bit(91) || (number != parameters && number != jumps)) return false;
    const std::span<const std::byte> all = number == jumps
                                               ? std::as_bytes(std::span{walk_.launch.links.jumps})
                                               : walk_.launch.constants;
    if (offset >= all.size()) return false;
    if (number == parameters && walk_.launch.looked_at)
      walk_.launch.looked_at->note(offset, sizeof value);
    std::memcpy(&value, all.data() + offset, std::min(sizeof value, all.size() - offset));
    return true;
  }
  /// The same at an offset that a register adds, thread by thread.
  [[nodiscard]] Lanes bank_at(const Instruction& i, unsigned more) const {
    const Lanes offset = get(i.field(24, 8));
    Lanes result;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const std::size_t at = std::size_t{i.field(38, 16)} + more + offset.value[lane];
      if ((offset.known >> lane & 1) != 0 && constant_at(i, at, result.value[lane]))
        result.known |= Mask{1} << lane;
    }
    return result;
  }
  /// Operands, until a register is written or another instruction's are asked for.
  [[nodiscard]] const Lanes& a(const Instruction& i) const { return get(register_of(i, 24)); }
  [[nodiscard]] const Lanes& b(const Instruction& i) const {
    const int number = b_register(i);
    if (number >= 0) return get(static_cast<unsigned>(number));
    return i.form() == 4 ? constant(i.immediate(), rooms_.b) : bank(i, rooms_.b);
  }
  [[nodiscard]] const Lanes& c(const Instruction& i) const {
    const int number = c_register(i);
    if (number >= 0) return get(static_cast<unsigned>(number));
    return i.form() == 2 ? constant(i.immediate(), rooms_.c) : bank(i, rooms_.c);
  }
  /// Whether the second and the third operand change their signs: a bit of its own has what is at
  /// bit 32, unless that is a number, and the register at bit 64, whichever of the two that is.
  [[nodiscard]] static bool negates_b(const Instruction& i) {
    const bool behind = i.form() == 2 || i.form() == 3 || i.form() == 7;
    return behind ? i.bit(75) : i.form() != 4 && i.bit(63);
  }
  [[nodiscard]] static bool negates_c(const Instruction& i) {
    const bool before = i.form() == 3 || i.form() == 7;
    return before ? i.bit(63) : i.form() != 2 && i.bit(75);
  }
  /// The upper half of a 64-bit third operand.
  [[nodiscard]] const Lanes& c_high(const Instruction& i) const {
    const int number = c_register(i);
    if (number >= 0) return high(static_cast<unsigned>(number));
    return i.form() == 2 ? constant(0, rooms_.c_high) : bank(i, rooms_.c_high, 4);
  }
  /// The second operand, or what is left when it is subtracted from zero.
  [[nodiscard]] const Lanes& b_or_negative(const Instruction& i, bool negates) const {
    if (!negates) return b(i);
    rooms_.b = negated(b(i), true);
    return rooms_.b;
  }
  /// The other operand of an addition of two: the second, or where that is no register, the third.
  [[nodiscard]] const Lanes& b_or_c(const Instruction& i) const {
    return i.form() == 2 || i.form() == 3 || i.form() == 7 ? c(i) : b(i);
  }
  [[nodiscard]] const Lanes& get(unsigned number) const { return registers_[number]; }
  /// The register after `number`, which holds the upper half of 64 bits.
  [[nodiscard]] const Lanes& high(unsigned number) const {
    return is_zero(number) ? get(number) : get(std::min(number + 1, all_registers - 1));
  }
  [[nodiscard]] Truth predicate(const Instruction& i, unsigned at) const {
    Truth truth = registers_.predicates[(is_of_warp(i) ? 8 : 0) + i.field(at, 3)];
    if (i.bit(at + 3)) truth.value = ~truth.value;
    return truth;
  }

  /// That of the warp which an instruction on registers has for an operand.
  [[nodiscard]] Truth predicate_of_warp(const Instruction& i, unsigned at) const {
    Truth truth = registers_.predicates[8 + i.field(at, 3)];
    if (i.bit(at + 3)) truth.value = ~truth.value;
    return truth;
  }

  void set(unsigned number, const Lanes& value, Mask mask) {
    if (is_zero(number)) return;
    if (number >= first_uniform) mask = all_lanes;  // a warp has one
    replace(registers_.changed(number), value, mask);
    name_unknown(number, mask);
  }
  static void replace(Lanes& to, const Lanes& value, Mask mask) {
    if (mask == all_lanes) {
      to = value;
      return;
    }
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      if ((mask >> lane & 1) == 0) continue;
      to.value[lane] = value.value[lane];
      to.unknown[lane] = value.unknown[lane];
    }
    to.known = (to.known & ~mask) | (value.known & mask);
  }
  void forget(unsigned number, unsigned count, Mask mask) {
    for (unsigned n = number; n < number + count; ++n) {
      if (is_zero(n) || n >= all_registers) continue;
      Lanes& to = registers_.changed(n);
      if (n >= first_uniform) mask = all_lanes;
      to.known &= ~mask;
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        if ((mask >> lane & 1) != 0) to.unknown[lane] = no_name;
      }
      name_unknown(n, mask);
    }
  }

  // ------------------------------------------------------------ what is not known

  /// Whether unknown values are told apart: for what accesses cost, not where data are followed.
  [[nodiscard]] bool names() const { return walk_.memory == nullptr; }
  /// Whether a result of operands that are `known` has no unknown part to be named.
  [[nodiscard]] bool is_plain(Mask known) const { return known == all_lanes || !names(); }
  /// A name that nothing else has.
  Name new_name() { return name_by(++walk_.names); }
  /// Gives those of a register's unknown values that have no name one for each thread, or for all
  /// where the warp has one.
  void name_unknown(unsigned number, Mask mask) {
    Lanes& of = registers_.changed(number);
    if (!names() || (mask & ~of.known) == 0) return;
    const Name common = number >= first_uniform ? new_name() : no_name;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      if (((mask & ~of.known) >> lane & 1) == 0 || of.unknown[lane] != no_name) continue;
      of.unknown[lane] = common != no_name ? common : new_name();
      of.value[lane] = 0;
    }
  }
  /// Where the unknown parts of a sum cancel, it is known.
  void name_sum(Lanes& sum, std::size_t lane, Name name, bool known_but_for_names = true) const {
    if (name == no_name && known_but_for_names) sum.known |= Mask{1} << lane;
    // A carry alone: the same for all of a warp, but for those at a border of 4 GiB.
    sum.unknown[lane] = name == no_name ? name_by(0) : name;
  }
  /// Results of equal operands are equal, whatever the operation.
  template <class... Operands>
  [[nodiscard]] Lanes determined(Lanes result, const Operands&... by) const {
    if (!names() || result.known == all_lanes) return result;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      if ((result.known >> lane & 1) != 0) continue;
      // In any order, as reductions over a warp have them.
      result.unknown[lane] = name_by((by.identity(lane) + ...) + (at_ << 8));
      result.value[lane] = 0;
    }
    return result;
  }
  /// The same where they are the same for the whole warp, and new with each execution.
  [[nodiscard]] Lanes of_warp(Lanes result) {
    result.unknown.fill(new_name());
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      if ((result.known >> lane & 1) == 0) result.value[lane] = 0;
    }
    return result;
  }
  /// After an instruction that threads execute or not all together: which, is not known.
  void doubt(unsigned number, Mask mask) {
    if (is_zero(number)) return;
    Lanes& of = registers_.changed(number);
    const Name name = new_name();
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      if (((mask & of.known) >> lane & 1) != 0) of.unknown[lane] = name;
    }
    of.known &= ~mask;
  }
  void set_predicate(const Instruction& i, unsigned at, Truth truth, Mask mask) {
    const bool of_warp = is_of_warp(i);
    const unsigned number = (of_warp ? 8 : 0) + i.field(at, 3);
    if (number % 8 == 7) return;
    if (of_warp) mask = all_lanes;
    Truth& to = registers_.predicates[number];
    to.value = (to.value & ~mask) | (truth.value & mask);
    to.known = (to.known & ~mask) | (truth.known & mask);
    to.alike &= ~mask;
    if ((truth.alike & mask) != 0) to.alike = truth.alike & mask;
    to.name = truth.name;
  }

  /// f of two or three registers, thread by thread.
  template <class F>
  [[nodiscard]] Lanes each(const Lanes& x, const Lanes& y, F f) const {
    Lanes result;
    for (std::size_t lane = 0; lane < lanes; ++lane)
      result.value[lane] = f(x.value[lane], y.value[lane]);
    result.known = x.known & y.known;
    return determined(result, x, y);
  }
  template <class F>
  [[nodiscard]] Lanes each(const Lanes& x, const Lanes& y, const Lanes& z, F f) const {
    Lanes result;
    for (std::size_t lane = 0; lane < lanes; ++lane)
      result.value[lane] = f(x.value[lane], y.value[lane], z.value[lane]);
    result.known = x.known & y.known & z.known;
    return determined(result, x, y, z);
  }
  [[nodiscard]] Lanes sum(const Lanes& x, const Lanes& y) const {
    Lanes result;
    result.known = x.known & y.known;
    for (std::size_t lane = 0; lane < lanes; ++lane)
      result.value[lane] = x.value[lane] + y.value[lane];
    for (std::size_t lane = 0; !is_plain(result.known) && lane < lanes; ++lane)
      name_sum(result, lane, plus(x.name(lane), y.name(lane)));
    return result;
  }
  static Lanes negated(Lanes x, bool negate) {
    if (negate) {
      for (std::uint32_t& v : x.value) v = 0U - v;
      for (Name& name : x.unknown) name = times(name, -1);
    }
    return x;
  }
  [[nodiscard]] static Truth combined(Truth x, Truth y, unsigned operation) {
    Truth result;
    // What is the same for the warp stays so beside known ones, which decide it or do not; an
    // exclusive or may turn it around.
    const auto differs = [](const Truth& t) {
      return (t.value & t.known) != 0 && (~t.value & t.known) != 0;
    };
    if (operation <= 1 || (!differs(x) && !differs(y)))
      result.alike = (x.alike | x.known) & (y.alike | y.known);
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
    result.alike &= ~result.known;
    result.name = plus(x.name, y.name);
    return result;
  }

  // ------------------------------------------------------------ execution

  void count(Counts::Unit unit, double times = 1) { counts_.sum[unit] += times; }

  void execute(std::size_t at, Mask active);
  /// How long what was counted since `before` keeps the pipes busy, for all warps that go side by
  /// side.
  [[nodiscard]] std::array<double, Asked::pipes> busy(
      const std::array<double, Counts::units>& before) const;

  /// Data count, not the way alone.
  [[nodiscard]] bool executes() const { return walk_.shared != nullptr; }
  /// Whether perform() and transfer() know everything that the instruction writes.
  [[nodiscard]] static bool is_written_down(const Instruction& i);
  void wait_for_block(const Instruction& i, Mask mask);
  [[nodiscard]] bool in_guessed_loop(std::size_t at) const {
    return std::any_of(guessed_loops_.begin(), guessed_loops_.end(),
                       [&](const Program::Loop& l) { return l.first <= at && at <= l.last; });
  }

  /// Whether threads leave a loop together by what they find new in each trip: a residual is small
  /// enough, nothing changes any more. Bounds beside such criteria are hardly reached: the loop
  /// runs as often as those that have none. So does a loop that nothing else ends.
  bool is_criterion(std::size_t at, Mask unsure, const Truth& condition);
  /// Which of the threads whose condition only data tell go where a branch leads.
  Mask unknown_takers(std::size_t at, std::int64_t to, Mask unsure, const Truth& condition);

  void transfer(std::size_t at, Mask active, Truth guard);
  /// Of the threads that take a BRX.
  void follow_switch(std::size_t at, Mask mask);

  void advance(std::size_t to, Mask mask) {
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      if ((mask >> lane & 1) != 0) pc_[lane] = to;
    }
  }

  // ------------------------------------------------------------ loops

  struct Passage {
    Registers registers;
    Counts counts;
    std::array<double, assumptions> clocks;
  };

  /// Trips that a comparison leaves until its outcome changes, given its last three differences.
  static double trips_left(const Comparison& c0, const Comparison& c1, const Comparison& c2,
                           Mask active);

  /// Whether a loop goes on until a counter is what it has gone by, which it is again after 2^32
  /// trips: it was entered by a guess where it should not have been.
  [[nodiscard]] bool has_passed_its_end(const Passage& last, const Passage& before,
                                        std::size_t branch, std::size_t first) const;

  /// At a branch back to `first` that all threads take: where the last two trips were alike, and
  /// what was compared in them goes on evenly, the trips until a comparison turns out otherwise are
  /// as the last.
  void count_through(std::size_t branch, std::size_t first);

  // ------------------------------------------------------------ instructions

  /// Keeps what was compared, for loops that count.
  void compared(std::size_t at, Comparison::Kind kind, Mask known,
                const std::array<std::int64_t, lanes>& differences, unsigned relation = 0) {
    if (!executes())
      registers_.comparisons[static_cast<std::size_t>(program_.number[at])] = {kind, relation,
                                                                               known, differences};
  }

  /// A result of 32-bit words that nobody computes: equal for equal operands.
  template <class... Operands>
  void set_unknown(unsigned to, unsigned words, Mask mask, const Operands&... by) {
    const Lanes first = determined(Lanes{}, by...);
    for (unsigned n = 0; n < words && !is_zero(to); ++n)
      set(to + n, determined(first, first, constant(n)), mask);
  }
  /// Of pairs of registers, as doubles are.
  [[nodiscard]] Lanes pair(unsigned number) const {
    return is_zero(number) ? get(number) : determined(Lanes{}, get(number), high(number));
  }
  /// Those of the threads whose operands have the unknown parts that the first one's have.
  [[nodiscard]] Mask same_names(const Lanes& x, const Lanes& y, Mask of) const;
  /// What the comparison of alike threads hangs on.
  [[nodiscard]] static Name name_of(const Lanes& x, const Lanes& y, Mask alike);
  void compare_doubles(const Instruction& i, Mask mask);

  /// A pair of registers, or what stands for one.
  struct Doubles {
    std::array<double, lanes> value{};
    Mask known = 0;
  };
  enum class Operand : std::uint8_t { first, second, third };
  /// The bits of a 64-bit operand, whatever they are.
  [[nodiscard]] std::array<std::uint64_t, lanes> wide_bits(const Instruction& i, Operand operand,
                                                           Mask& known) const;
  [[nodiscard]] Doubles double_operand(const Instruction& i, Operand operand) const;
  void set_wide(unsigned to, const std::array<std::uint64_t, lanes>& bits, Mask known, Mask mask);
  void set_doubles(unsigned to, const Doubles& value, Mask mask);
  /// Where data count: sums and products of doubles, and conversions of what has 64 bits.
  void compute_doubles(const Instruction& i, Mask mask);
  [[nodiscard]] Truth compared_doubles(const Instruction& i) const;
  void convert_wide(const Instruction& i, Mask mask);
  void round_to_whole(const Instruction& i, Mask mask);
  /// Of (p + x) (q + y) without x y.
  [[nodiscard]] static Name name_of_product(const Lanes& x, const Lanes& y, std::size_t lane);
  /// Of the upper half of 64 bits, by what the lower half is and what is added.
  [[nodiscard]] static Name upper_name(std::uint64_t lower, const Lanes& upper, std::size_t lane);
  /// Names what comes of one unknown operand beside known ones.
  void name_logic(Lanes& result, const std::array<const Lanes*, 3>& operands, unsigned table) const;
  /// After PRMT of x and z where the lower half of the result is known, as where a flag or a 16-bit
  /// number is written into a register whose upper half stays what it was: that is the value, and
  /// the upper half the unknown part.
  void name_upper_half(Lanes& result, const Lanes& x, const Lanes& selector, const Lanes& z);

  void compare(std::size_t at, const Instruction& i, Mask mask);
  /// Of which threads two integers relate so, in the three bits of ISETP, whether known or not.
  [[nodiscard]] static Mask integers_relate(unsigned relation, bool is_signed, const Lanes& x,
                                            const Lanes& y);

  /// Of floats and doubles, in the four bits of FSETP and DSETP.
  [[nodiscard]] static bool relation_holds(unsigned relation, double p, double q);
  void compare_floats(std::size_t at, const Instruction& i, Mask mask);

  /// A sum of three with carries in and out.
  void add(const Instruction& i, Mask mask);

  /// Whether no thread gets the predicate that the instruction names there.
  [[nodiscard]] static bool gives_no_predicate(const Instruction& i, unsigned at) {
    return i.field(at, 3) == 7;
  }
  void multiply_and_add(const Instruction& i, Mask mask);
  void multiply_wide(const Instruction& i, Mask mask);

  void load_effective_address(const Instruction& i, Mask mask);

  void logic(std::size_t at, const Instruction& i, Mask mask);

  void logic_of_predicates(const Instruction& i, Mask mask);
  void forget_predicate(const Instruction& i, unsigned at, Mask mask) {
    set_predicate(i, at, {0, 0}, mask);
  }

  void shift(const Instruction& i, Mask mask);

  void permute(const Instruction& i, Mask mask);

  /// The predicates that a mask names, as bits of a register.
  [[nodiscard]] Lanes packed_predicates(const Instruction& i) const;
  void unpack_predicates(const Instruction& i, Mask mask);
  /// A sum over the threads of the warp.
  [[nodiscard]] Lanes reduced(const Instruction& i, Mask mask) const;

  /// Which threads of the warp hold something true, and whether any or all do.
  void vote(const Instruction& i, Mask mask);

  [[nodiscard]] Lanes special_register(unsigned number) const;

  void load_constant(const Instruction& i, Mask mask);

  void exchange(const Instruction& i, Mask mask);

  [[nodiscard]] Lanes least_or_greatest(const Instruction& i, const Lanes& x, const Lanes& y,
                                        bool is_signed) const;

  /// A float as an operand: its sign changed or removed, and flushed to zero where all are.
  [[nodiscard]] static Lanes float_operand(const Instruction& i, Lanes x, bool negate,
                                           bool absolute);
  /// A float as a result.
  [[nodiscard]] static Lanes rounded(const Instruction& i, const Lanes& exact);
  /// FCHK: where a division cannot go the quick way.
  [[nodiscard]] Truth division_is_hard(const Instruction& i) const;

  /// Functions of the special units that index arithmetic needs: divisions go by reciprocals.
  [[nodiscard]] Lanes reciprocal_and_others(const Instruction& i, const Lanes& x) const;

  /// Integer to float and back, with the rounding that division by reciprocals asks for.
  [[nodiscard]] Lanes converted(const Instruction& i, const Lanes& x, bool to_float) const;

  /// FLOP of a warp's part of a product on the tensor cores.
  void multiply_matrices(const Instruction& i);

  double perform(std::size_t at, const Instruction& i, unsigned operation, Mask mask);

  // ------------------------------------------------------------ memory

  /// Whether all go to shared memory, by the upper halves of their generic addresses.
  [[nodiscard]] static bool reaches_shared(const Lanes& upper, Mask mask) {
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      if ((mask >> lane & 1) != 0 && upper.value[lane] != shared_window) return false;
    }
    return (mask & ~upper.known) == 0;
  }
  /// Registers that the compiler puts aside. What is accessed by threads at different places, or
  /// lies far down, is not followed.
  void spill(const Instruction& i, bool stores, Mask mask);
  double share(const Instruction& i, unsigned operation, Mask mask);
  void exchange_shared(const Instruction& i, unsigned operation, Mask mask);
  /// Whether it adds one for each thread and gives nothing (ATOMS.POPC.INC), as compilers write an
  /// atomic sum of one.
  [[nodiscard]] bool counts_threads(const Instruction& i) const;
  /// One thread's atomic on shared memory; false where nobody has written down what it does.
  bool change_shared(const Instruction& i, std::size_t lane, std::size_t at, bool sure);
  /// What an atomic leaves in memory; nullopt where it is not on integers of 32 bits.
  [[nodiscard]] static std::optional<std::uint32_t> changed(const Instruction& i,
                                                            std::uint32_t before,
                                                            std::uint32_t operand);

  /// The bytes of a register and of those behind it, of one thread.
  using Word = std::array<std::byte, 16>;
  [[nodiscard]] LaunchMemory::Known gather(unsigned number, std::uint32_t bytes, std::size_t lane,
                                           Word& word) const;
  /// Sets them, extended to whole registers.
  void scatter(const Instruction& i, std::uint32_t bytes, std::size_t lane, const Word& word,
               LaunchMemory::Known known);
  /// What one thread's access does to data.
  void touch(const Instruction& i, unsigned operation, std::uint32_t bytes, std::size_t lane,
             std::uint64_t address, bool unsure);
  /// The same at once for all of a warp's threads, which load the same bytes or go each to those
  /// behind those of the one before; false where they do not, or something is not known.
  bool touch_at_once(const Instruction& i, unsigned operation, std::uint32_t bytes,
                     const std::array<std::uint64_t, lanes>& addresses);

  /// Names what threads load, by where they load it from.
  void name_loaded(unsigned number, std::uint32_t words, Mask mask,
                   const std::array<std::uint64_t, lanes>& places);
  /// What is known of what threads load, where a walk may ask.
  void read_known(const Instruction& i, Mask mask, Extent& extent,
                  const std::array<std::uint64_t, lanes>& places);
  void reach_behind(Extent& extent, Name base, std::uint32_t from, std::uint32_t bytes);
  double access(std::size_t at, const Instruction& i, unsigned operation, Mask mask);
  /// What TMA moves, box by box of a tensor or so many bytes.
  double copy_in_bulk(std::size_t at, const Instruction& i, unsigned operation);
  /// The map at a uniform pair of registers, where that is a parameter.
  [[nodiscard]] std::optional<TensorMap> tensor_map(unsigned number) const;
  /// The runs of consecutive bytes of a box.
  [[nodiscard]] std::vector<AddressRange> runs_of_box(const TensorMap& map,
                                                      unsigned first_coordinate) const;
  /// What all threads of the warp have in a register, if that is known.
  [[nodiscard]] std::optional<std::uint32_t> known_of_warp(unsigned number) const {
    const Lanes& lanes_of_it = get(number);
    if ((lanes_of_it.known & 1) == 0) return std::nullopt;
    return lanes_of_it.value[0];
  }

  /// The warp's share of the L1 cache: 4 KiB where 64 warps share 256.
  bool hit(std::uint64_t sector);

  Walk& walk_;
  const Program& program_;
  KernelQuery::Dim3 block_;
  std::array<KernelQuery::Dim3, lanes> thread_{};
  Mask alive_ = 0;
  std::array<std::size_t, lanes> pc_{};
  std::array<std::vector<std::size_t>, lanes> returns_{};
  Registers registers_{};
  mutable Rooms rooms_{};
  Counts counts_{};
  std::array<Timing, assumptions> timings_{Timing{{}}, Timing{{.memory = l2_latency}},
                                           Timing{{.stack = l2_latency - shared_latency}}};
  double received_ = 0;  ///< bytes that the instruction asks the L2 cache for
  std::vector<std::uint64_t> cached_{};
  std::vector<std::vector<std::uint64_t>> first_sectors_{};
  std::vector<int> visits_{};
  std::vector<Program::Loop> guessed_loops_{};
  std::map<std::size_t, Name> exits_{};      ///< out of loops: what they hung on last
  std::unordered_set<Name> upper_halves_{};  ///< unknown parts without bits in the lower half
  std::vector<std::size_t> criteria_{};      ///< those that hang on something new in each trip
  std::map<std::size_t, std::deque<Passage>> passages_{};
  std::unordered_set<std::size_t> waited_{};  ///< where data were waited for at a barrier
  bool waits_ = false;                        ///< for the block's other warps
  bool together_ = false;  ///< all threads that are alive are at the same instruction
  Mask unsure_ = 0;        ///< threads that may not execute the present instruction
  std::size_t at_ = 0;     ///< where that is
};

}  // namespace phantora::rank::code
