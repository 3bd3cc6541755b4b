#include "rank/kernels/gpus_met.hpp"

#include "rank/memory/device_memory.hpp"

#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

namespace phantora::rank {
namespace {

constexpr std::size_t MiB = 1 << 20;

using Devices = std::vector<int>;

/// Constants whose first words are these.
std::vector<std::byte> constants(std::initializer_list<const void*> words) {
  std::vector<std::byte> bank(words.size() * sizeof(void*));
  std::memcpy(bank.data(), words.begin(), bank.size());
  return bank;
}

/// A GPU, 1, that shows memory of GPUs 0 and 3 of its host.
class GpusMet : public testing::Test {
 protected:
  GpusMet() {
    show_peer(of_0, 0);
    show_peer(of_3, 3);
    const std::array<void*, 3> pointers{of_0, own, of_3};
    write(table, pointers.data(), sizeof pointers);
  }
  ~GpusMet() override {
    for (void* const range : {of_0, of_3}) release_addresses(range);
    for (void* const address : {own, table}) deallocate(address);
  }
  GpusMet(const GpusMet&) = delete;
  GpusMet& operator=(const GpusMet&) = delete;

  void* const own = allocate(1, MiB);
  void* const table = allocate(1, 512);
  void* const of_0 = reserve_addresses(1, 2 * MiB);
  void* const of_3 = reserve_addresses(1, 2 * MiB);
};

TEST_F(GpusMet, AreThoseWhoseMemoryParametersLeadTo) {
  EXPECT_EQ(gpus_met(constants({own, nullptr, of_3}), nullptr, 1), (Devices{1, 3}));
  EXPECT_EQ(gpus_met(constants({own, table, reinterpret_cast<void*>(7)}), nullptr, 1),
            (Devices{1, 0, 3}));
  EXPECT_EQ(gpus_met(constants({own}), nullptr, 1), Devices{1});
}

// A structure with room for eight GPUs' pointers has two that were set, and what lay there before.
TEST_F(GpusMet, WhatTheCodeDoesNotLookAtLeadsNowhere) {
  ReadConstants looked_at;
  looked_at.note(0, 2 * sizeof(void*));
  EXPECT_EQ(gpus_met(constants({own, of_0, of_3}), &looked_at, 1), (Devices{1, 0}));
}

// Processes show each other whole allocations of a framework's allocator, tables and all.
TEST_F(GpusMet, ATableIsRememberedThatOthersGetToSee) {
  EXPECT_EQ(gpus_met(constants({table}), nullptr, 1), (Devices{1, 0, 3}));
  forget(table, 512);
  EXPECT_EQ(gpus_met(constants({table}), nullptr, 1), (Devices{1, 0, 3}));
}

}  // namespace
}  // namespace phantora::rank
