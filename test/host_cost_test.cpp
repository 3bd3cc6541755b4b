#include <phantora/simulation/host_cost.hpp>

#include <cmath>

#include <gtest/gtest.h>

namespace phantora {
namespace {

using namespace std::chrono_literals;

TEST(HostCost, IsWhatWasMeasured) {
  EXPECT_EQ(host_cost(HostCall::get_device), 80ns);
  EXPECT_EQ(host_cost(HostCall::launch), 4720ns);
  EXPECT_EQ(host_cost(HostCall::nccl_enqueue), 32'380ns);
  for (std::size_t call = 0; call < static_cast<std::size_t>(HostCall::count); ++call)
    EXPECT_GT(host_cost(static_cast<HostCall>(call)), Duration{}) << call;
}

TEST(HostCost, IsWhatThePolicySays) {
  EXPECT_EQ(host_cost(HostCall::launch, {}), 4720ns);
  EXPECT_EQ(host_cost(HostCall::launch, {.kind = HostTime::off}), 0ns);
  EXPECT_EQ(host_cost(HostCall::launch, {.kind = HostTime::fixed, .per_call = 7ns}), 7ns);
}

TEST(HostCost, GrowsWithTheMemoryThatIsMapped) {
  // With the call itself, what test/data/api_cost.jsonl says of cudaMalloc and cudaFree: 61.4 and
  // 41.6 us of 2 MiB, 164.7 and 406.7 us of 1 GiB.
  const auto near = [](Duration cost, double us) {
    EXPECT_NEAR((std::chrono::duration<double, std::micro>{cost}.count()), us, 0.01 * us);
  };
  near(host_cost(HostCall::malloc) + mapping_cost(2_MiB), 61.4);
  near(host_cost(HostCall::malloc) + mapping_cost(1_GiB), 164.7);
  near(host_cost(HostCall::free) + unmapping_cost(2_MiB), 41.6);
  near(host_cost(HostCall::free) + unmapping_cost(1_GiB), 406.7);
  // And the medians of test/data/h200_native_calls.jsonl.gz of page-locked and managed memory.
  near(host_cost(HostCall::malloc) + locking_cost(1_MiB), 632.5);
  near(host_cost(HostCall::malloc) + locking_cost(256_MiB), 85'829.0);
  near(host_cost(HostCall::free) + unlocking_cost(1_MiB), 257.0);
  near(host_cost(HostCall::free) + unlocking_cost(256_MiB), 21'629.0);
  near(host_cost(HostCall::malloc) + managed_cost(1_MiB), 19.2);
  near(host_cost(HostCall::malloc) + managed_cost(256_MiB), 63.8);
  near(host_cost(HostCall::free) + managed_free_cost(1_MiB), 14.8);
  near(host_cost(HostCall::free) + managed_free_cost(256_MiB), 37.1);
  // And of test/data/h200_pool_calls.jsonl.gz, 4 KiB to 16 MiB.
  near(host_cost(HostCall::malloc_async), 0.69);
  near(host_cost(HostCall::free_async), 0.96);
}

TEST(HostCost, GrowsWithTheTimeSinceTheLastCall) {
  const HostTimePolicy measured;
  EXPECT_EQ(host_cost(HostCall::event_query, measured, 0ns), 260ns);
  EXPECT_EQ(host_cost(HostCall::event_query, measured, 4us), 260ns);
  EXPECT_EQ(host_cost(HostCall::event_query, measured, 10us), (260ns + 430ns) / 2);
  EXPECT_EQ(host_cost(HostCall::event_query, measured, 160us), (760ns + 2470ns) / 2);
  EXPECT_EQ(host_cost(HostCall::event_query, measured, 1s), 2470ns);
  // The first of its kind costs the mean of steps.
  EXPECT_EQ(host_cost(HostCall::event_query, measured), 2040ns);
  // Not measured in between: from 4 us to 64 us on one line.
  EXPECT_EQ(host_cost(HostCall::lt_matmul, measured, 34us), (6766ns + 10'240ns) / 2);
  // Gaps do not change what was measured in steps alone.
  EXPECT_EQ(host_cost(HostCall::cudnn_execute, measured, 1us), host_cost(HostCall::cudnn_execute));
  for (std::size_t i = 0; i < static_cast<std::size_t>(HostCall::count); ++i) {
    const auto call = static_cast<HostCall>(i);
    for (auto gap = 1us; gap < 1s; gap *= 2)
      EXPECT_LE(host_cost_after(call, gap), host_cost_after(call, 2 * gap))
          << i << ' ' << gap.count();
  }
}

TEST(HostCost, IsLongerOnASlowerHost) {
  const HostSlowness slow{.work = 2, .calls = 1.5};
  EXPECT_EQ(host_cost(HostCall::launch, {.host = slow}), 7080ns);
  EXPECT_EQ(host_cost(HostCall::launch, {.kind = HostTime::off, .host = slow}), 0ns);
  EXPECT_EQ(host_cost(HostCall::launch, {.kind = HostTime::fixed, .per_call = 7ns, .host = slow}),
            14ns);
  EXPECT_EQ(times(Duration{1}, 1.5), Duration{2});
  EXPECT_EQ(times(1'000s, 1), 1'000s);
}

TEST(HostScale, FollowsTheLatestSamples) {
  const std::chrono::duration<double, std::nano> there = HostScale::work_there;
  HostScale host;
  EXPECT_DOUBLE_EQ(host.scale(), 1);
  host.sample(there / 2);  // twice as fast as an H200's host
  EXPECT_DOUBLE_EQ(host.scale(), 2);
  host.sample(there * 1.5);  // an eighth of the way
  EXPECT_DOUBLE_EQ(host.scale(), 1 / 0.625);
  for (int i = 0; i < 200; ++i) host.sample(there);
  EXPECT_NEAR(host.scale(), 1, 1e-9);
}

// A scale below zero made clocks run backwards.
TEST(HostScale, TakesNoTimeForNotMeasured) {
  HostScale host;
  host.sample(0ns);
  host.sample(-40ns);
  EXPECT_DOUBLE_EQ(host.scale(), 1);
  host.sample(HostScale::work_there * 2);  // the first that counts
  EXPECT_DOUBLE_EQ(host.scale(), 0.5);
}

// After lost_in all but 1/e of what can be lost is; a wait in two parts loses as much as in one.
TEST(CacheRefill, ComesAfterOtherWork) {
  using Time = std::chrono::duration<double, std::nano>;
  const Time whole = CacheRefill::whole, lost_in = CacheRefill::lost_in;
  EXPECT_EQ(CacheRefill::after(Time{0}, Time{0}), Time{0});
  EXPECT_NEAR(CacheRefill::after(Time{0}, lost_in) / whole, 1 - std::exp(-1), 1e-12);
  EXPECT_NEAR(CacheRefill::after(CacheRefill::after(Time{0}, 3ms), 7ms).count(),
              CacheRefill::after(Time{0}, 10ms).count(), 1e-6);
  EXPECT_NEAR(CacheRefill::after(Time{0}, 10s) / whole, 1, 1e-12);
  EXPECT_NEAR(CacheRefill::after(whole, 10s) / whole, 1, 1e-12);
  // A microsecond of a hook's costs 67 ns.
  EXPECT_NEAR(CacheRefill::after(Time{0}, 1us).count(), 66.5, 0.1);
}

// A clock that stood, or a thread that waits for longer where it is simulated.
TEST(CacheRefill, IsNotTakenBack) {
  EXPECT_EQ(CacheRefill::after(1ms, 0ns), 1ms);
  EXPECT_EQ(CacheRefill::after(1ms, -5ms), 1ms);
}

}  // namespace
}  // namespace phantora
