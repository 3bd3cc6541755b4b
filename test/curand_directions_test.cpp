#include "cuda/curand/directions.hpp"

#include <algorithm>
#include <array>
#include <bitset>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace phantora::curand {
namespace {

constexpr std::size_t dimension_37 = 36;

// As cuRAND of CUDA 13.0 has them (CURAND_DIRECTION_VECTORS_32_JOEKUO6 and _64_).
TEST(CurandDirections, FirstDimensionsAreCurandsOwn) {
  const auto all = direction_vectors<std::uint32_t>(false);
  ASSERT_EQ(all.size(), 32 * sobol_dimensions);
  for (unsigned i = 0; i < 32; ++i) EXPECT_EQ(all[i], 0x80000000U >> i);
  const std::array<std::uint32_t, 32> last{
      0x80000000, 0xc0000000, 0x60000000, 0x50000000, 0x18000000, 0xdc000000, 0x42000000,
      0x37000000, 0x20800000, 0xf1400000, 0x28600000, 0x94900000, 0x87880000, 0xa83c0000,
      0x556a0000, 0xe6ef0000, 0xf8038000, 0x4c024000, 0x3a01e000, 0xbb023000, 0x7a816800,
      0x1a43ac00, 0x4ae18a00, 0x52d31900, 0x8f682380, 0xcded9740, 0xfa80bfa0, 0xda43f2b0,
      0x2ae2cb88, 0x2d07b4c,  0x976ad5a6, 0x11eddbb5};
  EXPECT_TRUE(std::equal(last.begin(), last.end(), all.begin() + 32 * dimension_37));
  const auto wide = direction_vectors<unsigned long long>(false);
  EXPECT_EQ(wide[64 * dimension_37 + 62], 0xa200d5ab56ad5a42U);
  EXPECT_EQ(wide[64 * dimension_37 + 63], 0xa702dbb76eddbb37U);
}

// There are phi(2^n - 1) / n of degree n.
TEST(CurandDirections, PolynomialsArePrimitive) {
  const auto all = primitive_polynomials(sobol_dimensions - 1);
  std::array<int, 19> of_degree{};
  for (const Polynomial& polynomial : all) ++of_degree.at(polynomial.degree);
  EXPECT_EQ(of_degree, (std::array<int, 19>{0, 1, 1, 2, 2, 6, 6, 18, 16, 48, 60, 176, 144, 630, 756,
                                            1800, 2048, 7710, 6575}));
  EXPECT_EQ(all[6].coefficients, 2U);  // x^5 + x^2 + 1
  EXPECT_EQ(all[7].coefficients, 4U);  // x^5 + x^3 + 1
}

// Of 256 numbers one lies in each of 256 equal parts of the unit interval.
TEST(CurandDirections, EachDimensionFillsTheUnitIntervalEvenly) {
  for (const bool scrambled : {false, true}) {
    const auto all = direction_vectors<std::uint32_t>(scrambled);
    std::set<std::vector<std::uint32_t>> dimensions;
    for (auto vectors = all.begin(); vectors != all.end(); vectors += 32) {
      std::bitset<256> parts;
      for (unsigned number = 0; number < 256; ++number) {
        std::uint32_t value = 0;
        for (std::ptrdiff_t bit = 0; bit < 8; ++bit)
          if ((number >> bit & 1) != 0) value ^= vectors[bit];
        parts.set(value >> 24);
      }
      ASSERT_TRUE(parts.all()) << (vectors - all.begin()) / 32;
      dimensions.emplace(vectors, vectors + 32);
    }
    EXPECT_EQ(dimensions.size(), sobol_dimensions);
  }
}

}  // namespace
}  // namespace phantora::curand
