#include "cuda/driver/driver_state.hpp"

#include <array>
#include <cstddef>
#include <optional>

#include <gtest/gtest.h>

namespace phantora::driver {
namespace {

TEST(HostMemories, RegisteredRangesDoNotOverlap) {
  HostMemories memories;
  alignas(64) std::array<std::byte, 256> memory{};
  std::byte* const start = memory.data();
  EXPECT_TRUE(memories.add(start + 64, 64, 2, 1));
  EXPECT_FALSE(memories.add(start + 64, 64, 0, 0));
  EXPECT_FALSE(memories.add(start + 100, 100, 0, 0));  // begins inside
  EXPECT_FALSE(memories.add(start, 65, 0, 0));         // ends inside
  EXPECT_TRUE(memories.add(start, 64, 0, 0));
  EXPECT_TRUE(memories.add(start + 128, 64, 0, 0));

  const auto found = memories.find(start + 127);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->base, start + 64);
  EXPECT_EQ(found->kind, HostMemoryKind::registered);
  EXPECT_EQ(found->flags, 2u);
  EXPECT_EQ(found->device, 1);
  EXPECT_FALSE(memories.find(start + 192));

  EXPECT_FALSE(memories.free(start + 64));    // it was registered, not allocated
  EXPECT_FALSE(memories.remove(start + 65));  // no range begins there
  EXPECT_TRUE(memories.remove(start + 64));
  EXPECT_FALSE(memories.find(start + 127));
}

TEST(HostMemories, AdviceIsForManagedMemory) {
  HostMemories memories;
  const auto prefer = [](Advice& advice) { advice.preferred = 3; };
  void* const pinned = memories.allocate(4096, HostMemoryKind::allocated, 0, 0);
  auto* const managed =
      static_cast<std::byte*>(memories.allocate(4096, HostMemoryKind::managed, 0, 0));
  EXPECT_EQ(managed[4095], std::byte{0});
  EXPECT_FALSE(memories.advise(pinned, prefer));
  EXPECT_TRUE(memories.advise(managed + 100, prefer));
  EXPECT_EQ(memories.find(managed)->advice.preferred, 3);
  EXPECT_TRUE(memories.free(pinned));
  EXPECT_TRUE(memories.free(managed));
  EXPECT_FALSE(memories.free(managed));
}

TEST(StreamAttributes, AreThoseOfOneStream) {
  StreamAttributes attributes;
  rank::Stream first, second;
  first.id = 1;
  second.id = 2;
  first.priority = -3;
  CUlaunchAttributeValue value{};
  ASSERT_TRUE(attributes.get(first, CU_LAUNCH_ATTRIBUTE_PRIORITY, value));
  EXPECT_EQ(value.priority, -3);  // its own, until it is told another
  value.syncPolicy = CU_SYNC_POLICY_SPIN;
  ASSERT_TRUE(attributes.set(first, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, value));
  ASSERT_TRUE(attributes.get(second, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, value));
  EXPECT_EQ(value.syncPolicy, CU_SYNC_POLICY_AUTO);
  attributes.copy(second, first);
  ASSERT_TRUE(attributes.get(second, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, value));
  EXPECT_EQ(value.syncPolicy, CU_SYNC_POLICY_SPIN);
  attributes.copy(second, rank::Stream{});  // one that was told nothing
  ASSERT_TRUE(attributes.get(second, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, value));
  EXPECT_EQ(value.syncPolicy, CU_SYNC_POLICY_AUTO);
  EXPECT_FALSE(attributes.set(first, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, value));
}

// One context's memory is free on each device at first.
class ContextsTest : public testing::Test {
 protected:
  ContextsTest() { free = 1; }
  static inline int free = 1;
  Contexts contexts{{.reserve = [](int) noexcept { return free > 0 && free-- > 0; },
                     .release = [](int) noexcept { ++free; }}};
};

TEST_F(ContextsTest, TakeTheirMemoryOnce) {
  EXPECT_FALSE(contexts.active(0));
  EXPECT_TRUE(contexts.activate(0));
  EXPECT_TRUE(contexts.activate(0));
  EXPECT_EQ(free, 0);
  EXPECT_FALSE(contexts.activate(1));  // no memory is left
  EXPECT_FALSE(contexts.active(1));
  contexts.deactivate(0);
  contexts.deactivate(0);
  EXPECT_EQ(free, 1);
  EXPECT_TRUE(contexts.activate(1));
  EXPECT_FALSE(contexts.active(-1));
}

TEST_F(ContextsTest, APrimaryContextIsReleasedAsOftenAsItWasRetained) {
  EXPECT_FALSE(contexts.release(0));
  contexts.retain(0);
  contexts.retain(0);
  EXPECT_FALSE(contexts.release(1));
  EXPECT_TRUE(contexts.release(0));
  EXPECT_TRUE(contexts.release(0));
  EXPECT_FALSE(contexts.release(0));
}

TEST_F(ContextsTest, ASecondContextHasFlagsOfItsOwn) {
  Context& primary = contexts.primary(2);
  Context& other = contexts.create(2, CU_CTX_SCHED_SPIN);
  primary.flags = CU_CTX_SCHED_YIELD;
  EXPECT_EQ(&contexts.primary(2), &primary);
  EXPECT_EQ(contexts.primary(2).flags, static_cast<unsigned>(CU_CTX_SCHED_YIELD));
  EXPECT_EQ(other.flags, static_cast<unsigned>(CU_CTX_SCHED_SPIN));
  EXPECT_EQ(other.device, 2);
}

TEST_F(ContextsTest, LimitsAndPeersAreADevices) {
  EXPECT_EQ(contexts.limit(0, CU_LIMIT_STACK_SIZE), 1024u);
  contexts.set_limit(0, CU_LIMIT_STACK_SIZE, 4096);
  EXPECT_EQ(contexts.limit(0, CU_LIMIT_STACK_SIZE), 4096u);
  EXPECT_EQ(contexts.limit(1, CU_LIMIT_STACK_SIZE), 1024u);
  EXPECT_TRUE(contexts.enable_peer(0, 1));
  EXPECT_FALSE(contexts.enable_peer(0, 1));
  EXPECT_TRUE(contexts.enable_peer(1, 0));
  EXPECT_TRUE(contexts.disable_peer(0, 1));
  EXPECT_FALSE(contexts.disable_peer(0, 1));
}

// On a GPU that no other has, with 8 MiB.
class VirtualMemoryTest : public testing::Test {
 protected:
  static constexpr int device = rank::DeviceMemory::max_devices - 1;
  static constexpr std::size_t MiB = 1024 * 1024;
  static inline std::size_t used = 0;
  VirtualMemoryTest() { used = 0; }

  CUdeviceptr reserve(std::size_t bytes) {
    return reinterpret_cast<CUdeviceptr>(memory.reserve_addresses(device, bytes));
  }
  std::optional<VirtualMemory::Handle> create(std::size_t bytes) {
    return blocks.create(device, bytes, CU_MEM_HANDLE_TYPE_NONE);
  }
  void write(CUdeviceptr address, int value) {
    memory.write(reinterpret_cast<void*>(address), &value, sizeof value);
  }
  /// nullopt where it is not known.
  std::optional<int> read(CUdeviceptr address) {
    int value = 0;
    if (!memory.known(reinterpret_cast<void*>(address), sizeof value)) return std::nullopt;
    memory.read(&value, reinterpret_cast<void*>(address), sizeof value);
    return value;
  }

  rank::WriterLog writers;
  const rank::Ledger ledger{[](int, std::size_t bytes) noexcept {
                              if (used + bytes > 8 * MiB) return false;
                              used += bytes;
                              return true;
                            },
                            [](int, std::size_t bytes) noexcept { used -= bytes; }};
  rank::DeviceMemory memory{ledger, writers};
  VirtualMemory blocks{memory, ledger};
};

TEST_F(VirtualMemoryTest, ABlockLivesAsLongAsAHandleOrAMapping) {
  const CUdeviceptr at = reserve(8 * MiB);
  EXPECT_EQ(used, 0u);  // addresses cost nothing
  const auto block = create(4 * MiB);
  ASSERT_TRUE(block);
  EXPECT_EQ(used, 4 * MiB);
  EXPECT_FALSE(create(6 * MiB));
  EXPECT_EQ(used, 4 * MiB);
  EXPECT_TRUE(blocks.map(at, 4 * MiB, *block));
  EXPECT_TRUE(blocks.release(*block));
  EXPECT_FALSE(blocks.release(*block));
  EXPECT_FALSE(blocks.find(*block));
  EXPECT_EQ(used, 4 * MiB);
  EXPECT_FALSE(blocks.free_addresses(at));  // still mapped
  EXPECT_TRUE(blocks.unmap(at, 4 * MiB));
  EXPECT_EQ(used, 0u);
  EXPECT_TRUE(blocks.free_addresses(at));
}

TEST_F(VirtualMemoryTest, OnlyReservedAndFreeAddressesAreMapped) {
  const CUdeviceptr at = reserve(8 * MiB);
  const auto block = create(4 * MiB);
  ASSERT_TRUE(block);
  EXPECT_FALSE(blocks.map(at, 6 * MiB, *block));            // more than it has
  EXPECT_FALSE(blocks.map(at + 6 * MiB, 4 * MiB, *block));  // beyond the range
  EXPECT_FALSE(blocks.map(at, 4 * MiB, *block + 1));        // no such handle
  const auto whole = reinterpret_cast<CUdeviceptr>(memory.allocate(device, 4 * MiB));
  EXPECT_FALSE(blocks.map(whole, 4 * MiB, *block));  // not reserved
  ASSERT_TRUE(blocks.map(at + 2 * MiB, 4 * MiB, *block));
  EXPECT_FALSE(blocks.map(at, 4 * MiB, *block));            // reaches into the first
  EXPECT_FALSE(blocks.map(at + 4 * MiB, 4 * MiB, *block));  // begins in it
  EXPECT_TRUE(blocks.map(at, 2 * MiB, *block));
  EXPECT_FALSE(blocks.unmap(at, 4 * MiB));  // not a whole mapping
  EXPECT_TRUE(blocks.unmap(at, 6 * MiB));
}

TEST_F(VirtualMemoryTest, OneBlockAtThreeAddressesIsOneMemory) {
  const CUdeviceptr at = reserve(12 * MiB);
  const auto block = create(4 * MiB);
  ASSERT_TRUE(block);
  for (const CUdeviceptr offset : {0 * MiB, 4 * MiB, 8 * MiB}) {
    ASSERT_TRUE(blocks.map(at + offset, 4 * MiB, *block));
  }
  write(at + 8 * MiB + 100, 42);
  EXPECT_EQ(read(at + 100), 42);
  EXPECT_EQ(read(at + 4 * MiB + 100), 42);
  // Its data outlive the mapping where they lay.
  EXPECT_TRUE(blocks.unmap(at, 4 * MiB));
  EXPECT_FALSE(read(at + 100));
  EXPECT_EQ(read(at + 8 * MiB + 100), 42);
  write(at + 8 * MiB + 100, 43);
  EXPECT_EQ(read(at + 4 * MiB + 100), 43);
  EXPECT_TRUE(blocks.unmap(at + 8 * MiB, 4 * MiB));
  EXPECT_FALSE(read(at + 8 * MiB + 100));
  EXPECT_EQ(read(at + 4 * MiB + 100), 43);
}

TEST_F(VirtualMemoryTest, WhatIsMappedIsReachedOnceGranted) {
  const CUdeviceptr at = reserve(8 * MiB);
  const auto block = create(2 * MiB);
  ASSERT_TRUE(block);
  EXPECT_FALSE(blocks.grant(at, 2 * MiB));
  ASSERT_TRUE(blocks.map(at, 2 * MiB, *block));
  ASSERT_TRUE(blocks.map(at + 2 * MiB, 2 * MiB, *block));
  EXPECT_EQ(blocks.reachable(at), false);
  EXPECT_FALSE(blocks.grant(at, 6 * MiB));  // not mapped to its end
  EXPECT_TRUE(blocks.grant(at, 4 * MiB));
  EXPECT_EQ(blocks.reachable(at + 4 * MiB - 1), true);
  EXPECT_FALSE(blocks.reachable(at + 4 * MiB));
  EXPECT_TRUE(blocks.unmap(at, 2 * MiB));
  EXPECT_FALSE(blocks.reachable(at));
  EXPECT_EQ(blocks.reachable(at + 2 * MiB), true);
}

TEST_F(VirtualMemoryTest, AHandleIsFoundByItsAddress) {
  const CUdeviceptr at = reserve(4 * MiB);
  const auto block = create(4 * MiB);
  ASSERT_TRUE(block);
  EXPECT_FALSE(blocks.retain(at));
  ASSERT_TRUE(blocks.map(at, 4 * MiB, *block));
  EXPECT_EQ(blocks.retain(at + 3 * MiB), block);
  EXPECT_TRUE(blocks.release(*block));
  EXPECT_TRUE(blocks.find(*block));  // one reference is left
  EXPECT_TRUE(blocks.release(*block));
  const auto again = blocks.retain(at);
  ASSERT_TRUE(again);
  EXPECT_NE(again, block);
  EXPECT_TRUE(blocks.unmap(at, 4 * MiB));
  EXPECT_EQ(used, 4 * MiB);
  EXPECT_TRUE(blocks.release(*again));
  EXPECT_EQ(used, 0u);
}

TEST_F(VirtualMemoryTest, BlocksOfOtherProcessesTakeNoMemoryHere) {
  const auto block = blocks.import(device, 64 * MiB);
  EXPECT_EQ(used, 0u);
  EXPECT_FALSE(blocks.find(block)->own);
  EXPECT_TRUE(blocks.release(block));
  EXPECT_EQ(used, 0u);
}

}  // namespace
}  // namespace phantora::driver
