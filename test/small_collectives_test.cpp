#include "run/small_data.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <span>

#include <gtest/gtest.h>

namespace phantora::run {
namespace {

using channel::Collective;
using channel::DataType;
using channel::PartlyKnown;
using channel::Reduction;
using Bytes8 = std::vector<std::byte>;

template <class T>
Bytes8 bytes_of(const std::vector<T>& values) {
  const auto raw = std::as_bytes(std::span{values});
  return {raw.begin(), raw.end()};
}
template <class T>
std::vector<T> values_of(std::span<const std::byte> bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::ranges::copy(bytes, std::as_writable_bytes(std::span{values}).begin());
  return values;
}
template <class T>
std::vector<T> reduced(const std::vector<std::vector<T>>& ranks, DataType type, Reduction op,
                       double premul = 1.0) {
  std::vector<PartlyKnown> operands;
  for (const auto& rank : ranks) operands.push_back({bytes_of(rank), {}});
  std::vector<const PartlyKnown*> pointers;
  for (const auto& operand : operands) pointers.push_back(&operand);
  const PartlyKnown result = reduce(pointers, type, op, premul);
  EXPECT_TRUE(result.known.empty());
  return values_of<T>(result.bytes);
}
/// As a rank sends it, and what it gets.
template <class T>
Bytes8 sent(const std::vector<T>& values) {
  return channel::packed({bytes_of(values), {}});
}
template <class T>
std::vector<T> received(const Delivered& delivered) {
  return values_of<T>(channel::unpacked(delivered.bytes).bytes);
}

// --- An independent reading of the 16-bit formats, from their definitions (IEEE 754-2019 table 3.5
// for binary16; bfloat16 is the upper half of binary32) ---

double value_of_half(unsigned bits, int exponent_bits, int fraction_bits) {
  const int sign = (bits >> (exponent_bits + fraction_bits)) & 1U ? -1 : 1;
  const int exponent = static_cast<int>((bits >> fraction_bits) & ((1U << exponent_bits) - 1U));
  const int fraction = static_cast<int>(bits & ((1U << fraction_bits) - 1U));
  const int bias = (1 << (exponent_bits - 1)) - 1;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(1 + std::ldexp(fraction, -fraction_bits), exponent - bias);
}

/// The nearest 16-bit number by search over all of them, ties to the even fraction.
unsigned nearest_half(double value, int exponent_bits, int fraction_bits) {
  unsigned best = 0;
  double distance = std::numeric_limits<double>::infinity();
  const double largest =
      value_of_half((((1U << exponent_bits) - 2U) << fraction_bits) | ((1U << fraction_bits) - 1U),
                    exponent_bits, fraction_bits);
  // Beyond the largest number plus half a step of the last binade lies infinity.
  const double limit = largest + std::ldexp(1.0, (1 << (exponent_bits - 1)) - 2 - fraction_bits);
  if (std::fabs(value) >= limit) {
    return (value < 0 ? 1U << 15U : 0U) | (((1U << exponent_bits) - 1U) << fraction_bits);
  }
  for (unsigned bits = 0; bits < 0x10000U; ++bits) {
    const double candidate = value_of_half(bits, exponent_bits, fraction_bits);
    if (!std::isfinite(candidate) || std::signbit(candidate) != std::signbit(value)) continue;
    const double d = std::fabs(candidate - value);
    if (d < distance || (d == distance && (bits & 1U) == 0)) {
      best = bits;
      distance = d;
    }
  }
  return best;
}

void expect_sixteen_bit_sums(DataType type, int exponent_bits, int fraction_bits) {
  std::mt19937 random{7};
  for (int i = 0; i < 300; ++i) {
    std::vector<std::uint16_t> bits(2);
    do {
      for (auto& b : bits) b = static_cast<std::uint16_t>(random());
    } while (!std::isfinite(value_of_half(bits[0], exponent_bits, fraction_bits)) ||
             !std::isfinite(value_of_half(bits[1], exponent_bits, fraction_bits)));
    // The sum of two 16-bit numbers rounded to float first, as the accumulator is one.
    const auto sum = static_cast<double>(
        static_cast<float>(value_of_half(bits[0], exponent_bits, fraction_bits) +
                           value_of_half(bits[1], exponent_bits, fraction_bits)));
    const auto result = reduced<std::uint16_t>({{bits[0]}, {bits[1]}}, type, Reduction::sum).at(0);
    const unsigned expected = nearest_half(sum, exponent_bits, fraction_bits);
    if (std::fabs(sum) == 0) {
      EXPECT_EQ(value_of_half(result, exponent_bits, fraction_bits), 0.0);
    } else {
      EXPECT_EQ(result, expected) << bits[0] << " + " << bits[1] << " = " << sum;
    }
  }
}

TEST(Reduce, Float16RoundsToNearestEven) { expect_sixteen_bit_sums(DataType::float16, 5, 10); }
TEST(Reduce, Bfloat16RoundsToNearestEven) { expect_sixteen_bit_sums(DataType::bfloat16, 8, 7); }

TEST(Reduce, Float16OverflowsToInfinity) {
  // 65504 is the largest finite value; 65504 + 65504 has no finite neighbour.
  const std::uint16_t largest = 0x7bff;
  EXPECT_EQ(reduced<std::uint16_t>({{largest}, {largest}}, DataType::float16, Reduction::sum),
            std::vector<std::uint16_t>{0x7c00});
}

TEST(Reduce, FloatsFollowEachOperation) {
  const std::vector<std::vector<float>> ranks = {
      {1.5F, -2.0F, 8.0F}, {2.0F, 3.0F, 0.25F}, {4.0F, 5.0F, -1.0F}};
  EXPECT_EQ(reduced(ranks, DataType::float32, Reduction::sum),
            (std::vector<float>{7.5F, 6.0F, 7.25F}));
  EXPECT_EQ(reduced(ranks, DataType::float32, Reduction::prod),
            (std::vector<float>{12.0F, -30.0F, -2.0F}));
  EXPECT_EQ(reduced(ranks, DataType::float32, Reduction::max),
            (std::vector<float>{4.0F, 5.0F, 8.0F}));
  EXPECT_EQ(reduced(ranks, DataType::float32, Reduction::min),
            (std::vector<float>{1.5F, -2.0F, -1.0F}));
  EXPECT_EQ(reduced(ranks, DataType::float32, Reduction::avg),
            (std::vector<float>{2.5F, 2.0F, 7.25F / 3.0F}));
  EXPECT_EQ(reduced(ranks, DataType::float32, Reduction::premul_sum, 0.5),
            (std::vector<float>{3.75F, 3.0F, 3.625F}));
}

TEST(Reduce, InfinityAndNanArriveAsSuch) {
  const float inf = std::numeric_limits<float>::infinity();
  const auto sum = reduced<float>({{inf, inf, 1.0F}, {1.0F, -inf, std::nanf("")}},
                                  DataType::float32, Reduction::sum);
  EXPECT_EQ(sum[0], inf);
  EXPECT_TRUE(std::isnan(sum[1]));
  EXPECT_TRUE(std::isnan(sum[2]));
}

TEST(Reduce, DoublesKeepTheirPrecision) {
  EXPECT_EQ(reduced<double>({{1.0}, {1e-15}}, DataType::float64, Reduction::sum).at(0),
            1.0 + 1e-15);
}

template <class T>
void expect_integers(DataType type) {
  using Limits = std::numeric_limits<T>;
  using Unsigned = std::make_unsigned_t<T>;
  std::mt19937_64 random{11};
  std::vector<std::vector<T>> ranks(3, std::vector<T>(200));
  for (auto& rank : ranks) {
    for (T& value : rank) value = static_cast<T>(random());
    rank[0] = Limits::max();
    rank[1] = Limits::min();
  }
  const auto sum = reduced(ranks, type, Reduction::sum);
  const auto prod = reduced(ranks, type, Reduction::prod);
  const auto max = reduced(ranks, type, Reduction::max);
  const auto min = reduced(ranks, type, Reduction::min);
  for (std::size_t i = 0; i < 200; ++i) {
    // Modulo 2^n, n the type's width: unsigned arithmetic in 64 bits, cut to n.
    std::uint64_t total = 0, product = 1;
    T largest = Limits::min(), least = Limits::max();
    for (const auto& rank : ranks) {
      total += static_cast<std::uint64_t>(rank[i]);
      product *= static_cast<std::uint64_t>(rank[i]);
      largest = std::max(largest, rank[i]);
      least = std::min(least, rank[i]);
    }
    EXPECT_EQ(sum[i], static_cast<T>(static_cast<Unsigned>(total)));
    EXPECT_EQ(prod[i], static_cast<T>(static_cast<Unsigned>(product)));
    EXPECT_EQ(max[i], largest);
    EXPECT_EQ(min[i], least);
  }
}

TEST(Reduce, IntegersWrap) {
  expect_integers<std::int8_t>(DataType::int8);
  expect_integers<std::uint8_t>(DataType::uint8);
  expect_integers<std::int32_t>(DataType::int32);
  expect_integers<std::uint32_t>(DataType::uint32);
  expect_integers<std::int64_t>(DataType::int64);
  expect_integers<std::uint64_t>(DataType::uint64);
}

TEST(Reduce, AverageOfIntegersTruncates) {
  // NCCL divides the sum as C does.
  EXPECT_EQ(reduced<std::int32_t>({{-3, 7}, {-4, 8}}, DataType::int32, Reduction::avg),
            (std::vector<std::int32_t>{-3, 7}));
  constexpr std::int32_t most = std::numeric_limits<std::int32_t>::max();
  EXPECT_EQ(reduced<std::int32_t>({{most}, {1}}, DataType::int32, Reduction::avg),
            (std::vector<std::int32_t>{-1073741824}));  // the sum wraps
  // More ranks than the type counts.
  const std::vector<std::vector<std::int8_t>> ranks(256, {1});
  EXPECT_EQ(reduced(ranks, DataType::int8, Reduction::avg), std::vector<std::int8_t>{0});
}

TEST(Reduce, ProductsWithAFactorWrap) {
  EXPECT_EQ(reduced<std::int32_t>({{1 << 30}, {5}}, DataType::int32, Reduction::premul_sum, 4.0),
            std::vector<std::int32_t>{20});
}

TEST(Reduce, WhatOneRankDoesNotKnowIsUnknown) {
  const PartlyKnown a{bytes_of<float>({1, 2, 3}), {}};
  PartlyKnown b{bytes_of<float>({4, 5, 6}), std::vector<std::uint8_t>(12, 1)};
  b.known[5] = 0;  // a byte of the second element
  const std::vector<const PartlyKnown*> both = {&a, &b};
  const PartlyKnown sum = reduce(both, DataType::float32, Reduction::sum, 1.0);
  EXPECT_EQ(sum.known, (std::vector<std::uint8_t>{1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1}));
  EXPECT_EQ(values_of<float>(sum.bytes), (std::vector<float>{5, 0, 9}));
  // Eight-bit floats are not reduced at all.
  const PartlyKnown eighth = reduce(both, DataType::float8e4m3, Reduction::sum, 1.0);
  EXPECT_EQ(eighth.known, std::vector<std::uint8_t>(12, 0));
}

TEST(PartlyKnownBytes, ArriveAsTheyWereSent) {
  std::mt19937 random{5};
  for (int round = 0; round < 200; ++round) {
    PartlyKnown data;
    data.bytes.resize(random() % 40);
    data.known.resize(data.bytes.size());
    for (std::size_t i = 0; i < data.bytes.size(); ++i) {
      data.known[i] = round % 3 == 0 ? 1 : round % 3 == 1 ? 0 : random() % 2;
      if (data.known[i] != 0) data.bytes[i] = static_cast<std::byte>(random());
    }
    const auto message = channel::packed(data);
    const PartlyKnown back = channel::unpacked(message);
    ASSERT_EQ(back.bytes, data.bytes);
    for (std::size_t i = 0; i < data.bytes.size(); ++i) {
      ASSERT_EQ(back.is_known(i), data.is_known(i));
    }
    if (round % 3 == 1) {
      ASSERT_LE(message.size(), 9U);
    }
  }
}

// --- Matching and moving ---

class Ranks {
 public:
  explicit Ranks(int count) : count_{count}, order_(static_cast<std::size_t>(count)) {}

  /// Each rank calls `op` with its int32 operand, in the order `who`; returns results by rank.
  std::map<int, std::vector<std::int32_t>> call(
      Collective op, std::uint64_t elements, int root,
      const std::vector<std::vector<std::int32_t>>& operands, const std::vector<int>& who,
      Reduction reduction = Reduction::sum) {
    std::vector<Delivered> all;
    for (const int rank : who) {
      const auto r = static_cast<std::size_t>(rank);
      data_.call({.process = static_cast<std::uint32_t>(rank),
                  .ticket = ++ticket_[r],
                  .communicator = 5,
                  .rank = rank,
                  .ranks = count_,
                  .op = op,
                  .type = DataType::int32,
                  .reduction = reduction,
                  .peer = root,
                  .count = elements},
                 order_[r]++);
      const auto results =
          data_.operand(static_cast<std::uint32_t>(rank), ticket_[r], sent(operands[r]));
      if (rank != who.back()) {
        EXPECT_TRUE(results.empty()) << "delivered before all have called";
      }
      all.insert(all.end(), results.begin(), results.end());
    }
    std::map<int, std::vector<std::int32_t>> by_rank;
    for (const Delivered& one : all) {
      by_rank[static_cast<int>(one.process)] = received<std::int32_t>(one);
    }
    return by_rank;
  }

 private:
  int count_;
  SmallData data_;
  std::vector<std::uint64_t> order_;
  std::map<std::size_t, std::uint64_t> ticket_;
};

using Results = std::map<int, std::vector<std::int32_t>>;
const std::vector<std::vector<std::int32_t>> three = {{1, 2, 3}, {10, 20, 30}, {100, 200, 300}};

TEST(SmallData, EveryCollectiveMovesWhatNcclMoves) {
  Ranks ranks{3};
  const std::vector<int> order = {2, 0, 1};
  EXPECT_EQ(ranks.call(Collective::all_reduce, 3, 0, three, order),
            (Results{{0, {111, 222, 333}}, {1, {111, 222, 333}}, {2, {111, 222, 333}}}));
  EXPECT_EQ(ranks.call(Collective::all_reduce, 3, 0, three, order, Reduction::max),
            (Results{{0, {100, 200, 300}}, {1, {100, 200, 300}}, {2, {100, 200, 300}}}));
  EXPECT_EQ(ranks.call(Collective::reduce, 3, 1, three, order),
            (Results{{0, {}}, {1, {111, 222, 333}}, {2, {}}}));
  EXPECT_EQ(ranks.call(Collective::reduce_scatter, 1, 0, three, order),
            (Results{{0, {111}}, {1, {222}}, {2, {333}}}));
  const std::vector<std::int32_t> all = {1, 2, 3, 10, 20, 30, 100, 200, 300};
  EXPECT_EQ(ranks.call(Collective::all_gather, 3, 0, three, order),
            (Results{{0, all}, {1, all}, {2, all}}));
  EXPECT_EQ(ranks.call(Collective::gather, 3, 2, three, order),
            (Results{{0, {}}, {1, {}}, {2, all}}));
  EXPECT_EQ(ranks.call(Collective::broadcast, 3, 1, {{}, {10, 20, 30}, {}}, order),
            (Results{{0, {10, 20, 30}}, {1, {10, 20, 30}}, {2, {10, 20, 30}}}));
  EXPECT_EQ(ranks.call(Collective::scatter, 1, 2, {{}, {}, {100, 200, 300}}, order),
            (Results{{0, {100}}, {1, {200}}, {2, {300}}}));
  EXPECT_EQ(ranks.call(Collective::all_to_all, 1, 0, three, order),
            (Results{{0, {1, 10, 100}}, {1, {2, 20, 200}}, {2, {3, 30, 300}}}));
}

/// A message of rank `from` to `to`, as either side calls it.
SmallData::Call message(bool sends, int from, int to, std::uint64_t ticket) {
  return {.process = static_cast<std::uint32_t>(sends ? from : to),
          .ticket = ticket,
          .communicator = 1,
          .rank = sends ? from : to,
          .ranks = 2,
          .op = sends ? Collective::send : Collective::recv,
          .type = DataType::int32,
          .peer = sends ? to : from,
          .count = 1};
}

TEST(SmallData, MessagesOfAPairMatchInOrder) {
  SmallData data;
  // Rank 1 receives twice before rank 0 sends.
  data.call(message(false, 0, 1, 1), 0);
  data.call(message(false, 0, 1, 2), 1);
  EXPECT_TRUE(data.operand(1, 1, {}).empty());
  EXPECT_TRUE(data.operand(1, 2, {}).empty());
  for (const std::int32_t value : {7, 8}) {
    const auto ticket = static_cast<std::uint64_t>(value);
    data.call(message(true, 0, 1, ticket), ticket - 7);
    const auto results = data.operand(0, ticket, sent<std::int32_t>({value}));
    ASSERT_EQ(results.size(), 1U);
    EXPECT_EQ(results[0].process, 1U);
    EXPECT_EQ(results[0].ticket, ticket - 6);
    EXPECT_EQ(received<std::int32_t>(results[0]), std::vector<std::int32_t>{value});
  }
}

TEST(SmallData, BothDirectionsOfAPairAreApart) {
  SmallData data;
  data.call(message(true, 0, 1, 1), 0);
  data.call(message(true, 1, 0, 1), 0);
  EXPECT_TRUE(data.operand(0, 1, sent<std::int32_t>({5})).empty());
  EXPECT_TRUE(data.operand(1, 1, sent<std::int32_t>({6})).empty());
  data.call(message(false, 1, 0, 2), 0);
  const auto to_zero = data.operand(0, 2, {});
  ASSERT_EQ(to_zero.size(), 1U);
  EXPECT_EQ(received<std::int32_t>(to_zero[0]), std::vector<std::int32_t>{6});
}

TEST(SmallData, ARankMaySendToItself) {
  SmallData data;
  data.call(message(true, 0, 0, 1), 0);
  EXPECT_TRUE(data.operand(0, 1, sent<std::int32_t>({9})).empty());
  data.call(message(false, 0, 0, 2), 0);
  const auto results = data.operand(0, 2, {});
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0].ticket, 2U);
  EXPECT_EQ(received<std::int32_t>(results[0]), std::vector<std::int32_t>{9});
}

TEST(SmallData, UnknownBytesStayUnknownOnTheWay) {
  SmallData data;
  const auto call = [&](int rank, std::uint64_t order) {
    data.call({.process = static_cast<std::uint32_t>(rank),
               .ticket = order + 1,
               .communicator = 3,
               .rank = rank,
               .ranks = 2,
               .op = Collective::all_gather,
               .type = DataType::int32,
               .count = 1},
              order);
  };
  call(0, 0);
  call(1, 0);
  const PartlyKnown nothing{Bytes8(4), std::vector<std::uint8_t>(4, 0)};
  EXPECT_TRUE(data.operand(0, 1, sent<std::int32_t>({9})).empty());
  const auto results = data.operand(1, 1, channel::packed(nothing));
  ASSERT_EQ(results.size(), 2U);
  for (const Delivered& one : results) {
    const PartlyKnown got = channel::unpacked(one.bytes);
    EXPECT_EQ(got.known, (std::vector<std::uint8_t>{1, 1, 1, 1, 0, 0, 0, 0}));
    EXPECT_EQ(values_of<std::int32_t>(got.bytes), (std::vector<std::int32_t>{9, 0}));
  }
}

TEST(SmallData, UnknownTicketsDeliverNothing) {
  SmallData data;
  EXPECT_TRUE(data.operand(0, 42, {}).empty());
}

}  // namespace
}  // namespace phantora::run
