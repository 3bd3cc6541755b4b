#include "cuda/driver/driver_state.hpp"

#include <array>
#include <cstddef>

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

}  // namespace
}  // namespace phantora::driver
