#pragma once

#include <phantora/network/network_view.hpp>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace phantora {

/// What links can carry now (0: down), as in RouteRequest; empty where all are up.
using Capacity = std::function<double(LinkId)>;

/// Lays a collective's flow anew where links are down.
class CollectiveRouter final : public Router {
 public:
  using Lay = std::function<std::vector<LinkUse>(const Capacity&)>;
  CollectiveRouter(std::shared_ptr<const void> communicator, Lay lay)
      : communicator_{std::move(communicator)}, lay_{std::move(lay)} {}
  [[nodiscard]] Route route(const RouteRequest& request) const override {
    return {.links = lay_(request.capacity)};
  }

 private:
  std::shared_ptr<const void> communicator_;  ///< what lay_ refers to
  Lay lay_;
};

}  // namespace phantora
