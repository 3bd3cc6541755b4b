#include "network/flow_routes.hpp"

#include <phantora/error.hpp>

#include <algorithm>
#include <tuple>

namespace phantora::network {

void merge_links(std::vector<LinkUse>& links) {
  // Plans have theirs in order, and each is started many times.
  const auto out_of_order =
      std::adjacent_find(links.begin(), links.end(),
                         [](const LinkUse& a, const LinkUse& b) { return !(a.link < b.link); });
  if (out_of_order == links.end()) return;
  std::sort(links.begin(), links.end(),
            [](const LinkUse& a, const LinkUse& b) { return a.link < b.link; });
  std::size_t kept = 0;
  for (std::size_t i = 0; i < links.size(); ++i) {
    if (kept > 0 && links[kept - 1].link == links[i].link) {
      links[kept - 1].bytes_per_byte += links[i].bytes_per_byte;
    } else {
      links[kept++] = links[i];
    }
  }
  links.resize(kept);
}

RouteRequest FlowRoutes::request(const EndPoints& ends) const {
  return {.src = ends.src,
          .dst = ends.dst,
          .key = ends.key,
          .capacity = [this](LinkId link) { return solver_.capacity(link.value); },
          .load = [this](LinkId link) { return solver_.weight(link.value); }};
}

/// Gives a flow another route, unless the router finds none or the same.
void FlowRoutes::take_route(Slot slot, const EndPoints& ends, Ps at) {
  Route route;
  try {
    route = (ends.router ? ends.router.get() : view_.router())->route(request(ends));
  } catch (const RouteError&) {
    return;  // the flow stalls on the link that is down until a link comes up
  }
  merge_links(route.links);
  std::vector<LinkUse> old = solver_.uses(slot);
  if (old == route.links) return;
  Duration& latency = flows_.identity(slot).latency;
  rerouted_.push({at, slot, std::move(old), latency});
  latency = route.latency + ends.latency;
  if (solver_.present(slot)) {
    solver_.remove(slot);
    solver_.redirect(slot, route.links);
    solver_.insert(slot);
  } else {
    solver_.redirect(slot, route.links);
  }
}

void FlowRoutes::choose(Slot slot, Ps at) {
  if (!view_.router() || (down_.empty() && !view_.router()->depends_on_load())) return;
  const auto ends = end_points_.find(slot);
  if (ends == end_points_.end() || (ends->second.router && down_.empty())) return;
  take_route(slot, ends->second, at);
}

void FlowRoutes::reroute(Ps at) {
  std::vector<Slot> stalled;
  for (const std::uint32_t link : down_)
    solver_.for_each_flow(link, [&](Slot slot) {
      if (end_points_.contains(slot)) stalled.push_back(slot);
    });
  std::sort(stalled.begin(), stalled.end(), [&](Slot a, Slot b) {
    const EndPoints &x = end_points_.at(a), &y = end_points_.at(b);
    return std::tie(x.key, x.src, x.dst, flows_.identity(a).id) <
           std::tie(y.key, y.src, y.dst, flows_.identity(b).id);
  });
  stalled.erase(std::unique(stalled.begin(), stalled.end()), stalled.end());
  for (const Slot slot : stalled) take_route(slot, end_points_.at(slot), at);
}

void FlowRoutes::restore(const Rerouted& route) {
  const std::uint32_t bottleneck = solver_.bottleneck(route.slot);
  if (bottleneck != MaxMin::none) solver_.withdraw(route.slot);
  solver_.redirect(route.slot, route.links);
  if (bottleneck != MaxMin::none) solver_.restore(route.slot, bottleneck);
  flows_.identity(route.slot).latency = route.latency;
}

}  // namespace phantora::network
