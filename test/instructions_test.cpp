#include "rank/code/code_execution.hpp"
#include "rank/memory/device_memory.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

/// Each instruction of sm_90 by itself: what 32 threads get for numbers that lie at the borders.
namespace phantora::rank {
namespace {

using Word = std::array<std::uint64_t, 2>;

/// An instruction whose operands are R4, R5 and R6, and results R8, P1 and P2: by its low 12 bits,
/// and what differs from that.
class Code {
 public:
  explicit Code(unsigned operation) : word_{operation, 0} {
    put(12, 3, 7).put(16, 8, 8).put(24, 8, 4).put(32, 8, 5).put(64, 8, 6);
    put(81, 3, 7).put(84, 3, 7).put(87, 3, 7);
  }
  Code& put(unsigned first, unsigned count, std::uint64_t value) {
    for (unsigned n = 0; n < count; ++n) {
      std::uint64_t& half = word_[(first + n) / 64];
      const std::uint64_t bit = std::uint64_t{1} << (first + n) % 64;
      half = (value >> n & 1) != 0 ? half | bit : half & ~bit;
    }
    return *this;
  }
  Code& on(unsigned bit) { return put(bit, 1, 1); }
  /// The third operand is zero.
  Code& without_c() { return put(64, 8, 255); }
  Code& number(std::uint32_t value) { return put(32, 32, value); }
  Code& gives_p1() { return put(81, 3, 1); }
  Code& gives_p2() { return put(84, 3, 2); }
  Code& takes_p0() { return put(87, 3, 0); }
  /// What is not asked for: a carry, or the end of a conjunction.
  Code& not_true(unsigned first) { return put(first, 4, 15); }
  [[nodiscard]] Word word() const { return word_; }

 private:
  Word word_;
};

struct Given {
  std::uint32_t x, y, z, w;  ///< R4 to R7
  bool p;                    ///< P0
};
using Warp = std::array<Given, 32>;
using Got = std::array<std::uint32_t, 4>;  ///< R8, R9, P1, P2

struct Case {
  std::string text;  ///< as nvdisasm prints it
  Code code;
  std::function<Got(const Given&, unsigned lane, const Warp&)> expected;
};

Warp given(std::uint32_t seed) {
  constexpr std::array<std::uint32_t, 16> borders{0,          1,          2,          31,
                                                  32,         33,         0x7fffffff, 0x80000000,
                                                  0x80000001, 0xffffffff, 0xfffffffe, 0x3f800000,
                                                  0xbf800000, 0x00800001, 0x807fffff, 0x7f800000};
  Warp warp{};
  std::uint32_t state = seed;
  const auto next = [&] { return (state = state * 1664525 + 1013904223) >> 8; };
  const auto number = [&] {
    const std::uint32_t choice = next() % 3;
    return choice == 0   ? borders[next() % borders.size()]
           : choice == 1 ? next() << 16 ^ next()
                         : next() % 64;
  };
  for (Given& g : warp) g = {number(), number(), number(), number(), false};
  for (Given& g : warp) g.p = g.w % 2 != 0;
  return warp;
}

/// Executes the code for one warp, with a pointer to memory at c[0x0][0x210].
Attempt execute_warp(const std::vector<Word>& code, std::byte* memory, std::size_t shared) {
  std::vector<std::byte> constants(0x220);
  const std::array<std::uint32_t, 6> shape{32, 1, 1, 1, 1, 1};
  std::memcpy(constants.data(), shape.data(), sizeof shape);
  std::memcpy(constants.data() + 0x210, &memory, sizeof memory);
  return execute({.code = std::as_bytes(std::span{code}),
                  .grid = {1, 1, 1},
                  .block = {32, 1, 1},
                  .constants = constants,
                  .architecture = 90},
                 shared, {});
}

/// Runs one warp: loads the operands of each thread, does `code`, stores the results.
std::vector<std::optional<Got>> run(const std::vector<Word>& code, const Warp& warp) {
  std::vector<Word> all{
      {0x0000000000007919, 0x000e2e0000002100},  // S2R R0, SR_TID.X
      {0x00008400ff027b82, 0x000e220000000a00},  // LDC.64 R2, c[0x0][0x210]
      {0x0000820000047ab9, 0x000fce0000000a00},  // ULDC.64 UR4, c[0x0][0x208]
      {0x0000002000027825, 0x001fce00078e0002},  // IMAD.WIDE.U32 R2, R0, 0x20, R2
      {0x0000000402047981, 0x000ea4000c1e1d00},  // LDG.E.128 R4, desc[UR4][R2.64]
      {0x0000000000087805, 0x000fe4000001ff00},  // CS2R R8, SRZ
      {0x0000000107007812, 0x000fc800078ec0ff},  // LOP3.LUT R0, R7, 0x1, RZ, 0xc0, !PT
      {0x000000ff0000720c, 0x001fda0003f05270},  // ISETP.NE.AND P0, PT, R0, RZ, PT
      {0x000000ffff00720c, 0x001fda0003f25270},  // ISETP.NE.AND P1, PT, RZ, RZ, PT
      {0x000000ffff00720c, 0x001fda0003f45270}   // ISETP.NE.AND P2, PT, RZ, RZ, PT
  };
  all.insert(all.end(), code.begin(), code.end());
  const std::vector<Word> end{
      {0x00000001ff0a7807, 0x000fe20004800000},  // SEL R10, RZ, 0x1, !P1
      {0x00000001ff0b7807, 0x000fe20005000000},  // SEL R11, RZ, 0x1, !P2
      {0x0000100802007986, 0x000fe8000c101d04},  // STG.E.128 desc[UR4][R2.64+0x10], R8
      {0x000000000000794d, 0x000fea0003800000}   // EXIT
  };
  all.insert(all.end(), end.begin(), end.end());

  struct Row {
    std::array<std::uint32_t, 4> in;
    Got out;
  };
  std::vector<Row> rows(warp.size());
  for (std::size_t n = 0; n < rows.size(); ++n)
    rows[n] = {{warp[n].x, warp[n].y, warp[n].z, warp[n].w}, {77, 77, 77, 77}};
  auto* const memory = static_cast<std::byte*>(allocate(0, sizeof(Row) * rows.size()));
  write(memory, rows.data(), sizeof(Row) * rows.size());
  const bool done = execute_warp(all, memory, 1024).reach.has_value();
  std::vector<std::optional<Got>> results(rows.size());
  for (std::size_t n = 0; done && n < rows.size(); ++n) {
    std::byte* const at = memory + n * sizeof(Row) + 16;
    Got got{};
    if (known(at, sizeof got)) {
      read(&got, at, sizeof got);
      results[n] = got;
    }
  }
  deallocate(memory);
  return results;
}

std::int64_t s(std::uint32_t v) { return static_cast<std::int32_t>(v); }
std::uint64_t u(std::uint32_t v) { return v; }
std::uint32_t low(std::uint64_t v) { return static_cast<std::uint32_t>(v); }
std::uint32_t high(std::uint64_t v) { return static_cast<std::uint32_t>(v >> 32); }
float f(std::uint32_t v) { return std::bit_cast<float>(v); }
std::uint32_t bits(float v) {
  return std::isnan(v) ? 0x7fffffffU : std::bit_cast<std::uint32_t>(v);
}
/// The greatest float that is no more than the sum. By how much the nearest is off: Knuth, "The Art
/// of Computer Programming" 2, 4.2.2.
float sum_rounded_down(float x, float y) {
  const float nearest = x + y;
  if (std::isnan(nearest)) return nearest;
  if (std::isinf(nearest)) {
    const bool exact = std::isinf(x) || std::isinf(y) || nearest < 0;
    return exact ? nearest : std::numeric_limits<float>::max();
  }
  // Of opposite numbers the sum is -0, and of zeros unless both are +0.
  if (nearest == 0)
    return std::signbit(x) && std::signbit(y)               ? -0.0F
           : x == 0 && !std::signbit(x) && !std::signbit(y) ? 0.0F
                                                            : -0.0F;
  const double exact = static_cast<double>(x) + y;
  const double of_y = exact - x, error = (x - (exact - of_y)) + (y - of_y);
  const bool above = nearest > exact || (static_cast<double>(nearest) == exact && error < 0);
  return above ? std::nextafter(nearest, -std::numeric_limits<float>::infinity()) : nearest;
}
bool is_small(std::uint32_t v) { return (v & 0x7f800000U) == 0; }
float flushed(std::uint32_t v) { return is_small(v) ? f(v & 0x80000000U) : f(v); }

/// Of one number.
template <class F>
auto one(F function) {
  return [=](const Given& g, unsigned, const Warp&) -> Got {
    return {static_cast<std::uint32_t>(function(g)), 0, 0, 0};
  };
}
template <class F>
auto all(F function) {
  return [=](const Given& g, unsigned, const Warp&) -> Got { return function(g); };
}

std::vector<Case> cases() {
  const auto pair = [](const Given& g) { return u(g.w) << 32 | g.z; };
  return {
      {"IADD3 R8, P1, P2, R4, R5, R6", Code{0x210}.gives_p1().gives_p2(), all([](const Given& g) {
         const std::uint64_t sum = u(g.x) + g.y + g.z;
         return Got{low(sum), 0, high(sum) > 0, high(sum) > 1};
       })},
      {"IADD3 R8, P1, R4, -R5, RZ", Code{0x210}.on(63).without_c().gives_p1(),
       all([](const Given& g) {
         return Got{g.x - g.y, 0, g.x >= g.y, 0};
       })},
      {"IADD3.X R8, R4, ~R5, RZ, P0, !PT",
       Code{0x210}.on(63).on(74).without_c().takes_p0().not_true(77),
       one([](const Given& g) { return g.x + ~g.y + (g.p ? 1 : 0); })},
      {"IMAD.U32 R8, R4, R5, R6", Code{0x224}, one([](const Given& g) { return g.x * g.y + g.z; })},
      {"IMAD.U32 R8, R4, R5, -R6", Code{0x224}.on(75),
       one([](const Given& g) { return g.x * g.y - g.z; })},
      {"IMAD.U32.X R8, R4, R5, R6, P0", Code{0x224}.on(74).takes_p0(),
       one([](const Given& g) { return g.x * g.y + g.z + (g.p ? 1 : 0); })},
      {"IMAD.WIDE.U32 R8, P1, R4, R5, R6", Code{0x225}.gives_p1(), all([=](const Given& g) {
         const std::uint64_t product = u(g.x) * g.y, sum = product + pair(g);
         return Got{low(sum), high(sum), sum < product, 0};
       })},
      {"IMAD.WIDE R8, R4, R5, R6", Code{0x225}.on(73), all([=](const Given& g) {
         const std::uint64_t sum = static_cast<std::uint64_t>(s(g.x) * s(g.y)) + pair(g);
         return Got{low(sum), high(sum), 0, 0};
       })},
      {"IMAD.WIDE.U32.X R8, R4, R5, R6, P0", Code{0x225}.on(74).takes_p0(),
       all([=](const Given& g) {
         const std::uint64_t sum = u(g.x) * g.y + pair(g) + (g.p ? 1 : 0);
         return Got{low(sum), high(sum), 0, 0};
       })},
      {"IMAD.HI.U32 R8, R4, R5, R6", Code{0x227},
       one([=](const Given& g) { return high(u(g.x) * g.y + pair(g)); })},
      {"LEA R8, P1, R4, R5, 0x4", Code{0x211}.without_c().put(75, 5, 4).gives_p1(),
       all([](const Given& g) {
         const std::uint64_t sum = u(g.x << 4) + g.y;
         return Got{low(sum), 0, high(sum), 0};
       })},
      {"LEA R8, R4, -R5, 0x4", Code{0x211}.without_c().on(63).put(75, 5, 4),
       one([](const Given& g) { return (g.x << 4) - g.y; })},
      {"LEA.HI R8, R4, R5, R6, 0x4", Code{0x211}.on(80).put(75, 5, 4),
       one([](const Given& g) { return high((u(g.z) << 32 | g.x) << 4) + g.y; })},
      {"LEA.HI.X R8, R4, R5, R6, 0x4, P0", Code{0x211}.on(80).on(74).put(75, 5, 4).takes_p0(),
       one([](const Given& g) { return high((u(g.z) << 32 | g.x) << 4) + g.y + (g.p ? 1 : 0); })},
      {"LEA.HI.SX32 R8, R4, R5, 0x4", Code{0x211}.on(80).on(73).without_c().put(75, 5, 4),
       one([](const Given& g) { return high(static_cast<std::uint64_t>(s(g.x)) << 4) + g.y; })},
      {"LOP3.LUT P1, R8, R4, R5, R6, 0xe8, P0", Code{0x212}.put(72, 8, 0xe8).gives_p1().takes_p0(),
       all([](const Given& g) {
         const std::uint32_t most = (g.x & g.y) | (g.x & g.z) | (g.y & g.z);
         return Got{most, 0, most != 0 || g.p, 0};
       })},
      {"LOP3.LUT.PAND P1, R8, R4, R5, R6, 0x80, P0",
       Code{0x212}.put(72, 8, 0x80).on(80).gives_p1().takes_p0(), all([](const Given& g) {
         const std::uint32_t common = g.x & g.y & g.z;
         return Got{common, 0, common != 0 && g.p, 0};
       })},
      {"SHF.L.U32 R8, R4, R5, RZ", Code{0x219}.without_c().put(73, 2, 3),
       one([](const Given& g) { return g.y >= 32 ? 0 : g.x << g.y; })},
      {"SHF.R.U32.HI R8, RZ, R5, R6", Code{0x219}.put(24, 8, 255).put(73, 2, 3).on(76).on(80),
       one([](const Given& g) { return g.y >= 32 ? 0 : g.z >> g.y; })},
      {"SHF.R.S32.HI R8, RZ, R5, R6", Code{0x219}.put(24, 8, 255).put(73, 2, 2).on(76).on(80),
       one([](const Given& g) { return s(g.z) >> std::min(g.y, 31U); })},
      {"SHF.L.W.U32.HI R8, R4, R5, R6", Code{0x219}.put(73, 2, 3).on(75).on(80),
       one([](const Given& g) { return high((u(g.z) << 32 | g.x) << g.y % 32); })},
      {"SHF.R.W.U32 R8, R4, R5, R6", Code{0x219}.put(73, 2, 3).on(75).on(76),
       one([](const Given& g) { return (u(g.z) << 32 | g.x) >> g.y % 32; })},
      {"SHF.L.U64.HI R8, R4, R5, R6", Code{0x219}.put(73, 2, 1).on(80),
       one([](const Given& g) { return g.y >= 64 ? 0 : high((u(g.z) << 32 | g.x) << g.y); })},
      {"SHF.R.U64 R8, R4, R5, R6", Code{0x219}.put(73, 2, 1).on(76),
       one([](const Given& g) { return g.y >= 64 ? 0 : low((u(g.z) << 32 | g.x) >> g.y); })},
      {"SHF.R.S64 R8, R4, R5, R6", Code{0x219}.put(73, 2, 0).on(76), one([](const Given& g) {
         return static_cast<std::int64_t>(u(g.z) << 32 | g.x) >> std::min(g.y, 63U);
       })},
      {"PRMT R8, R4, 0x9350, R6", Code{0x816}.number(0x9350), one([](const Given& g) {
         return (g.x & 0xff) | (g.z >> 8 & 0xff) << 8 | (g.x >> 24) << 16 |
                ((g.x & 0x8000) != 0 ? 0xffU : 0U) << 24;
       })},
      {"SEL R8, R4, R5, P0", Code{0x207}.takes_p0(),
       one([](const Given& g) { return g.p ? g.x : g.y; })},
      {"ISETP.GE.AND P1, P2, R4, R5, P0",
       Code{0x20c}.put(76, 3, 6).on(73).gives_p1().gives_p2().takes_p0(), all([](const Given& g) {
         return Got{0, 0, s(g.x) >= s(g.y) && g.p, s(g.x) < s(g.y) && g.p};
       })},
      {"ISETP.LT.U32.OR P1, P2, R4, R5, P0",
       Code{0x20c}.put(76, 3, 1).put(74, 2, 1).gives_p1().gives_p2().takes_p0(),
       all([](const Given& g) {
         return Got{0, 0, g.x < g.y || g.p, g.x >= g.y || g.p};
       })},
      {"ISETP.GT.AND.EX P1, PT, R4, R5, PT, P0",
       Code{0x20c}.put(76, 3, 4).on(73).on(72).gives_p1().put(68, 3, 0), all([](const Given& g) {
         return Got{0, 0, g.x == g.y ? g.p : s(g.x) > s(g.y), 0};
       })},
      {"VIMNMX R8, R4, R5, P0", Code{0x248}.on(72).takes_p0(), one([](const Given& g) {
         return g.p ? std::min(s(g.x), s(g.y)) : std::max(s(g.x), s(g.y));
       })},
      {"VIMNMX.U32 R8, R4, R5, P0", Code{0x248}.takes_p0(),
       one([](const Given& g) { return g.p ? std::min(g.x, g.y) : std::max(g.x, g.y); })},
      {"VIADDMNMX R8, R4, R5, R6, PT", Code{0x246}.on(72),
       one([](const Given& g) { return std::min(s(g.x + g.y), s(g.z)); })},
      {"IABS R8, R5", Code{0x213}, one([](const Given& g) { return std::abs(s(g.y)); })},
      {"SGXT R8, R4, R5", Code{0x21a}.on(73), one([](const Given& g) {
         if (g.y >= 32) return s(g.x);
         return g.y == 0 ? 0 : s(g.x << (32 - g.y)) >> (32 - g.y);
       })},
      {"POPC R8, ~R5", Code{0x309}.on(63), one([](const Given& g) { return std::popcount(~g.y); })},
      {"BREV R8, R5", Code{0x301}, one([](const Given& g) {
         std::uint32_t reversed = 0;
         for (unsigned n = 0; n < 32; ++n) reversed |= (g.y >> n & 1) << (31 - n);
         return reversed;
       })},
      {"FLO.U32 R8, ~R5", Code{0x300}.on(63), one([](const Given& g) {
         return ~g.y == 0 ? ~0U : 31U - static_cast<unsigned>(std::countl_zero(~g.y));
       })},
      {"FLO.U32.SH R8, R5", Code{0x300}.on(74), one([](const Given& g) {
         return g.y == 0 ? ~0U : static_cast<unsigned>(std::countl_zero(g.y));
       })},
      {"VOTE.ANY R8, P1, P0", Code{0x806}.put(72, 2, 1).gives_p1().takes_p0(),
       [](const Given&, unsigned, const Warp& warp) -> Got {
         std::uint32_t ballot = 0;
         for (unsigned n = 0; n < 32; ++n) ballot |= (warp[n].p ? 1U : 0U) << n;
         return {ballot, 0, ballot != 0, 0};
       }},
      {"VOTE.ALL R8, P1, P0", Code{0x806}.gives_p1().takes_p0(),
       [](const Given&, unsigned, const Warp& warp) -> Got {
         std::uint32_t ballot = 0;
         for (unsigned n = 0; n < 32; ++n) ballot |= (warp[n].p ? 1U : 0U) << n;
         return {ballot, 0, ballot == ~0U, 0};
       }},
      {"SHFL.IDX P1, R8, R4, R5, 0x1f", Code{0x589}.put(58, 2, 0).put(40, 13, 0x1f).gives_p1(),
       [](const Given& g, unsigned, const Warp& warp) -> Got {
         return {warp[g.y % 32].x, 0, 1, 0};
       }},
      {"SHFL.UP P1, R8, R4, R5, 0x0", Code{0x589}.put(58, 2, 1).put(40, 13, 0).gives_p1(),
       [](const Given& g, unsigned lane, const Warp& warp) -> Got {
         const bool inside = lane >= g.y % 32;
         return {warp[inside ? lane - g.y % 32 : lane].x, 0, inside, 0};
       }},
      {"SHFL.DOWN P1, R8, R4, R5, 0x181f", Code{0x589}.put(58, 2, 2).put(40, 13, 0x181f).gives_p1(),
       [](const Given& g, unsigned lane, const Warp& warp) -> Got {
         const bool inside = lane + g.y % 32 <= (lane | 7);
         return {warp[inside ? lane + g.y % 32 : lane].x, 0, inside, 0};
       }},
      {"SHFL.BFLY P1, R8, R4, R5, R6", Code{0x389}.put(58, 2, 3).gives_p1(),
       [](const Given& g, unsigned lane, const Warp& warp) -> Got {
         const std::uint32_t common = g.z >> 8 & 31, last = (lane & common) | (g.z & 31 & ~common);
         const bool inside = (lane ^ g.y % 32) <= last;
         return {warp[inside ? lane ^ g.y % 32 : lane].x, 0, inside, 0};
       }},
      {"FADD.FTZ R8, |R4|, -R5", Code{0x221}.on(80).on(73).on(63), one([](const Given& g) {
         return bits(flushed(bits(std::abs(flushed(g.x)) - flushed(g.y))));
       })},
      {"FMUL.SAT R8, R4, R5", Code{0x220}.put(84, 3, 4).on(77), one([](const Given& g) {
         const float product = f(g.x) * f(g.y);
         return std::isnan(product) ? 0 : bits(std::clamp(product, 0.0F, 1.0F));
       })},
      {"FFMA R8, R4, R5, -R6", Code{0x223}.on(75),
       one([](const Given& g) { return bits(std::fma(f(g.x), f(g.y), -f(g.z))); })},
      {"FFMA R8, R4, -R6, 1.5", Code{0x423}.number(0x3fc00000).on(75),
       one([](const Given& g) { return bits(std::fma(f(g.x), -f(g.z), 1.5F)); })},
      {"FADD.RM R8, R4, R5", Code{0x221}.put(78, 2, 1),
       one([](const Given& g) { return bits(sum_rounded_down(f(g.x), f(g.y))); })},
      {"FSETP.GTU.AND P1, PT, R4, R5, P0", Code{0x20b}.put(76, 4, 12).gives_p1().takes_p0(),
       all([](const Given& g) {
         return Got{0, 0, !(f(g.x) <= f(g.y)) && g.p, 0};
       })},
      {"FMNMX R8, R4, R5, PT", Code{0x209}.put(81, 6, 0), one([](const Given& g) {
         if (std::isnan(f(g.x))) return std::isnan(f(g.y)) ? 0x7fffffffU : g.y;
         if (std::isnan(f(g.y))) return g.x;
         if (f(g.x) == 0 && f(g.y) == 0) return g.x | g.y;
         return bits(std::fmin(f(g.x), f(g.y)));
       })},
      {"I2FP.F32.U32 R8, R5", Code{0x245}.put(76, 1, 1).put(85, 1, 1).put(84, 1, 0),
       one([](const Given& g) { return bits(static_cast<float>(g.y)); })},
      {"F2I.TRUNC.NTZ R8, R5", Code{0x305}.on(72).put(75, 2, 2).on(77).put(78, 2, 3).put(84, 3, 2),
       one([](const Given& g) {
         const double value = f(g.y);
         if (std::isnan(value)) return std::int64_t{0};
         return static_cast<std::int64_t>(std::clamp(value, -2147483648.0, 2147483647.0));
       })},
  };
}

TEST(Instructions, GiveWhatTheyShould) {
  for (const Case& of : cases()) {
    for (std::uint32_t seed = 1; seed <= 40; ++seed) {
      const Warp warp = given(seed);
      const auto got = run({of.code.word()}, warp);
      for (unsigned lane = 0; lane < warp.size(); ++lane) {
        const Given& g = warp[lane];
        ASSERT_EQ(got[lane], std::optional{of.expected(g, lane, warp)})
            << of.text << " of " << std::hex << g.x << " " << g.y << " " << g.z << " " << g.w;
      }
    }
  }
}

constexpr Word exit_where_p0_and_p1{0x000000000000094d, 0x000fea0000800000};  // @P0 EXIT P1
constexpr Word synchronize{0x0000000000007b1d, 0x000fe60000010000};  // BAR.SYNC.DEFER_BLOCKING 0x0

TEST(Instructions, AnExitAsksItsGuardAndItsOperand) {
  // ISETP.LT.U32.AND P1, PT, R4, R5, PT
  const Word less = Code{0x20c}.put(76, 3, 1).gives_p1().word();
  const Warp warp = given(1);
  const auto got = run({less, exit_where_p0_and_p1}, warp);
  for (unsigned lane = 0; lane < warp.size(); ++lane) {
    const bool is_less = warp[lane].x < warp[lane].y, ends = warp[lane].p && is_less;
    ASSERT_TRUE(got[lane]);
    EXPECT_EQ((*got[lane])[2], ends ? 77U : is_less ? 1U : 0U) << lane;
  }
}

TEST(Instructions, AnOperandIsReadBeforeItIsWritten) {
  // ISETP.LT.U32.AND P1, P2, R4, R5, P1 after P1 has become P0.
  const Word copy = Code{0x20c}.put(76, 3, 7).gives_p1().takes_p0().word();
  const Word compare = Code{0x20c}.put(76, 3, 1).gives_p1().gives_p2().put(87, 3, 1).word();
  const Warp warp = given(2);
  const auto got = run({copy, compare}, warp);
  for (unsigned lane = 0; lane < warp.size(); ++lane) {
    const bool is_less = warp[lane].x < warp[lane].y, p = warp[lane].p;
    EXPECT_EQ(got[lane], (Got{0, 0, is_less && p, !is_less && p})) << lane;
  }
}

TEST(Instructions, ABarrierIsOfThoseWhoseGuardHolds) {
  const auto guarded = [](Word word, std::uint64_t guard) {
    word[0] = (word[0] & ~std::uint64_t{0xf000}) | guard << 12;
    return word;
  };
  Warp warp = given(3);
  for (Given& g : warp) g.w = 0, g.p = false;
  EXPECT_TRUE(run({guarded(synchronize, 0)}, warp)[0]);  // @P0: none
  EXPECT_TRUE(run({guarded(synchronize, 8)}, warp)[0]);  // @!P0: all
  warp[5].w = 1;
  EXPECT_FALSE(run({guarded(synchronize, 8)}, warp)[0]);  // the others wait for ever
}

// What .NTZ says: that what is no number becomes zero. Without, the GPU's number is not written
// down.
TEST(Instructions, WhatIsNoNumberIsNoIntegerEither) {
  const Word to_integer = Code{0x305}.on(72).put(75, 2, 2).put(78, 2, 3).put(84, 3, 2).word();
  for (std::uint32_t seed = 1; seed <= 40; ++seed) {
    const Warp warp = given(seed);
    const auto got = run({to_integer}, warp);
    for (unsigned lane = 0; lane < warp.size(); ++lane) {
      const double value = f(warp[lane].y);
      ASSERT_EQ(got[lane].has_value(), !std::isnan(value)) << lane;
      if (std::isnan(value)) continue;
      const auto whole = static_cast<std::int32_t>(std::clamp(value, -2147483648.0, 2147483647.0));
      EXPECT_EQ((*got[lane])[0], static_cast<std::uint32_t>(whole)) << value;
    }
  }
}

// As sm_90 writes it, and as sm_75 to sm_86 did.
TEST(Instructions, ARegisterOfTheWarpGetsWhatAThreadHas) {
  constexpr Word uniform_to_r8{0x0000000600087c02, 0x000fe20008000f00};  // MOV R8, UR6
  Warp warp = given(6);
  for (Given& g : warp) g.x = warp[0].x;
  for (const unsigned operation : {0x2caU, 0x3c2U}) {
    const Word to_uniform = Code{operation}.put(16, 8, 6).put(32, 8, 0).put(64, 8, 0).word();
    const auto results = run({to_uniform, uniform_to_r8}, warp);
    EXPECT_EQ(results, std::vector(warp.size(), std::optional{Got{warp[0].x, 0, 0, 0}}))
        << std::hex << operation;
  }
}

// Compilers put predicates aside as bits of a register to which nothing was written before: of it
// no other bit is asked for.
TEST(Instructions, ARegisterThatNothingWasWrittenToTakesBits) {
  const Warp warp = given(5);
  const auto results =
      run({{0x0000000214147812, 0x000fc800078efcff},   // LOP3.LUT R20, R20, 0x2, RZ, 0xfc, !PT
           {0x0000000214087812, 0x000fc800078ec0ff}},  // LOP3.LUT R8, R20, 0x2, RZ, 0xc0, !PT
          warp);
  EXPECT_EQ(results, std::vector(warp.size(), std::optional{Got{2, 0, 0, 0}}));
}

// Each thread adds to its own number in memory.
TEST(Instructions, AnAtomicGivesWhatWasThereBefore) {
  const Warp warp = given(7);
  const auto results =
      run({{0x00000005020879a8,
            0x000ee400081ee1c4},  // ATOMG.E.ADD.STRONG.GPU PT, R8, desc[UR4][R2.64], R5
           {0x0000000402097981, 0x000ea4000c1e1900}},  // LDG.E R9, desc[UR4][R2.64]
          warp);
  for (unsigned lane = 0; lane < warp.size(); ++lane)
    EXPECT_EQ(results[lane], (Got{warp[lane].x, warp[lane].x + warp[lane].y, 0, 0})) << lane;
}

// As compilers write an atomic sum of one in shared memory: 32 threads come to 32.
TEST(Instructions, ThreadsThatPassAreCounted) {
  const Warp warp = given(8);
  const auto results =
      run({{0x000000ff08007388, 0x0001e40000000800},   // STS [R8], RZ
           {0x0000000008ff7f8c, 0x0001e4000d80003f},   // ATOMS.POPC.INC.32 RZ, [R8+URZ]
           {0x0000000008087984, 0x000e240000000800}},  // LDS R8, [R8]
          warp);
  EXPECT_EQ(results, std::vector(warp.size(), std::optional{Got{32, 0, 0, 0}}));
}

// Side by side, and all from one place; beyond a KiB, in which execution keeps memory together, and
// where something is not known.
TEST(Instructions, AWarpMovesWhatItsThreadsAskFor) {
  constexpr std::size_t from = 960, to = 2048, bytes = 4096;
  std::vector<std::uint8_t> content(bytes);
  for (std::size_t n = 0; n < bytes; ++n) content[n] = static_cast<std::uint8_t>(n * 7 + n / 256);
  for (const std::uint64_t size : {4U, 8U, 16U}) {
    const std::uint64_t width = size == 4 ? 0x800 : size == 8 ? 0xa00 : 0xc00;
    for (const std::uint64_t apart : {size, std::uint64_t{0}, 2 * size}) {
      for (const std::size_t unknown : {bytes, from, from + 5 * size}) {
        const std::vector<Word> code{
            {0x0000000000007919, 0x000e2e0000002100},        // S2R R0, SR_TID.X
            {0x00008400ff027b82, 0x000e220000000a00},        // LDC.64 R2, c[0x0][0x210]
            {0x0000820000047ab9, 0x000fce0000000a00},        // ULDC.64 UR4, c[0x0][0x208]
            {size << 32 | 0x00087825, 0x001fce00078e0002},   // IMAD.WIDE.U32 R8, R0, size, R2
            {apart << 32 | 0x00027825, 0x001fce00078e0002},  // IMAD.WIDE.U32 R2, R0, apart, R2
            {from << 40 | 0x0402047981, 0x000ea4000c1e1100 | width},  // LDG R4, [R2.64+from]
            {to << 40 | 0x0408007986, 0x000fe8000c101104 | width},    // STG [R8.64+to], R4
            {0x000000000000794d, 0x000fea0003800000}                  // EXIT
        };
        auto* const memory = static_cast<std::byte*>(allocate(0, bytes));
        write(memory, content.data(), bytes);
        if (unknown < bytes) forget(memory + unknown, 1, {});
        const Attempt made = execute_warp(code, memory, 0);
        const auto base = reinterpret_cast<std::uint64_t>(memory);
        ASSERT_TRUE(made.reach);
        EXPECT_EQ(made.reach->written,
                  (std::vector<AddressRange>{{base + to, base + to + 32 * size}}));
        if (apart <= size) {
          EXPECT_EQ(made.read,
                    (std::vector<AddressRange>{{base + from, base + from + 31 * apart + size}}));
        }
        for (std::size_t lane = 0; lane < 32; ++lane) {
          for (std::size_t word = 0; word < size; word += 4) {
            const std::size_t source = from + lane * apart + word, place = to + lane * size + word;
            const bool lost = source <= unknown && unknown < source + 4;
            ASSERT_EQ(known(memory + place, 4), !lost) << size << ' ' << apart << ' ' << lane;
            if (lost) continue;
            std::array<std::uint8_t, 4> got{};
            read(got.data(), memory + place, got.size());
            EXPECT_EQ(std::memcmp(got.data(), content.data() + source, got.size()), 0) << lane;
          }
        }
        deallocate(memory);
      }
    }
  }
}

TEST(Instructions, WhatNobodyWroteDownIsNotDone) {
  // MUFU.RCP.F16, FMUL.M2, FMNMX.NAN, F2I.U8.NTZ, I2F.F16
  for (const Code& code :
       {Code{0x308}.put(74, 4, 4).on(72), Code{0x220}.put(84, 3, 5), Code{0x209}.put(81, 6, 1),
        Code{0x305}.put(75, 2, 0).on(77).put(84, 3, 2), Code{0x306}.put(75, 3, 1).put(84, 3, 2)}) {
    for (const auto& got : run({code.word()}, given(4))) EXPECT_FALSE(got);
  }
}

}  // namespace
}  // namespace phantora::rank
