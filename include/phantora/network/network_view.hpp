#pragma once

#include <phantora/ids.hpp>
#include <phantora/units.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace phantora {

/// A flow puts `bytes_per_byte` bytes on `link` for every byte of its own progress (> 0).
struct LinkUse {
  LinkId link{};              ///< which
  double bytes_per_byte = 1;  ///< bytes on the link for each of the flow
  friend bool operator==(const LinkUse&, const LinkUse&) = default;
};

/// The links that carry a flow, and the latency along them.
struct Route {
  std::vector<LinkUse> links{};  ///< in the order of the way
  Duration latency{};            ///< of all of them together
};

/// What a router may look at when a flow starts.
struct RouteRequest {
  NodeId src{};           ///< where it begins
  NodeId dst{};           ///< where it ends
  std::uint64_t key = 0;  ///< FlowSpec::key
  // In bytes per second.
  std::function<double(LinkId)> capacity{};  ///< that the link can carry now; 0: it is down
  std::function<double(LinkId)> load{};      ///< that it carries now
};

/// Chooses the links of a flow. A pure function of the request: replay must choose alike.
class Router {
 public:
  Router() = default;
  Router(const Router&) = delete;
  Router& operator=(const Router&) = delete;
  virtual ~Router() = default;
  /// @throws RouteError if no path joins src to dst over links that are up.
  [[nodiscard]] virtual Route route(const RouteRequest& request) const = 0;
  /// Whether the choice depends on load, so that it must wait for the instant of the start.
  [[nodiscard]] virtual bool depends_on_load() const noexcept { return false; }
};

/// A network as the solver sees it: a capacity per link, and a router.
class NetworkView {
 public:
  /// A network without routes: every flow must name its links.
  explicit NetworkView(std::vector<Bandwidth> capacities)
      : NetworkView{std::move(capacities), {}} {}
  /// @param router  for flows that do not name their links.
  NetworkView(std::vector<Bandwidth> capacities, std::shared_ptr<const Router> router)
      : capacities_{std::make_shared<const std::vector<Bandwidth>>(std::move(capacities))},
        router_{std::move(router)} {}

  /// Links are LinkId{0} to LinkId{link_count() - 1}.
  [[nodiscard]] std::size_t link_count() const noexcept { return capacities_->size(); }
  /// By link.
  [[nodiscard]] std::span<const Bandwidth> capacities() const& noexcept { return *capacities_; }
  void capacities() const&& = delete;  // they go with the view
  /// Null when flows must name their links.
  [[nodiscard]] const Router* router() const noexcept { return router_.get(); }

 private:
  std::shared_ptr<const std::vector<Bandwidth>> capacities_;
  std::shared_ptr<const Router> router_;
};

}  // namespace phantora
