#include "rank/memory/device_memory.hpp"

#include "rank/kernels/kernel_launch.hpp"
#include "rank/memory/extents.hpp"
#include "rank/memory/host_reach.hpp"
#include "rank/memory/kept_node.hpp"
#include "rank/memory/sparse_bytes.hpp"
#include "rank/memory/tensor_ends.hpp"
#include "rank/memory/unknown_reads.hpp"
#include "rank_fakes.hpp"

#include <phantora/simulation/host_cost.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace phantora::rank {
namespace {

constexpr std::size_t MiB = 1024 * 1024;

std::byte* bytes_at(void* address) { return static_cast<std::byte*>(address); }

TEST(DeviceMemory, AccountsBlocksOfTwoMiB) {
  const std::size_t before = fakes::process().used;
  void* a = allocate(0, 100);
  void* b = allocate(0, 513);
  EXPECT_EQ(fakes::process().used - before, 2 * MiB);  // both share a block
  EXPECT_EQ(bytes_at(b) - bytes_at(a), 512);           // 100 rounded to the alignment
  void* c = allocate(0, 1 * MiB);
  EXPECT_EQ(fakes::process().used - before, 4 * MiB);
  void* d = allocate(0, 2 * MiB + 1);
  EXPECT_EQ(fakes::process().used - before, 8 * MiB);
  for (void* p : {a, b, c, d}) EXPECT_TRUE(deallocate(p));
  EXPECT_EQ(fakes::process().used, before);
  EXPECT_FALSE(deallocate(a));
  int on_host = 0;
  EXPECT_FALSE(deallocate(&on_host));
  EXPECT_FALSE(is_device_address(&on_host));
}

// What shares a block with other memory is not mapped for itself, and stays when that goes.
TEST(DeviceMemory, CostsMoreWhereTheDriverMapsMemory) {
  Duration& costs = fakes::process().costs;
  const auto cost_of = [&](auto&& call) {
    const Duration before = costs;
    call();
    return costs - before;
  };
  void *a = nullptr, *b = nullptr, *c = nullptr;
  EXPECT_EQ(cost_of([&] { a = allocate(0, 100); }), mapping_cost(2_MiB));
  EXPECT_EQ(cost_of([&] { b = allocate(0, 513); }), Duration{});
  EXPECT_EQ(cost_of([&] { c = allocate(0, 2 * MiB + 1); }), mapping_cost(4_MiB));
  EXPECT_EQ(cost_of([&] { deallocate(a); }), Duration{});
  EXPECT_EQ(cost_of([&] { deallocate(b); }), unmapping_cost(2_MiB));
  EXPECT_EQ(cost_of([&] { deallocate(c); }), unmapping_cost(4_MiB));
}

// Page-locked and managed memory, of which the device knows all.
TEST(DeviceMemory, HostMemoryIsAlwaysKnown) {
  char host[8] = "abcdefg";
  char out[8] = {};
  std::uint8_t mask[8] = {};
  EXPECT_TRUE(known(host, 8));
  EXPECT_TRUE(may_know(host, 8));
  EXPECT_TRUE(read(out, host, 8));
  EXPECT_STREQ(out, "abcdefg");
  EXPECT_TRUE(read_with_mask(bytes_at(out), mask, host, 8));
  EXPECT_EQ(mask[7], 1);
  fill(host, 'x', 2);
  write(host + 2, "yz", 2);
  forget(host, 8);
  EXPECT_STREQ(host, "xxyzefg");
  void* device = allocate(0, 8);
  copy(device, host, 8);
  copy(out, device, 8);
  EXPECT_STREQ(out, "xxyzefg");
  EXPECT_TRUE(deallocate(device));
}

/// Numbers of four bytes, from 0 on.
class Counting final : public Deferred {
 public:
  Counting() : Deferred{sizeof(std::uint32_t), 1, 7} {}
  void compute(std::size_t first, std::span<std::byte> elements) const override {
    for (std::size_t i = 0; i < elements.size() / sizeof(std::uint32_t); ++i) {
      const auto number = static_cast<std::uint32_t>(first + i);
      std::memcpy(elements.data() + i * sizeof number, &number, sizeof number);
    }
  }
};

TEST(DeviceMemory, ComputesWhatIsDeferredUntilAnythingIsWrittenThere) {
  char* const numbers = static_cast<char*>(allocate(0, 3 * MiB));
  char* const copied = static_cast<char*>(allocate(0, 3 * MiB));
  const auto put_off = [&] {
    forget(numbers, MiB);
    defer(numbers, MiB, std::make_shared<Counting>());
    return known(numbers, MiB);
  };
  const auto number_at = [](const char* address) {
    std::uint32_t number = 0;
    return read(&number, address, sizeof number) ? std::optional{number} : std::nullopt;
  };
  EXPECT_FALSE(known(numbers, MiB));
  EXPECT_TRUE(put_off());
  EXPECT_TRUE(may_know(numbers + 100, 4));
  EXPECT_FALSE(known(numbers, MiB + 1));
  EXPECT_EQ(number_at(numbers + 4 * 70'000), 70'000U);
  // The bytes of 257, least first, are 1, 1, 0 and 0.
  EXPECT_EQ(number_at(numbers + 4 * 257 + 1), 1U | 2U << 24U);  // then the 2 of 258
  std::array<std::byte, 12> bytes{};
  std::array<std::uint8_t, 12> mask{};
  EXPECT_TRUE(read_with_mask(bytes.data(), mask.data(), numbers + 4 * 9, bytes.size()));
  EXPECT_EQ(bytes[8], std::byte{11});
  EXPECT_EQ(std::ranges::count(mask, 1), 12);
  // A copy of a part begins where the part does.
  copy(copied, numbers + 4096, MiB / 2);
  EXPECT_EQ(number_at(copied), 1024U);
  EXPECT_EQ(number_at(copied + 4096), 2048U);
  EXPECT_FALSE(known(copied, MiB));
  forget(numbers + MiB, MiB);  // the neighbour
  EXPECT_TRUE(known(numbers, MiB));
  write(numbers + 7, "1", 1);
  EXPECT_FALSE(known(numbers, MiB));
  EXPECT_EQ(number_at(numbers), std::nullopt);
  EXPECT_TRUE(put_off());
  fill(numbers + MiB / 2, 1, MiB);
  EXPECT_EQ(number_at(numbers), std::nullopt);
  EXPECT_TRUE(put_off());
  copy(numbers + 1, copied + 2 * MiB, 4);
  EXPECT_EQ(number_at(numbers + 8), std::nullopt);
  EXPECT_TRUE(put_off());
  forget(numbers + MiB - 1, 1);
  EXPECT_EQ(number_at(numbers), std::nullopt);
  EXPECT_TRUE(put_off());
  EXPECT_TRUE(deallocate(numbers));
  EXPECT_EQ(number_at(numbers), std::nullopt);
  EXPECT_EQ(number_at(copied), 1024U);
  EXPECT_TRUE(deallocate(copied));
}

TEST(DeferredReader, LoadsElementsWhereverTheyAre) {
  // More pages of 16 KiB than are kept at a time, forwards, backwards and across their borders.
  DeferredReader reader{{std::make_shared<Counting>(), 4 * 5}};
  constexpr std::size_t many = std::size_t{20} << 20U;
  for (std::size_t i = 0; i < many; i += 4093)
    ASSERT_EQ(reader.load(4 * i, ElementType::uint32).integer, static_cast<std::int64_t>(i + 5));
  for (std::size_t i = many; i > 4093; i -= 4093)
    ASSERT_EQ(reader.load(4 * i, ElementType::int32).integer, static_cast<std::int64_t>(i + 5));
  // Eight bytes from 4,095 on: two elements of which the second is on the next page.
  EXPECT_EQ(reader.load(std::size_t{4} * (4095 - 5), ElementType::int64).integer,
            4095 + (std::int64_t{4096} << 32U));
}

TEST(DeviceMemory, TellsTheShareOfFlagsUntilAnythingIsWrittenThere) {
  char* const flags = static_cast<char*>(allocate(0, 3 * MiB));
  char* const copied = static_cast<char*>(allocate(0, 3 * MiB));
  const auto noted = [&] {
    forget(flags, MiB);
    note_share_set(flags, MiB, 0.25);
    return share_set(flags, MiB);
  };
  EXPECT_EQ(share_set(flags, MiB), std::nullopt);
  EXPECT_EQ(noted(), 0.25);
  EXPECT_EQ(share_set(flags, MiB / 2), std::nullopt);  // of a part nobody knows
  copy(copied, flags, MiB);
  EXPECT_EQ(share_set(copied, MiB), 0.25);
  forget(flags + MiB, MiB);  // the neighbour
  EXPECT_EQ(share_set(flags, MiB), 0.25);
  write(flags + 7, "1", 1);
  EXPECT_EQ(share_set(flags, MiB), std::nullopt);
  EXPECT_EQ(noted(), 0.25);
  fill(flags + MiB / 2, 1, MiB);
  EXPECT_EQ(share_set(flags, MiB), std::nullopt);
  EXPECT_EQ(noted(), 0.25);
  copy(flags + 1, copied + 2 * MiB, 4);
  EXPECT_EQ(share_set(flags, MiB), std::nullopt);
  EXPECT_EQ(noted(), 0.25);
  forget(flags + MiB - 1, 1);
  EXPECT_EQ(share_set(flags, MiB), std::nullopt);
  EXPECT_EQ(noted(), 0.25);
  EXPECT_TRUE(deallocate(flags));
  EXPECT_EQ(share_set(flags, MiB), std::nullopt);
  EXPECT_EQ(share_set(copied, MiB), 0.25);
  EXPECT_TRUE(deallocate(copied));
}

TEST(DeviceMemory, RefusesMoreThanTheCapacity) {
  auto& process = fakes::process();
  process.capacity = process.used + 4 * MiB;
  void* a = allocate(0, 3 * MiB);
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(allocate(0, 1), nullptr);
  EXPECT_TRUE(deallocate(a));
  void* b = allocate(0, 1);
  EXPECT_NE(b, nullptr);
  deallocate(b);
  process.capacity = std::size_t{1} << 40;
}

TEST(DeviceMemory, FindsTheAllocationOfAnAddress) {
  void* a = allocate(1, 3 * MiB);
  const auto found = allocation_of(bytes_at(a) + 3 * MiB - 1);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->device, 1);
  EXPECT_EQ(found->base, a);
  EXPECT_EQ(found->size, 3 * MiB);
  EXPECT_FALSE(allocation_of(bytes_at(a) + 3 * MiB));
  deallocate(a);
  EXPECT_FALSE(allocation_of(a));
}

TEST(DeviceMemory, KnowsWhoseMemoryShowsAtAnAddress) {
  char* const own = static_cast<char*>(allocate(1, 100));
  EXPECT_EQ(owner_of(own), 1);
  EXPECT_EQ(owner_of(own + 99), 1);
  void* const range = reserve_addresses(1, 4 * MiB);
  EXPECT_EQ(owner_of(range), 1);
  show_peer(range, 3);
  EXPECT_EQ(owner_of(bytes_at(range) + 3 * MiB), 3);
  const int on_host = 0;
  EXPECT_EQ(owner_of(&on_host), std::nullopt);

  char* const others = static_cast<char*>(allocate(3, 100));
  EXPECT_TRUE(DeviceMemory::both_allocated_by_one(own, own + 99));
  EXPECT_FALSE(DeviceMemory::both_allocated_by_one(own, others));
  EXPECT_FALSE(DeviceMemory::both_allocated_by_one(range, range));
  EXPECT_FALSE(DeviceMemory::both_allocated_by_one(&on_host, &on_host));
  EXPECT_TRUE(deallocate(others));
  EXPECT_TRUE(release_addresses(range));
  EXPECT_TRUE(deallocate(own));
}

// The model: the free extents in a list.
TEST(FreeExtents, AgreeWithAPlainList) {
  struct Extent {
    std::uint64_t base = 0, size = 0;
    auto operator<=>(const Extent&) const = default;
  };
  std::vector<Extent> model{{1000, 5000}}, taken;
  FreeExtents extents;
  extents.give(1000, 5000);
  std::mt19937_64 random{1};
  for (int i = 0; i < 5000; ++i) {
    if (random() % 2 == 0) {
      const std::uint64_t size = 1 + random() % 300, alignment = std::uint64_t{1} << random() % 6;
      const auto skipped = [&](const Extent& e) {
        return (alignment - e.base % alignment) % alignment;
      };
      std::optional<Extent> best;
      for (const Extent& e : model) {
        if (e.size < size + skipped(e)) continue;
        if (!best || std::pair{e.size, e.base} < std::pair{best->size, best->base}) best = e;
      }
      const auto got = extents.take(size, alignment);
      ASSERT_EQ(got.has_value(), best.has_value());
      if (!best) continue;
      ASSERT_EQ(*got, best->base + skipped(*best));
      std::erase(model, *best);
      if (skipped(*best) > 0) model.push_back({best->base, skipped(*best)});
      const std::uint64_t end = best->base + best->size;
      if (*got + size < end) model.push_back({*got + size, end - *got - size});
      taken.push_back({*got, size});
    } else if (!taken.empty()) {
      std::swap(taken[random() % taken.size()], taken.back());
      Extent given = taken.back();
      taken.pop_back();
      const auto merged = extents.give(given.base, given.size);
      for (const bool before : {true, false}) {
        const auto beside = std::ranges::find_if(model, [&](const Extent& e) {
          return before ? e.base + e.size == given.base : e.base == given.base + given.size;
        });
        if (beside == model.end()) continue;
        given = {std::min(given.base, beside->base), given.size + beside->size};
        model.erase(beside);
      }
      model.push_back(given);
      ASSERT_EQ(merged, (std::pair{given.base, given.size}));
    }
  }
}

TEST(DeviceMemory, ManyAllocationsNeverOverlapAndAllIsGivenBack) {
  const std::size_t before = fakes::process().used;
  std::mt19937 random{7};
  std::map<std::byte*, std::size_t> live;
  for (int step = 0; step < 4000; ++step) {
    if (live.size() > 60 || (!live.empty() && random() % 2 == 0)) {
      auto victim = std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
      ASSERT_TRUE(deallocate(victim->first));
      live.erase(victim);
    } else {
      const std::size_t size = 1 + random() % (random() % 2 == 0 ? 6 * MiB : MiB);
      auto* p = bytes_at(allocate(0, size));
      ASSERT_NE(p, nullptr);
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(p) % 512, 0u);
      const auto next = live.lower_bound(p);
      if (next != live.end()) {
        ASSERT_LE(p + size, next->first);
      }
      if (next != live.begin()) {
        const auto previous = std::prev(next);
        ASSERT_LE(previous->first + previous->second, p);
      }
      live.emplace(p, size);
    }
  }
  for (const auto& [p, size] : live) EXPECT_TRUE(deallocate(p));
  EXPECT_EQ(fakes::process().used, before);
}

TEST(DeviceMemory, UnknownBytesReadAsZerosAndAreCounted) {
  auto* p = bytes_at(allocate(0, 10000));
  const int value = 42;
  write(p + 4094, &value, sizeof value);  // crosses a page
  int back = 7;
  EXPECT_TRUE(read(&back, p + 4094, sizeof back));
  EXPECT_EQ(back, 42);
  auto& unknown = fakes::process().counters["unknown_reads"];
  const auto before = unknown;
  std::vector<unsigned char> all(10000, 0xff);
  EXPECT_FALSE(read(all.data(), p, all.size()));
  EXPECT_EQ(unknown, before + 1);
  EXPECT_EQ(all[0], 0);
  EXPECT_EQ(all[4094], 42);
  deallocate(p);
  auto* again = bytes_at(allocate(0, 10000));
  ASSERT_EQ(again, p);
  EXPECT_FALSE(read(&back, again + 4094, sizeof back));
  EXPECT_EQ(back, 0);  // never what the freed allocation held
  deallocate(again);
}

TEST(DeviceMemory, AddressRangesHoldDataWithoutMemory) {
  const std::size_t before = fakes::process().used;
  auto* p = bytes_at(reserve_addresses(0, 3 * MiB));
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(fakes::process().used, before);
  EXPECT_EQ(allocation_of(p + 5)->size, 4 * MiB);
  fill(p + 5, 9, 1);
  EXPECT_TRUE(known(p + 5, 1));
  EXPECT_TRUE(release_addresses(p));
  EXPECT_FALSE(known(p + 5, 1));
  EXPECT_FALSE(release_addresses(p));
}

TEST(DeviceMemory, AddressRangesBeginWhereTheyAreAskedTo) {
  const auto at = [](void* address) { return reinterpret_cast<std::uintptr_t>(address); };
  void* const small = reserve_addresses(0, 2 * MiB);
  void* const wide = reserve_addresses(0, 6 * MiB, 64 * MiB);
  EXPECT_EQ(at(wide) % (64 * MiB), 0U);
  void* const next = reserve_addresses(0, 2 * MiB);  // what was skipped is not lost
  EXPECT_EQ(at(next), at(small) + 2 * MiB);
  void* const too_wide = reserve_addresses(0, 2 * MiB, std::size_t{1} << 50);
  EXPECT_EQ(too_wide, nullptr);
  for (void* range : {small, wide, next}) EXPECT_TRUE(release_addresses(range));
  void* const all = reserve_addresses(0, 70 * MiB);
  EXPECT_EQ(all, small);
  EXPECT_TRUE(release_addresses(all));
}

TEST(DeviceMemory, OnlyWhatIsMappedWithAccessIsReached) {
  auto* p = bytes_at(reserve_addresses(0, 8 * MiB));
  EXPECT_FALSE(allocation_of(p)->reachable || reachable(p, 1));
  grant_access(p, 2 * MiB);
  grant_access(p + 2 * MiB, 4 * MiB);
  EXPECT_TRUE(allocation_of(p + 6 * MiB - 1)->reachable && reachable(p + 1, 6 * MiB - 1));
  EXPECT_FALSE(allocation_of(p + 6 * MiB)->reachable || reachable(p + 1, 6 * MiB));
  revoke_access(p);
  EXPECT_FALSE(reachable(p, 1));
  EXPECT_TRUE(reachable(p + 2 * MiB, 4 * MiB));
  release_addresses(p);
  EXPECT_FALSE(reachable(p + 2 * MiB, 1));

  auto* whole = bytes_at(allocate(0, 3 * MiB));
  EXPECT_TRUE(reachable(whole + 5, 3 * MiB - 5) && allocation_of(whole)->reachable);
  EXPECT_FALSE(reachable(whole + 5, 3 * MiB));
  deallocate(whole);
}

// A process's memory is an object: here it lies on a GPU that no other has, with a ledger of 6 MiB.
class OwnDeviceMemory : public testing::Test {
 protected:
  static constexpr int device = DeviceMemory::max_devices - 1;
  static inline std::size_t used = 0;
  OwnDeviceMemory() { used = 0; }

  WriterLog writers;
  std::optional<DeviceMemory> memory{std::in_place,
                                     Ledger{[](int, std::size_t bytes) noexcept {
                                              if (used + bytes > 6 * MiB) return false;
                                              used += bytes;
                                              return true;
                                            },
                                            [](int, std::size_t bytes) noexcept { used -= bytes; }},
                                     writers};
};

TEST_F(OwnDeviceMemory, AsksItsLedger) {
  void* const four = memory->allocate(device, 4 * MiB);
  ASSERT_NE(four, nullptr);
  EXPECT_EQ(memory->allocate(device, 3 * MiB), nullptr);
  EXPECT_EQ(used, 4 * MiB);
  EXPECT_NE(memory->allocate(device, 100), nullptr);
  EXPECT_EQ(used, 6 * MiB);
  EXPECT_TRUE(memory->deallocate(four));
  EXPECT_EQ(used, 2 * MiB);
}

TEST_F(OwnDeviceMemory, KnowsNothingOfAnother) {
  void* const own = memory->allocate(device, 8);
  memory->write(own, "abcdefg", 8);
  EXPECT_TRUE(memory->known(own, 8));
  EXPECT_FALSE(allocation_of(own));  // the process's own memory, which has no such GPU in use
}

// Its addresses are free when it ends: the next object has them, and none of the bytes.
TEST_F(OwnDeviceMemory, EndsWithItsAddresses) {
  void* const first = memory->allocate(device, 8);
  memory->write(first, "abcdefg", 8);
  const Ledger none{[](int, std::size_t) noexcept { return true; },
                    [](int, std::size_t) noexcept {}};
  memory.reset();
  memory.emplace(none, writers);
  void* const second = memory->allocate(device, 8);
  EXPECT_EQ(second, first);
  EXPECT_FALSE(memory->may_know(second, 8));
}

TEST_F(OwnDeviceMemory, OneMemoryAtTwoAddresses) {
  auto* const home = bytes_at(memory->allocate(device, 4 * MiB));
  auto* const shown = bytes_at(memory->reserve_addresses(device, 4 * MiB));
  memory->show(shown + 2 * MiB, home, 2 * MiB);
  memory->write(shown + 2 * MiB - 2, "abcd", 4);
  char out[3] = {};
  EXPECT_TRUE(memory->read(out, home, 2));
  EXPECT_STREQ(out, "cd");
  memory->show_nothing(shown + 2 * MiB);
  EXPECT_FALSE(memory->may_know(shown + 3 * MiB, 2));
  EXPECT_TRUE(memory->release_addresses(shown));
}

// Another process may have written what lay there; what this one writes then it has to read again:
// choices of a router, positions of tokens, beside the one buffer that was to be shown.
TEST_F(OwnDeviceMemory, WhatOthersSeeIsForgottenOnce) {
  auto* const shown = bytes_at(memory->allocate(device, 1024));
  auto* const own = bytes_at(memory->allocate(device, 1024));
  memory->write(shown, "abcdefg", 8);
  memory->write(own, "abcdefg", 8);
  EXPECT_FALSE(memory->show_others(shown + 8));  // nothing begins there
  int on_host = 0;
  EXPECT_FALSE(memory->show_others(&on_host));
  EXPECT_TRUE(memory->known(shown, 8));
  EXPECT_TRUE(memory->show_others(shown));
  EXPECT_FALSE(memory->known(shown, 1));
  EXPECT_TRUE(memory->known(own, 8));
  memory->fill(shown + 4, 7, 8);
  EXPECT_FALSE(memory->known(shown, 8));
  EXPECT_TRUE(memory->known(shown + 4, 8));
  EXPECT_FALSE(memory->known(shown + 12, 1));
}

TEST_F(OwnDeviceMemory, RangesOfOthersStayUnknownUntilTheyAreReleased) {
  auto* const range = bytes_at(memory->reserve_addresses(device, 2 * MiB));
  EXPECT_TRUE(memory->show_others(range));
  memory->fill(range, 7, 2 * MiB);
  EXPECT_FALSE(memory->may_know(range, 2 * MiB));
  EXPECT_TRUE(memory->release_addresses(range));
  EXPECT_FALSE(memory->show_others(range));
  ASSERT_EQ(memory->reserve_addresses(device, 2 * MiB), range);
  memory->fill(range, 7, 2 * MiB);
  EXPECT_TRUE(memory->known(range, 2 * MiB));
}

TEST(WriterLog, KnowsTheLatestThroughCopies) {
  WriterLog log;
  std::array<std::byte, 64> memory{};
  log.note(&memory[0], 16, {.name = "first"});
  log.note(&memory[8], 8, {.name = "second"});
  log.note_copy(&memory[32], &memory[0], 16);
  EXPECT_STREQ(log.last(&memory[7]).name, "first");
  EXPECT_STREQ(log.last(&memory[8]).name, "second");
  EXPECT_STREQ(log.last(&memory[32 + 15]).name, "second");
  EXPECT_EQ(log.last(&memory[16]).name, nullptr);
  log.note(&memory[0], 16, {});  // whoever gets freed memory next
  EXPECT_EQ(log.last(&memory[0]).name, nullptr);
}

TEST(WriterLog, ForgetsTheOldest) {
  WriterLog log;
  std::array<std::byte, 2> memory{};
  log.note(&memory[0], 1, {.name = "old"});
  for (std::size_t i = 1; i < WriterLog::kept; ++i) log.note(&memory[1], 1, {.name = "new"});
  EXPECT_STREQ(log.last(&memory[0]).name, "old");
  log.note(&memory[1], 1, {.name = "new"});
  EXPECT_EQ(log.last(&memory[0]).name, nullptr);
}

TEST(TensorEnds, AreThoseOfTheLatestWrites) {
  TensorEnds ends;
  std::array<std::byte, 64> memory{};
  EXPECT_EQ(ends.bytes_from(&memory[16]), 0);
  ends.note(&memory[0], 64);
  EXPECT_EQ(ends.bytes_from(&memory[16]), 48);
  ends.note(&memory[0], 32);
  EXPECT_EQ(ends.bytes_from(&memory[16]), 16);
  EXPECT_EQ(ends.bytes_from(&memory[32]), 32);
  EXPECT_EQ(ends.count(), 2);
  EXPECT_EQ(ends.bytes_from(&memory[16], 1), 48);
  EXPECT_EQ(ends.bytes_from(&memory[16], 0), 0);
  for (std::size_t i = 0; i < TensorEnds::kept; ++i) ends.note(&memory[63], 1);
  EXPECT_EQ(ends.bytes_from(&memory[16]), 0);
  EXPECT_EQ(ends.bytes_from(&memory[16], 2), 0);
}

TEST(HostReach, HoldsRangesByTheirStart) {
  HostReach reach;
  std::array<std::byte, 64> memory{};
  reach.add(&memory[8], 16);
  EXPECT_FALSE(reach.holds(&memory[7]));
  EXPECT_TRUE(reach.holds(&memory[8]));
  EXPECT_TRUE(reach.holds(&memory[23]));
  EXPECT_FALSE(reach.holds(&memory[24]));
  reach.remove(&memory[8]);
  EXPECT_FALSE(reach.holds(&memory[8]));
}

TEST(ToldPlaces, TellsOfFiveAndLooksForSome) {
  using Tell = ToldPlaces::Tell;
  ToldPlaces places;
  for (const char* place : {"a", "b", "c", "d"}) EXPECT_EQ(places.tell(place), Tell::yes);
  EXPECT_EQ(places.tell("b"), Tell::no);
  EXPECT_EQ(places.tell("e"), Tell::last);
  EXPECT_EQ(places.tell("f"), Tell::no);
  int looks = 0;
  while (places.look()) ++looks;
  EXPECT_EQ(looks, ToldPlaces::most_looked_for);
  EXPECT_TRUE(places.begin());
  EXPECT_FALSE(places.begin());  // the interpreter has not looked yet
  places.end();
  EXPECT_TRUE(places.begin());
}

TEST(KeptNode, ServesTheNextThatIsPut) {
  std::map<int, int> map;
  KeptNode<std::map<int, int>> kept;
  kept.put(map, 1, 10);
  kept.put(map, 2, 20);
  kept.put(map, 2, 21);
  const int* const before = &map.at(1);
  kept.remove(map, map.find(1));
  EXPECT_EQ(map, (std::map<int, int>{{2, 21}}));
  kept.put(map, 2, 22);  // which has a node already
  kept.put(map, 3, 30);
  EXPECT_EQ(map, (std::map<int, int>{{2, 22}, {3, 30}}));
  EXPECT_EQ(&map.at(3), before);
}

// Against a plain array of optional bytes, over a range of a few pages and two regions.
TEST(SparseBytes, AgreesWithAPlainArray) {
  constexpr std::size_t size = 3 * 4096;
  constexpr std::uint64_t base = 2 * MiB - 6000;
  std::mt19937 random{3};
  SparseBytes sparse;
  std::vector<std::optional<std::byte>> plain(size);
  for (int step = 0; step < 3000; ++step) {
    const std::size_t first = random() % size;
    const std::size_t count =
        1 + random() % std::min<std::size_t>(size - first, 1 + random() % 9000);
    const auto value = static_cast<std::byte>(random());
    switch (random() % 5) {
      case 0: {
        std::vector<std::byte> bytes(count);
        for (auto& b : bytes) b = static_cast<std::byte>(random());
        sparse.write(base + first, bytes.data(), count);
        std::copy(bytes.begin(), bytes.end(), plain.begin() + static_cast<std::ptrdiff_t>(first));
        break;
      }
      case 1:
        sparse.fill(base + first, {&value, 1}, count);
        std::fill_n(plain.begin() + static_cast<std::ptrdiff_t>(first), count, value);
        break;
      case 2: {
        std::vector<std::byte> element(std::size_t{1} << random() % 5);
        for (auto& b : element) b = static_cast<std::byte>(random());
        sparse.fill(base + first, element, count);
        for (std::size_t i = 0; i < count; ++i) plain[first + i] = element[i % element.size()];
        break;
      }
      case 3:
        sparse.forget(base + first, count);
        std::fill_n(plain.begin() + static_cast<std::ptrdiff_t>(first), count, std::nullopt);
        break;
      default: {
        const std::size_t to = random() % (size - count + 1);
        sparse.copy(base + to, sparse, base + first, count);
        const std::vector<std::optional<std::byte>> moved(
            plain.begin() + static_cast<std::ptrdiff_t>(first),
            plain.begin() + static_cast<std::ptrdiff_t>(first + count));
        std::copy(moved.begin(), moved.end(), plain.begin() + static_cast<std::ptrdiff_t>(to));
      }
    }
    std::vector<std::byte> back(count, std::byte{0xff});
    const bool all = sparse.read(base + first, back.data(), count);
    bool expected_all = true;
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(back[i], plain[first + i].value_or(std::byte{0}));
      expected_all = expected_all && plain[first + i].has_value();
    }
    ASSERT_EQ(all, expected_all);
    ASSERT_EQ(sparse.known(base + first, count), expected_all);
    std::vector<std::uint8_t> mask(count, 7);
    const bool any = sparse.read_with_mask(base + first, back.data(), mask.data(), count);
    bool expected_any = false;
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(back[i], plain[first + i].value_or(std::byte{0}));
      ASSERT_EQ(mask[i], plain[first + i] ? 1 : 0);
      expected_any = expected_any || plain[first + i];
    }
    ASSERT_EQ(any, expected_any);
    if (any) {
      ASSERT_TRUE(sparse.may_know(base + first, count));
    }
  }
  sparse.forget(0, std::uint64_t{1} << 45);  // visits what is stored, not 32 TiB of pages
  EXPECT_EQ(sparse.stored_pages(), 0u);
}

TEST(SparseBytes, LongFillsCostNothing) {
  constexpr std::uint64_t GiB = 1024 * MiB;
  SparseBytes sparse;
  const std::array<std::byte, 4> element{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  sparse.fill(4096 + 4, element, 64 * GiB);
  EXPECT_EQ(sparse.stored_pages(), 0u);
  EXPECT_TRUE(sparse.known(4096 + 4, 64 * GiB));
  EXPECT_FALSE(sparse.known(4096 + 3, 2));
  // Many writes into it cost the pages that they touch.
  for (std::uint64_t i = 0; i < 100; ++i) sparse.write(GiB + 8 * i, element.data(), 1);
  EXPECT_EQ(sparse.stored_pages(), 1u);
  std::array<std::byte, 9> back{};
  EXPECT_TRUE(sparse.read(GiB + 2, back.data(), back.size()));
  for (std::size_t i = 0; i < back.size(); ++i) {
    EXPECT_EQ(back[i], i == 6 ? element[0] : element[(i + 2) % 4]) << i;
  }
  sparse.copy(100 * GiB + 1, sparse, GiB, 2 * GiB);
  EXPECT_TRUE(sparse.read(101 * GiB, back.data(), 4));
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(back[i], element[(i + 3) % 4]) << i;
}

TEST(DeviceMemory, NoRangeEndsBeyondItsWindow) {
  auto* p = bytes_at(allocate(0, 4096));
  auto* other = bytes_at(allocate(1, 4096));
  fill(p, 1, 4096);
  fill(other, 2, 4096);
  const std::byte three{3};
  fill(p + 1024, {&three, 1}, ~std::size_t{0});
  EXPECT_TRUE(known(p, 4096));
  forget(p + 2048, ~std::size_t{0});
  EXPECT_TRUE(known(p, 2048));
  EXPECT_FALSE(known(p + 2048, 1));
  EXPECT_TRUE(known(other, 4096));  // in the next device's window
  deallocate(p);
  deallocate(other);
}

TEST(Copies, MemsetsOfAnySizeAndUniformCopiesAreKept) {
  Stream& stream = legacy_stream(0);
  const std::size_t size = 64 * MiB;
  auto* p = bytes_at(allocate(0, size));
  fill_async(p, 3, size, stream);
  std::vector<std::byte> back(size);
  copy_async(back.data(), p, size, CopyKind::device_to_host, false, true, stream);
  EXPECT_EQ(std::count(back.begin(), back.end(), std::byte{3}), static_cast<std::ptrdiff_t>(size));
  const std::vector<double> ones(size / sizeof(double), 1.0);
  copy_async(p, ones.data(), size, CopyKind::host_to_device, false, true, stream);
  copy_async(back.data(), p, size, CopyKind::device_to_host, false, true, stream);
  EXPECT_EQ(std::memcmp(back.data(), ones.data(), size), 0);
  deallocate(p);
}

TEST(Copies, LargeCopiesComeBackWhileTheyAreFew) {
  Stream& stream = legacy_stream(0);
  const std::size_t size = kept_bytes / 2 + 8192;
  std::vector<std::byte> host(size), back(size);
  for (std::size_t i = 0; i < size; ++i) host[i] = static_cast<std::byte>(i * i >> 3);
  auto* p = bytes_at(allocate(0, size));
  auto* q = bytes_at(allocate(0, size));
  copy_async(p, host.data(), size, CopyKind::host_to_device, false, true, stream);
  copy_async(back.data(), p, size, CopyKind::device_to_host, false, true, stream);
  EXPECT_EQ(back, host);
  copy_async(q, host.data(), size, CopyKind::host_to_device, false, true, stream);
  EXPECT_FALSE(may_know(q, size));
  deallocate(p);
  copy_async(q, host.data(), size, CopyKind::host_to_device, false, true, stream);
  EXPECT_TRUE(known(q, size));
  deallocate(q);
}

TEST(Copies, SmallDataIsReal) {
  Stream& stream = legacy_stream(0);
  auto* p = bytes_at(allocate(0, 4 * small_bytes));
  std::vector<int> host(small_bytes / sizeof(int));
  for (std::size_t i = 0; i < host.size(); ++i) host[i] = static_cast<int>(i * i);
  auto& launched = fakes::process().launched;
  copy_async(p, host.data(), small_bytes, CopyKind::host_to_device, false, false, stream);
  EXPECT_EQ(launched.back().name, "memcpy_h2d_pageable");
  EXPECT_EQ(launched.back().bytes, static_cast<double>(small_bytes));
  copy_async(p + small_bytes, p, small_bytes, CopyKind::device_to_device, false, false, stream);
  EXPECT_EQ(launched.back().name, "memcpy_d2d");
  std::vector<int> back(host.size());
  const auto synchronizations = fakes::process().synchronizations;
  copy_async(back.data(), p + small_bytes, small_bytes, CopyKind::device_to_host, false, false,
             stream);
  EXPECT_EQ(fakes::process().synchronizations, synchronizations + 1);  // pageable: waits
  EXPECT_EQ(back, host);
  std::vector<char> large(kept_bytes);
  large[100] = 1;
  auto* q = bytes_at(allocate(0, kept_bytes + 1));
  fill_async(q, 7, kept_bytes + 1, stream);
  copy_async(q, large.data(), large.size(), CopyKind::host_to_device, true, false, stream);
  EXPECT_EQ(launched.back().name, "memcpy_h2d_pinned");
  EXPECT_FALSE(known(q, 1));
  EXPECT_FALSE(known(q + kept_bytes - 1, 1));
  EXPECT_TRUE(known(q + kept_bytes, 1));
  deallocate(q);
  fill_async(p, 3, 16, stream);
  EXPECT_EQ(launched.back().name, "memset");
  copy_async(back.data(), p, 16, CopyKind::device_to_host, true, true, stream);
  EXPECT_EQ(back[0], 0x03030303);
  auto* other = bytes_at(allocate(1, 16));
  copy_async(other, p, 16, CopyKind::device_to_device, false, false, stream);
  EXPECT_EQ(launched.back().name, "memcpy_p2p");
  EXPECT_TRUE(known(other, 16));
  deallocate(other);
  deallocate(p);
}

}  // namespace
}  // namespace phantora::rank
