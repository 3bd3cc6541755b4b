#include "gpu_interconnect.hpp"

#include <phantora/collectives.hpp>
#include <phantora/error.hpp>

#include <algorithm>

namespace phantora {

std::string_view to_string(CollectiveOp op) noexcept {
  switch (op) {
    case CollectiveOp::all_reduce:
      return "all_reduce";
    case CollectiveOp::all_gather:
      return "all_gather";
    case CollectiveOp::reduce_scatter:
      return "reduce_scatter";
    case CollectiveOp::broadcast:
      return "broadcast";
    case CollectiveOp::reduce:
      return "reduce";
    case CollectiveOp::all_to_all:
      return "all_to_all";
    case CollectiveOp::gather:
      return "gather";
    case CollectiveOp::scatter:
      return "scatter";
  }
  return "unknown";
}
std::string_view to_string(Algorithm algorithm) noexcept {
  switch (algorithm) {
    case Algorithm::tree:
      return "tree";
    case Algorithm::ring:
      return "ring";
    case Algorithm::collnet_direct:
      return "collnet_direct";
    case Algorithm::collnet_chain:
      return "collnet_chain";
    case Algorithm::nvls:
      return "nvls";
    case Algorithm::nvls_tree:
      return "nvls_tree";
    case Algorithm::pat:
      return "pat";
    case Algorithm::point_to_point:
      return "point_to_point";
  }
  return "unknown";
}
std::string_view to_string(Protocol protocol) noexcept {
  switch (protocol) {
    case Protocol::ll:
      return "ll";
    case Protocol::ll128:
      return "ll128";
    case Protocol::simple:
      return "simple";
  }
  return "unknown";
}

class Communicator::Impl {
 public:
  Topology topology;
  std::vector<NodeId> ranks;
  double nvlink_share;  // usable part of the line rate
};

Communicator::Communicator(const Cluster& cluster, std::vector<NodeId> ranks, const NcclVariables&)
    : impl_{std::make_shared<const Impl>(Impl{cluster.topology, std::move(ranks), 370.8 / 450.0})} {
  PHANTORA_EXPECTS(!impl_->ranks.empty(), "at least one rank");
}

int Communicator::size() const noexcept { return static_cast<int>(impl_->ranks.size()); }

CollectivePlan Communicator::plan(CollectiveOp op, Bytes total, int root) const {
  const int n = size();
  PHANTORA_EXPECTS(root >= 0 && root < n, "root is a rank");
  using namespace std::chrono_literals;
  CollectivePlan plan{.channels = n > 1 ? 24 : 0, .latency = 5us};
  if (n == 1 || total <= Bytes{0}) return plan;
  if (op == CollectiveOp::all_to_all || op == CollectiveOp::gather || op == CollectiveOp::scatter) {
    std::vector<SendRecv> group;
    for (int a = 0; a < n; ++a)
      for (int b = 0; b < n; ++b)
        if (a != b &&
            (op == CollectiveOp::all_to_all || (op == CollectiveOp::gather ? b : a) == root))
          group.push_back({a, b, total / n});
    return this->plan(group);
  }
  const double traffic = op == CollectiveOp::all_reduce ? 2.0 * (n - 1) / n
                         : op == CollectiveOp::broadcast || op == CollectiveOp::reduce
                             ? 1.0
                             : 1.0 * (n - 1) / n;
  FlowSpec flow{.size = total};
  std::map<LinkId, double> uses;
  for (int r = 0; r < n; ++r) {
    const NodeId from = impl_->ranks[static_cast<std::size_t>(r)];
    const NodeId to = impl_->ranks[static_cast<std::size_t>((r + 1) % n)];
    for (const LinkId link : impl_->topology.route(from, to))
      uses[link] += traffic / impl_->nvlink_share;
  }
  for (const auto& [link, bytes] : uses) flow.links.push_back({link, bytes});
  plan.flows.push_back(std::move(flow));
  return plan;
}

CollectivePlan Communicator::plan(std::span<const SendRecv> group) const {
  using namespace std::chrono_literals;
  CollectivePlan plan{.algorithm = Algorithm::point_to_point, .channels = 32, .latency = 5us};
  std::uint64_t key = 0;
  for (const SendRecv& message : group) {
    if (message.src_rank == message.dst_rank || message.size <= Bytes{0}) continue;
    FlowSpec flow{.size = message.size, .key = key++};
    for (const LinkId link : impl_->topology.route(
             impl_->ranks.at(static_cast<std::size_t>(message.src_rank)),
             impl_->ranks.at(static_cast<std::size_t>(message.dst_rank)), flow.key))
      flow.links.push_back({link, 1 / impl_->nvlink_share});
    plan.flows.push_back(std::move(flow));
  }
  return plan;
}

}  // namespace phantora
