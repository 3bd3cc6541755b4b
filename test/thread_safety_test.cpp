// What says that it is thread-safe, when several threads ask one object that was never asked
// before, which fills its tables then: each gets what one thread alone gets. The preset tsan looks
// at how.
#include <phantora/cluster/topologies.hpp>
#include <phantora/collectives/communicator.hpp>
#include <phantora/kernels/builtin_cost_model.hpp>
#include <phantora/kernels/kernels.hpp>
#include <phantora/network/flow_network.hpp>

#include <algorithm>
#include <latch>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace phantora {
namespace {

/// What each of four threads gets by `ask`, all at once.
template <class Ask>
auto asked_at_once(Ask ask) {
  constexpr int count = 4;
  std::vector<decltype(ask())> answers(count);
  std::latch start{count};
  std::vector<std::jthread> threads;
  for (auto& answer : answers)
    threads.emplace_back([&] {
      start.arrive_and_wait();
      answer = ask();
    });
  threads.clear();
  return answers;
}

TEST(ThreadSafety, RoutesOfATopology) {
  const auto routes = [](const Cluster& cluster) {
    std::vector<std::vector<LinkId>> found;
    for (const NodeId from : cluster.gpus)
      for (const NodeId to : cluster.gpus)
        if (from != to) found.push_back(cluster.topology.route(from, to));
    return found;
  };
  const auto expected = routes(parse_cluster("h200:4x4"));
  const Cluster shared = parse_cluster("h200:4x4");
  for (const auto& found : asked_at_once([&] { return routes(shared); }))
    EXPECT_EQ(found, expected);
}

TEST(ThreadSafety, PlansOfACommunicator) {
  // The end of each operation alone, on a network of the thread's own.
  const auto ends = [](const Cluster& cluster, const Communicator& communicator) {
    std::vector<Time> found;
    for (const CollectiveOp op : {CollectiveOp::all_reduce, CollectiveOp::all_gather,
                                  CollectiveOp::all_to_all, CollectiveOp::broadcast})
      for (const Bytes size : {Bytes{4096}, Bytes{64 << 20}}) {
        FlowNetwork network{cluster.topology.view(cluster.routing)};
        const CollectivePlan plan = communicator.plan(op, size);
        std::vector<FlowId> flows;
        for (FlowSpec flow : plan.flows) {
          flow.start = Time{plan.latency};
          flows.push_back(network.start(std::move(flow)));
        }
        network.advance_to(never);
        Time end{plan.latency};
        for (const FlowId flow : flows) end = std::max(end, *network.completion(flow));
        found.push_back(end);
      }
    return found;
  };
  const Cluster alone = parse_cluster("h200:2x8");
  const auto expected = ends(alone, Communicator{alone, alone.gpus});
  const Cluster shared = parse_cluster("h200:2x8");
  const Communicator communicator{shared, shared.gpus};
  for (const auto& found : asked_at_once([&] { return ends(shared, communicator); }))
    EXPECT_EQ(found, expected);
}

TEST(ThreadSafety, TheBuiltInCostModel) {
  const auto prices = [] {
    const GpuModel gpu = gpu_model("h100");
    const KernelCostModel model = builtin_cost_model(gpu);
    std::vector<Duration> found;
    for (const std::int64_t size : {128, 1000, 4096})
      found.push_back(model.estimate(gemm(size, size, size)).value().duration);
    return found;
  };
  const auto answers = asked_at_once(prices);
  for (const auto& found : answers) EXPECT_EQ(found, prices());
}

}  // namespace
}  // namespace phantora
