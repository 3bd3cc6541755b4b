#include <phantora/error.hpp>
#include <phantora/flow_network.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

namespace phantora {

class FlowNetwork::Impl {
 public:
  enum class Kind { start, cancel, cap, capacity };
  struct Input {
    Time at;
    Kind kind;
    std::uint64_t id;
    double value;
    std::uint64_t order;
  };
  struct Flow {
    FlowSpec spec;
    Route route;
    bool running = false;
    double remaining = 0, rate = 0, cap = 0;
    Time since{};
    Time end = never;
    std::optional<Time> completion{};
    std::optional<LinkId> bottleneck{};
  };

  explicit Impl(NetworkView network) : view{std::move(network)} { reset(); }

  void reset() {
    capacity.assign(view.link_count(), 0);
    for (std::size_t l = 0; l < view.link_count(); ++l)
      capacity[l] = view.capacities()[l].bytes_per_second();
    for (Flow& f : flows) {
      f.running = false;
      f.rate = 0;
      f.cap = f.spec.rate_cap.bytes_per_second();
      f.completion.reset();
      f.bottleneck.reset();
      f.end = never;
    }
    active.clear();
    cursor = 0;
    now = Time{};
  }

  void add(Input input) {
    if (input.at < committed) throw CommitError{"a change before the last commit"};
    input.order = next_order++;
    const auto at = std::upper_bound(inputs.begin(), inputs.end(), input,
                                     [](const Input& a, const Input& b) { return a.at < b.at; });
    const auto index = static_cast<std::size_t>(at - inputs.begin());
    inputs.insert(at, input);
    if (index < cursor || input.at < now || (input.at == now && ran)) {
      const Time until = now;
      reset();
      ++statistics.rollbacks;
      advance(until);
    }
  }

  Time next() const {
    Time t = cursor < inputs.size() ? inputs[cursor].at : never;
    for (const std::size_t f : active) t = std::min(t, flows[f].end);
    return t;
  }

  void solve() {
    ++statistics.events;
    std::vector<double> left = capacity, weight(capacity.size(), 0.0);
    std::vector<std::size_t> open = active;
    for (const std::size_t f : open)
      for (const LinkUse& u : flows[f].route.links)
        weight[u.link.value] += u.bytes_per_byte * flows[f].spec.shares;
    const auto fix = [&](std::size_t f, double level, std::optional<LinkId> by) {
      Flow& flow = flows[f];
      const double rate = std::min(flow.cap, level * flow.spec.shares);
      for (const LinkUse& u : flow.route.links) {
        left[u.link.value] = std::max(0.0, left[u.link.value] - rate * u.bytes_per_byte);
        weight[u.link.value] -= u.bytes_per_byte * flow.spec.shares;
      }
      if (rate != flow.rate) {
        flow.remaining -= flow.rate * to_seconds(now - flow.since);
        flow.since = now;
        flow.rate = rate;
        flow.end =
            rate > 0 ? now + duration_from_seconds(std::max(0.0, flow.remaining) / rate) : never;
        ++statistics.rate_changes;
      }
      flow.bottleneck = by;
    };
    while (!open.empty()) {
      double level = std::numeric_limits<double>::infinity();
      std::optional<LinkId> link;
      for (const std::size_t f : open) {
        for (const LinkUse& u : flows[f].route.links) {
          const double l = left[u.link.value] / weight[u.link.value];
          if (l < level) {
            level = l;
            link = u.link;
          }
        }
        if (flows[f].cap / flows[f].spec.shares <= level) {
          level = flows[f].cap / flows[f].spec.shares;
          link.reset();
        }
      }
      std::vector<std::size_t> rest;
      for (const std::size_t f : open) {
        const auto& links = flows[f].route.links;
        const bool capped = flows[f].cap / flows[f].spec.shares <= level;
        const bool held = link && std::any_of(links.begin(), links.end(),
                                              [&](const LinkUse& u) { return u.link == *link; });
        if (capped || held) {
          fix(f, level, capped ? std::nullopt : link);
        } else {
          rest.push_back(f);
        }
      }
      open = std::move(rest);
    }
  }

  void advance(Time until) {
    while (next() <= until && next() != never) {
      now = next();
      std::erase_if(active, [&](std::size_t f) {
        Flow& flow = flows[f];
        if (flow.end > now) return false;
        flow.completion = now + flow.route.latency + flow.spec.latency;
        flow.running = false;
        flow.rate = 0;
        return true;
      });
      for (; cursor < inputs.size() && inputs[cursor].at == now; ++cursor) {
        const Input& in = inputs[cursor];
        switch (in.kind) {
          case Kind::start: {
            Flow& flow = flows[in.id];
            flow.running = true;
            flow.remaining = static_cast<double>(flow.spec.size.count());
            flow.since = now;
            active.push_back(in.id);
            break;
          }
          case Kind::cancel:
            if (std::erase(active, in.id) > 0) {
              flows[in.id].running = false;
              flows[in.id].rate = 0;
            }
            break;
          case Kind::cap:
            flows[in.id].cap = in.value;
            break;
          case Kind::capacity:
            capacity[in.id] = in.value;
            break;
        }
      }
      solve();
    }
    if (until != never) now = std::max(now, until);
    ran = true;
  }

  NetworkView view;
  std::vector<Flow> flows;
  std::vector<Input> inputs;
  std::vector<double> capacity;
  std::vector<std::size_t> active;
  std::size_t cursor = 0;
  std::uint64_t next_order = 0;
  Time now{}, committed{};
  bool ran = false;
  FlowStatistics statistics;
};

FlowNetwork::FlowNetwork(NetworkView network) : impl_{std::make_unique<Impl>(std::move(network))} {}
FlowNetwork::FlowNetwork(FlowNetwork&&) noexcept = default;
FlowNetwork& FlowNetwork::operator=(FlowNetwork&&) noexcept = default;
FlowNetwork::~FlowNetwork() = default;

FlowId FlowNetwork::start(FlowSpec spec) {
  PHANTORA_EXPECTS(spec.size > Bytes{0}, "a flow has a size");
  PHANTORA_EXPECTS(spec.shares > 0 && spec.rate_cap > Bandwidth{0.0}, "positive shares and cap");
  if (spec.start < impl_->committed) throw CommitError{"a flow starts before the last commit"};
  Route route;
  if (spec.links.empty()) {
    PHANTORA_EXPECTS(impl_->view.router(), "a flow names its links in a network without routes");
    route = impl_->view.router()->route({.src = spec.src, .dst = spec.dst, .key = spec.key});
  } else {
    route.links = spec.links;
  }
  const FlowId id{impl_->flows.size()};
  const Time at = spec.start;
  impl_->flows.push_back({.spec = std::move(spec), .route = std::move(route)});
  impl_->flows.back().cap = impl_->flows.back().spec.rate_cap.bytes_per_second();
  impl_->add({at, Impl::Kind::start, id.value, 0, 0});
  return id;
}
void FlowNetwork::cancel(FlowId flow, Time at) {
  impl_->add({at, Impl::Kind::cancel, flow.value, 0, 0});
}
void FlowNetwork::set_rate_cap(FlowId flow, Time at, Bandwidth cap) {
  impl_->add({at, Impl::Kind::cap, flow.value, cap.bytes_per_second(), 0});
}
void FlowNetwork::set_capacity(LinkId link, Time at, Bandwidth capacity) {
  impl_->add({at, Impl::Kind::capacity, link.value, capacity.bytes_per_second(), 0});
}
Time FlowNetwork::now() const noexcept { return impl_->now; }
Time FlowNetwork::next_event() const noexcept { return impl_->next(); }
void FlowNetwork::advance_to(Time until) { impl_->advance(until); }
std::optional<Time> FlowNetwork::completion(FlowId flow) const {
  return impl_->flows.at(flow.value).completion;
}
Bandwidth FlowNetwork::rate(FlowId flow) const {
  return Bandwidth{impl_->flows.at(flow.value).rate};
}
Bandwidth FlowNetwork::load(LinkId link) const {
  double sum = 0;
  for (const std::size_t f : impl_->active)
    for (const LinkUse& u : impl_->flows[f].route.links)
      if (u.link == link) sum += u.bytes_per_byte * impl_->flows[f].rate;
  return Bandwidth{sum};
}
std::optional<LinkId> FlowNetwork::bottleneck(FlowId flow) const {
  return impl_->flows.at(flow.value).bottleneck;
}
Checkpoint FlowNetwork::checkpoint() const { return {impl_->now, impl_->next_order}; }
void FlowNetwork::rollback(const Checkpoint& checkpoint) {
  std::erase_if(impl_->inputs, [&](const auto& in) { return in.order >= checkpoint.inputs; });
  impl_->reset();
  impl_->advance(checkpoint.now);
}
void FlowNetwork::commit(Time gvt) { impl_->committed = std::max(impl_->committed, gvt); }
void FlowNetwork::forget(FlowId) {}
Subscription FlowNetwork::subscribe(FlowObserver&) { return {}; }
const FlowStatistics& FlowNetwork::statistics() const noexcept { return impl_->statistics; }

}  // namespace phantora
