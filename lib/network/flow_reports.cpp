#include "network/flow_reports.hpp"

#include <algorithm>

namespace phantora::network {

void FlowReports::ask() {
  rates_wanted_ = loads_wanted_ = false;
  if (!wanted()) return;
  observers_.for_each([&](FlowObserver* observer) {
    rates_wanted_ |= observer->wants_rates();
    loads_wanted_ |= observer->wants_link_loads();
  });
}

/// Finds the flows that observers are told of.
void FlowReports::gather() {
  for (const MaxMin::Move& move : solver_.moves()) {
    const bool changes = solver_.rate(move.flow) != solver_.rate_before(move.flow, move.from);
    if (changes || solver_.bottleneck(move.flow) != move.from)
      told_.push_back({move.flow, changes, move.from == MaxMin::none});
  }
  for (const std::uint32_t link : solver_.shifts()) {
    solver_.for_each_in_group(link, [&](Slot slot) {
      if (!solver_.moved(slot) && solver_.rate(slot) != solver_.rate_before(slot, link))
        told_.push_back({slot, true, false});
    });
  }
}

/// Finds only those that end.
void FlowReports::gather_ended() {
  for (const MaxMin::Move& move : solver_.moves())
    if (flows_.progress(move.flow).state() == State::finished)
      told_.push_back({move.flow, false, false});
}

void FlowReports::event(Ps at) {
  const Time time = to_time(at);
  told_.clear();
  if (rates_wanted_) {
    gather();
  } else {
    gather_ended();
  }
  if (told_.empty() && !loads_wanted_) return;
  std::sort(told_.begin(), told_.end(), [&](const Told& a, const Told& b) {
    return flows_.identity(a.slot).id < flows_.identity(b.slot).id;
  });
  // An observer is null once it has ended its subscription.
  observers_.for_each([&](FlowObserver* const& observer) {
    for (const Told& told : told_) {
      const Identity& flow = flows_.identity(told.slot);
      const FlowId id{flow.id};
      const bool rates = observer && observer->wants_rates();
      if (rates && told.starts) observer->on_flow_start(id, time);
      if (rates && observer && told.rate_changes)
        observer->on_rate_change(id, time, Bandwidth{solver_.rate(told.slot)});
      if (observer && flows_.progress(told.slot).state() == State::finished)
        observer->on_flow_finish(id, time + flow.latency);
    }
    if (!observer || !observer->wants_link_loads()) return;
    for (const std::uint32_t link : solver_.touched_links()) {
      if (!observer) return;
      observer->on_link_load(LinkId{link}, time, Bandwidth{solver_.load(link)});
    }
  });
}

}  // namespace phantora::network
