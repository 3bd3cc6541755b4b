#pragma once

#include <phantora/cluster/topology.hpp>
#include <phantora/network/network_view.hpp>

#include <memory>
#include <utility>

namespace phantora {

/// Shortest routes on a topology's graph, found on demand: nothing is stored per pair.
class GraphRouter final : public Router {
 public:
  GraphRouter(std::shared_ptr<const Graph> graph, RoutingOptions options)
      : graph_{std::move(graph)}, options_{options} {}
  [[nodiscard]] Route route(const RouteRequest& request) const override;
  [[nodiscard]] bool depends_on_load() const noexcept override {
    return options_.routing == Routing::adaptive;
  }

 private:
  std::shared_ptr<const Graph> graph_;
  RoutingOptions options_;
};

}  // namespace phantora
