#include <phantora/simulation/host_sensitivity.hpp>
#include <phantora/simulation/simulation.hpp>

#include <gtest/gtest.h>

namespace phantora {
namespace {

using namespace std::chrono_literals;

Kernel kernel_of(const char* name, Duration time) {
  Kernel kernel;
  kernel.query.name = name;
  kernel.known = CostEstimate{.duration = time};
  return kernel;
}

const Simulation& one_gpu() {
  static const Simulation simulation{parse_cluster("h200:1x2")};
  return simulation;
}

/// Steps in which the host works before each kernel and waits at the end.
Workload steps(Duration host, Duration kernel, int count) {
  Workload job;
  for (int step = 0; step < count; ++step) {
    for (int i = 0; i < 10; ++i) {
      job.host(0, host);
      job.launch(0, kernel_of("work", kernel));
    }
    job.launch(0, kernel_of("multi_tensor_apply_kernel<Adam>", kernel));
    job.synchronize(0);
  }
  return job;
}

TEST(HostSensitivity, IsThatOfRunsOnSuchHosts) {
  const Duration host = 120us;
  const auto found = host_sensitivity(one_gpu(), steps(host, 10us, 6));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->faster, host_sensitivity(one_gpu(), steps(100us, 10us, 6))->step);
  EXPECT_EQ(found->slower, host_sensitivity(one_gpu(), steps(150us, 10us, 6))->step);
  EXPECT_EQ(found->free, host_sensitivity(one_gpu(), steps({}, 10us, 6))->step);
  // Ten pieces of host work in each step, and nothing that would hide them.
  EXPECT_EQ(found->slower - found->step, 10 * 30us);
  EXPECT_NEAR(found->share(), 1 - to_seconds(found->free) / to_seconds(found->step), 1e-12);
}

TEST(HostSensitivity, AHostAheadOfItsGpuIsNotWaitedFor) {
  const auto found = host_sensitivity(one_gpu(), steps(1us, 5ms, 6));
  ASSERT_TRUE(found);
  EXPECT_LT(found->share(), 0.001);
}

TEST(HostSensitivity, WhatDoesNotRepeatHasNoStep) {
  Workload job;
  job.launch(0, kernel_of("work", 5us));
  EXPECT_FALSE(host_sensitivity(one_gpu(), job));
}

}  // namespace
}  // namespace phantora
