#include <phantora/simulation/host_cost.hpp>

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
  HostScale host;
  EXPECT_DOUBLE_EQ(host.scale(), HostScale::scale_there);
  host.sample(30us);  // half as fast as where it was calibrated
  EXPECT_DOUBLE_EQ(host.scale(), HostScale::scale_there / 2);
  host.sample(14us);  // an eighth of the way
  EXPECT_DOUBLE_EQ(host.scale(), HostScale::scale_there * 15 / 28);
  for (int i = 0; i < 200; ++i) host.sample(15us);
  EXPECT_NEAR(host.scale(), HostScale::scale_there, 1e-9);
}

}  // namespace
}  // namespace phantora
