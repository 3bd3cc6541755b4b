#include "network/flow_network_impl.hpp"

#include <phantora/error.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace phantora {

using namespace network;

FlowNetwork::Impl::Impl(NetworkView network)
    : view_{std::move(network)},
      solver_{view_.capacities()},
      motion_{solver_, flows_, records_, statistics_, view_.link_count()},
      recorded_{solver_, flows_, records_, motion_, view_.link_count()},
      replay_{solver_, flows_, records_, motion_, recorded_, view_.link_count()},
      routes_{view_, solver_, flows_},
      reports_{solver_, flows_} {
  if (view_.router() && view_.router()->depends_on_load()) selective_ = false;
}

FlowId FlowNetwork::Impl::start(FlowSpec spec) {
  const Time start = spec.start.value_or(now());
  check(spec);
  check_committed(start);
  Duration latency = spec.latency;
  const bool routed = spec.links.empty();
  if (routed) {
    PHANTORA_EXPECTS(view_.router(), "a flow names its links in a network without routes");
    Route route = view_.router()->route({.src = spec.src, .dst = spec.dst, .key = spec.key});
    spec.links = std::move(route.links);
    latency += route.latency;
  }
  merge_links(spec.links);
  for (const LinkUse& use : spec.links) {
    PHANTORA_EXPECTS(use.link.value < view_.link_count(), "a flow uses links of this network");
    PHANTORA_EXPECTS(use.bytes_per_byte > 0 && std::isfinite(use.bytes_per_byte),
                     "a flow puts a positive load on each link");
  }
  const auto bytes = static_cast<double>(spec.size.count());
  PHANTORA_EXPECTS(bytes / spec.shares <= 0x1p59, "a flow has at most 2^59 bytes per share");
  const Slot slot = solver_.create(spec.links, spec.shares, spec.rate_cap.bytes_per_second());
  const std::uint64_t id = flows_.add(slot, work_of(bytes, spec.shares), latency);
  recorded_.add_slots();
  if (routed) {
    routes_.add(slot, {spec.src, spec.dst, spec.key, spec.latency, {}});
  } else if (spec.router && view_.router()) {
    routes_.add(slot, {spec.src, spec.dst, spec.key, spec.latency, std::move(spec.router)});
  }
  tell({.at = to_ps(start), .order = id, .id = id, .kind = Kind::start});
  return FlowId{id};
}

void FlowNetwork::Impl::check(const FlowSpec& spec) const {
  PHANTORA_EXPECTS(spec.size > Bytes{0}, "a flow has a size");
  PHANTORA_EXPECTS(spec.shares > 0 && std::isfinite(spec.shares), "shares are positive");
  PHANTORA_EXPECTS(spec.rate_cap > Bandwidth{0.0}, "a rate cap is positive");
  PHANTORA_EXPECTS(spec.latency >= Duration{0}, "a latency is not negative");
  PHANTORA_EXPECTS(spec.start.value_or(now()) >= Time{}, "time starts at 0");
}

void FlowNetwork::Impl::check_committed(Time at) const {
  if (to_ps(at) < flows_.committed())
    throw CommitError{"a change at " + std::to_string(to_ps(at)) +
                      " ps is told after a commit at " + std::to_string(flows_.committed()) +
                      " ps"};
}

void FlowNetwork::Impl::change(Kind kind, Time at, std::uint64_t id, double value) {
  check_committed(at);
  if (kind != Kind::capacity) {
    PHANTORA_EXPECTS(id < flows_.end(), "a flow of this network");
    if (!flows_.slot_of(id)) return;  // ended before the last commit
  } else {
    PHANTORA_EXPECTS(id < view_.link_count(), "a link of this network");
    if (value <= 0 && view_.router()) selective_ = false;
  }
  if (to_ps(at) <= last_instant_ && !replays_by_difference(kind, to_ps(at), id, value))
    undo_for_late_ = true;
  tell({.at = to_ps(at), .order = next_order_++, .id = id, .value = value, .kind = kind});
}

void FlowNetwork::Impl::tell(const Input& input) {
  pending_.push_back(input);
  std::push_heap(pending_.begin(), pending_.end());
}

/// The earliest of what is pending.
Input FlowNetwork::Impl::take_input() {
  std::pop_heap(pending_.begin(), pending_.end());
  const Input input = pending_.back();
  pending_.pop_back();
  return input;
}

Time FlowNetwork::Impl::next_event() {
  catch_up();
  const Ps next = next_instant();
  return next == none ? never : to_time(next);
}

void FlowNetwork::Impl::advance(Time until) {
  run(until == never ? none - 1 : std::max(now_, to_ps(until)));
  now_ = std::max(now_, until == never ? last_instant_ : to_ps(until));
}

std::optional<Time> FlowNetwork::Impl::completion(std::uint64_t id) {
  catch_up();
  return flows_.completion(id);
}

double FlowNetwork::Impl::rate(std::uint64_t id) {
  catch_up();
  const auto slot = flows_.slot_of(id);
  return slot ? solver_.rate(*slot) : 0.0;
}

double FlowNetwork::Impl::load(std::uint32_t link) {
  catch_up();
  PHANTORA_EXPECTS(link < view_.link_count(), "a link of this network");
  return solver_.load(link);
}

std::optional<LinkId> FlowNetwork::Impl::bottleneck(std::uint64_t id) {
  catch_up();
  const auto slot = flows_.slot_of(id);
  if (!slot || !solver_.present(*slot)) return std::nullopt;
  const std::uint32_t link = solver_.bottleneck(*slot);
  if (link >= MaxMin::own_cap) return std::nullopt;
  return LinkId{link};
}

std::vector<LinkUse> FlowNetwork::Impl::links(std::uint64_t id) {
  catch_up();
  const auto slot = flows_.slot_of(id);
  return slot ? solver_.uses(*slot) : std::vector<LinkUse>{};
}

void FlowNetwork::Impl::rollback(const Checkpoint& checkpoint) {
  PHANTORA_EXPECTS(checkpoint.now <= now(), "a checkpoint lies in the past");
  check_committed(checkpoint.now);
  const auto later = [&](const Input& in) {
    return in.order >= (in.kind == Kind::start ? checkpoint.flows : checkpoint.inputs);
  };
  Ps from = to_ps(checkpoint.now) + 1;
  for (std::uint64_t i = applied_.begin(); i < applied_.end(); ++i)
    if (later(applied_[i])) from = std::min(from, applied_[i].at);
  const std::uint64_t flows = flows_.end();
  for (std::uint64_t id = std::max(checkpoint.flows, flows_.begin()); id < flows; ++id)
    if (const auto slot = flows_.slot_of(id)) from = std::min(from, start_of(*slot));
  undo_from(from);
  for (const Input& in : pending_)
    if (later(in) && in.kind == Kind::start) release(*flows_.slot_of(in.id));
  std::erase_if(pending_, later);
  std::make_heap(pending_.begin(), pending_.end());
  next_order_ = checkpoint.inputs;
  now_ = to_ps(checkpoint.now);
  run(now_);
}

void FlowNetwork::Impl::commit(Time gvt) {
  PHANTORA_EXPECTS(gvt <= now(), "only the past is committed");
  catch_up();
  const Ps at = to_ps(gvt);
  if (at <= flows_.committed()) return;
  flows_.commit(at);
  if (last_instant_ < at) solver_.allow_easing(true);
  records_.moves.drop_before(at, [&](std::uint64_t record) {
    const Moved& move = records_.moves[record];
    if (move.ends && flows_.progress(move.slot).last == record) release(move.slot);
  });
  records_.shifts.drop_before(at, [](std::uint64_t) {});
  applied_.drop_while([&](const Input& input) { return input.at < at; });
  routes_.commit(at);
  reports_.commit(gvt);
}

void FlowNetwork::Impl::forget(std::uint64_t id) {
  PHANTORA_EXPECTS(!flows_.slot_of(id), "a flow is forgotten after it ended in committed time");
  if (const auto slot = flows_.kept_in(id)) release(*slot);
  flows_.forget(id);
}

/// Frees the slot of a flow that has ended in committed time, or was told after a checkpoint.
void FlowNetwork::Impl::release(Slot slot) {
  flows_.release(slot);
  routes_.erase(slot);
  solver_.erase(slot);
}

std::size_t FlowNetwork::Impl::history_bytes() const noexcept {
  return records_.moves.bytes() + records_.shifts.bytes() + applied_.size() * sizeof(Input) +
         routes_.history_bytes() + replay_.history_bytes();
}

FlowNetwork::FlowNetwork(NetworkView network) : impl_{std::make_unique<Impl>(std::move(network))} {}
FlowNetwork::FlowNetwork(FlowNetwork&&) noexcept = default;
FlowNetwork& FlowNetwork::operator=(FlowNetwork&&) noexcept = default;
FlowNetwork::~FlowNetwork() = default;

FlowId FlowNetwork::start(FlowSpec spec) { return impl_->start(std::move(spec)); }
void FlowNetwork::cancel(FlowId flow, Time at) { impl_->change(Kind::cancel, at, flow.value, 0); }
void FlowNetwork::set_rate_cap(FlowId flow, Time at, Bandwidth cap) {
  PHANTORA_EXPECTS(cap > Bandwidth{0.0}, "a rate cap is positive");
  impl_->change(Kind::cap, at, flow.value, cap.bytes_per_second());
}
void FlowNetwork::set_capacity(LinkId link, Time at, Bandwidth capacity) {
  PHANTORA_EXPECTS(capacity >= Bandwidth{0.0}, "a capacity is not negative");
  impl_->change(Kind::capacity, at, link.value, capacity.bytes_per_second());
}
Time FlowNetwork::now() const noexcept { return impl_->now(); }
Time FlowNetwork::next_event() const { return impl_->next_event(); }
void FlowNetwork::advance_to(Time until) { impl_->advance(until); }
std::optional<Time> FlowNetwork::completion(FlowId flow) const {
  return impl_->completion(flow.value);
}
Bandwidth FlowNetwork::rate(FlowId flow) const { return Bandwidth{impl_->rate(flow.value)}; }
Bandwidth FlowNetwork::load(LinkId link) const { return Bandwidth{impl_->load(link.value)}; }
std::optional<LinkId> FlowNetwork::bottleneck(FlowId flow) const {
  return impl_->bottleneck(flow.value);
}
std::vector<LinkUse> FlowNetwork::links(FlowId flow) const { return impl_->links(flow.value); }
Checkpoint FlowNetwork::checkpoint() const { return impl_->checkpoint(); }
void FlowNetwork::rollback(const Checkpoint& checkpoint) { impl_->rollback(checkpoint); }
void FlowNetwork::commit(Time gvt) { impl_->commit(gvt); }
void FlowNetwork::forget(FlowId flow) { impl_->forget(flow.value); }
std::size_t FlowNetwork::history_bytes() const noexcept { return impl_->history_bytes(); }
Subscription FlowNetwork::subscribe(FlowObserver& observer) { return impl_->subscribe(observer); }
const FlowStatistics& FlowNetwork::statistics() const noexcept { return impl_->statistics(); }

}  // namespace phantora
