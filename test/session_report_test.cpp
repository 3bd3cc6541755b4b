#include <phantora/cluster/cluster.hpp>
#include <phantora/simulation/session.hpp>
#include <phantora/simulation/session_report.hpp>
#include <phantora/simulation/step_observer.hpp>

#include <string>

#include <gtest/gtest.h>

namespace phantora {
namespace {

using namespace std::chrono_literals;

/// Every kernel takes 10 us; what it is known by says "roofline" for names that begin with r.
struct Ten {
  [[nodiscard]] std::optional<CostEstimate> estimate(const KernelQuery& query) const {
    const bool roofline = query.name.starts_with('r');
    return CostEstimate{.duration = 10us,
                        .source = roofline ? CostSource::roofline : CostSource::measured};
  }
};
KernelCostModel ten(const GpuModel&) { return Ten{}; }

constexpr DeviceTiming ideal{
    .launch_latency = {}, .kernel_gap = {}, .broken_waves = 1, .memory_contention = 0};

TEST(SessionReport, SaysWhatEachGpuDid) {
  const Cluster cluster = parse_cluster("h200:1x2+l40s:1x1");
  Session session{cluster, ten, ideal};
  StepObserver observed;
  const Subscription told = session.subscribe(observed);
  const QueryIndex adam = session.add_query({.name = "FusedAdam"}),
                   gemm = session.add_query({.name = "gemm"}),
                   other = session.add_query({.name = "rare"}, 2);
  session.add_stream(StreamId{1}, 0, 0);
  session.add_stream(StreamId{2}, 2, 1);
  for (int step = 0; step < 3; ++step) {
    for (int layer = 0; layer < 2; ++layer) session.launch(StreamId{1}, Time{}, gemm);
    session.launch(StreamId{1}, Time{}, adam);
  }
  session.launch(StreamId{2}, Time{}, other);
  (void)session.advance({});
  const SessionReport report = session_report(cluster, session, observed);

  EXPECT_EQ(report.makespan, Time{90us});
  EXPECT_EQ(report.late_operations, 0U);
  ASSERT_EQ(report.kinds.size(), 2U);
  EXPECT_EQ(report.kinds[0].model, "NVIDIA H200");
  EXPECT_EQ(report.kinds[1].model, "NVIDIA L40S");
  ASSERT_EQ(report.gpus.size(), 3U);
  EXPECT_EQ(report.gpus[0].kind, 0U);
  EXPECT_EQ(report.gpus[1].kind, 0U);
  EXPECT_EQ(report.gpus[2].kind, 1U);
  EXPECT_EQ(report.gpus[0].use.busy, 90us);
  EXPECT_EQ(report.gpus[1].use.busy, 0us);
  EXPECT_EQ(report.most_steps(), &report.gpus[0]);
  EXPECT_EQ(report.gpus[0].steps.median(), 30us);

  // The longest kernels first; those of equal time by name.
  ASSERT_EQ(report.kernels.size(), 3U);
  EXPECT_EQ(report.kernels[0].name, "gemm");
  EXPECT_EQ(report.kernels[0].count, 6U);
  EXPECT_EQ(report.kernels[0].total, 60us);
  EXPECT_EQ(report.kernels[1].name, "FusedAdam");
  EXPECT_EQ(report.kernels[2].name, "rare");
  EXPECT_EQ(report.kernels[2].source, CostSource::roofline);
  EXPECT_EQ(report.kernel_time()[static_cast<std::size_t>(CostSource::measured)], 90us);
  EXPECT_EQ(report.kernel_time()[static_cast<std::size_t>(CostSource::roofline)], 10us);
  EXPECT_DOUBLE_EQ(report.share_of_kernels(10us), 0.1);
}

TEST(SessionReport, OfAKernelTellsWhatItsGridPriced) {
  const Cluster cluster = parse_cluster("h200:1x1");
  const Session session{cluster, ten, ideal};
  StepObserver observed;
  for (const auto source : {CostSource::code, CostSource::grid, CostSource::code})
    observed.on_span({.source = source, .name = "mine", .start = Time{1us}, .end = Time{3us}});
  const SessionReport report = session_report(cluster, session, observed);
  ASSERT_EQ(report.kernels.size(), 1U);
  EXPECT_EQ(report.kernels[0].total, 6us);
  EXPECT_EQ(report.kernels[0].by_grid, 2us);
}

TEST(SessionReport, OfGpusThatWereNotUsed) {
  const Cluster cluster = parse_cluster("h200:1x2");
  const Session session{cluster, ten, ideal};
  const SessionReport report = session_report(cluster, session, StepObserver{});
  EXPECT_EQ(report.gpus.size(), 2U);
  EXPECT_EQ(report.kinds.size(), 1U);
  EXPECT_EQ(report.most_steps(), nullptr);
  EXPECT_EQ(report.share_of_kernels(Duration{}), 0.0);
}

}  // namespace
}  // namespace phantora
