#pragma once

#include "network/flow_table.hpp"
#include "network/trail.hpp"

#include <phantora/network/network_view.hpp>

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace phantora::network {

/// Sorts by link and adds up repeated ones.
void merge_links(std::vector<LinkUse>& links);

/// What a router needs to find a flow's route.
struct EndPoints {
  NodeId src, dst;
  std::uint64_t key;
  Duration latency;                      ///< on top of the route's
  std::shared_ptr<const Router> router;  ///< the flow's own, in place of the network's
};

/// The route that a flow had before an instant that changed it.
struct Rerouted {
  Ps at;
  Slot slot;
  std::vector<LinkUse> links;
  Duration latency;
};

/// Which flows have routes that may change, and does change those that load or links that are down
/// make change.
class FlowRoutes {
 public:
  FlowRoutes(const NetworkView& view, MaxMin& solver, FlowTable& flows)
      : view_{view}, solver_{solver}, flows_{flows} {}

  void add(Slot slot, EndPoints ends) { end_points_.insert_or_assign(slot, std::move(ends)); }
  void erase(Slot slot) { end_points_.erase(slot); }
  /// Notes that a link has gone down or come up.
  void set_down(std::uint32_t link, bool down) {
    if (down) {
      down_.push_back(link);
    } else {
      std::erase(down_, link);
    }
  }

  /// Finds the route of a flow that starts at `at`, unless the one that it was told with is right.
  void choose(Slot slot, Ps at);
  /// Moves routed flows off the links that are down, in an order that does not depend on slots.
  void reroute(Ps at);

  /// Gives flows the routes back that they have lost from `at` on. Calls forget(link) for each link
  /// that a flow leaves so.
  template <class Forget>
  void undo_from(Ps at, Forget forget) {
    while (!rerouted_.empty() && rerouted_.back().at >= at) {
      const Rerouted& route = rerouted_.back();
      solver_.for_each_link(route.slot, forget);
      restore(route);
      rerouted_.cut_back(rerouted_.end() - 1);
    }
  }
  void commit(Ps at) {
    rerouted_.drop_while([&](const Rerouted& route) { return route.at < at; });
  }
  [[nodiscard]] std::size_t history_bytes() const noexcept {
    return rerouted_.size() * sizeof(Rerouted);
  }

 private:
  [[nodiscard]] RouteRequest request(const EndPoints& ends) const;
  void take_route(Slot slot, const EndPoints& ends, Ps at);
  void restore(const Rerouted& route);

  const NetworkView& view_;
  MaxMin& solver_;
  FlowTable& flows_;
  std::unordered_map<Slot, EndPoints> end_points_;
  std::vector<std::uint32_t> down_;
  Trail<Rerouted> rerouted_;
};

}  // namespace phantora::network
