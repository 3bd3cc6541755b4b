#include "rank/memory/cached_operands.hpp"

#include "rank/memory/device_memory.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

namespace phantora::rank {
namespace {

constexpr std::size_t MiB = std::size_t{1} << 20U;

class CachedOperandsTest : public testing::Test {
 protected:
  ~CachedOperandsTest() override {
    for (void* address : allocated_) deallocate(address);
  }
  [[nodiscard]] std::byte* memory(std::size_t bytes, int device = 0) {
    allocated_.push_back(allocate(device, bytes));
    return static_cast<std::byte*>(allocated_.back());
  }
  std::unique_ptr<CachedOperands> cached_ = std::make_unique<CachedOperands>();

 private:
  std::vector<void*> allocated_;
};

TEST_F(CachedOperandsTest, TellsWhatIsReadAndNotThere) {
  std::byte* const x = memory(8 * MiB);
  std::byte* const y = memory(8 * MiB);
  const std::array launch{Touched{x, 8 * MiB, true, false}, Touched{y, 8 * MiB, false, true}};
  const auto first = cached_->touch(0, launch);
  EXPECT_EQ(first,
            (KernelQuery::Operands{.read = 8.0 * MiB, .written = 8.0 * MiB, .cold = 8.0 * MiB}));
  EXPECT_EQ(cached_->touch(0, launch).cold, 0);
  // The result of the one is there for the next, which also reads what is not.
  std::byte* const z = memory(24 * MiB);
  const std::array next{Touched{y, 8 * MiB, true, true}, Touched{z, 24 * MiB, true, false}};
  EXPECT_EQ(cached_->touch(0, next),
            (KernelQuery::Operands{.read = 32.0 * MiB, .written = 8.0 * MiB, .cold = 24.0 * MiB}));
}

// 60 MiB of L2 on an H200: 96 MiB leave nothing of what was there before.
TEST_F(CachedOperandsTest, WhatPassesThroughTakesTheirPlace) {
  std::byte* const x = memory(MiB);
  std::byte* const much = memory(96 * MiB);
  const std::array launch{Touched{x, MiB, true, false}};
  cached_->touch(0, launch);
  cached_->touch(0, std::array{Touched{much, 96 * MiB, false, true}});
  EXPECT_EQ(cached_->touch(0, launch).cold, 1.0 * MiB);
}

TEST_F(CachedOperandsTest, ColdIsToldInEighths) {
  std::byte* const x = memory(16 * MiB);
  cached_->touch(0, std::array{Touched{x, 7 * MiB, false, true}});
  // 9 of 16 are missing, which is 4.5 eighths: five.
  EXPECT_EQ(cached_->touch(0, std::array{Touched{x, 16 * MiB, true, false}}).cold, 10.0 * MiB);
}

TEST_F(CachedOperandsTest, EachGpuHasItsOwn) {
  std::byte* const x = memory(MiB);
  const std::array launch{Touched{x, MiB, true, false}};
  cached_->touch(0, launch);
  EXPECT_EQ(cached_->touch(1, launch).cold, 1.0 * MiB);
  EXPECT_EQ(cached_->touch(0, launch).cold, 0);
}

TEST_F(CachedOperandsTest, TheHostsMemoryIsNotThere) {
  std::array<std::byte, 64> host{};
  EXPECT_EQ(cached_->touch(0, std::array{Touched{host.data(), host.size(), true, true}}),
            KernelQuery::Operands{});
  EXPECT_EQ(cached_->touch(0, std::array{Touched{nullptr, MiB, true, false}}),
            KernelQuery::Operands{});
}

}  // namespace
}  // namespace phantora::rank
