#pragma once

#include "network/flow_table.hpp"
#include "observer_list.hpp"

#include <phantora/network/flow_network.hpp>

#include <vector>

namespace phantora::network {

/// Who observes flows, and what they are told of an event.
class FlowReports {
 public:
  FlowReports(const MaxMin& solver, const FlowTable& flows) : solver_{solver}, flows_{flows} {}

  [[nodiscard]] Subscription subscribe(FlowObserver& observer) {
    return observers_.subscribe(observer);
  }
  [[nodiscard]] bool wanted() const noexcept { return !observers_.empty(); }
  /// Asks what observers want to hear of the event that begins.
  void ask();
  [[nodiscard]] bool rates_wanted() const noexcept { return rates_wanted_; }
  [[nodiscard]] bool loads_wanted() const noexcept { return loads_wanted_; }

  /// Tells what has happened at an instant, after MaxMin has solved for it and before that is
  /// settled.
  void event(Ps at);
  /// Tells that all since an instant is void.
  void rollback(Ps at) {
    observers_.for_each([&](FlowObserver* observer) { observer->on_rollback(to_time(at)); });
  }
  void commit(Time at) {
    observers_.for_each([&](FlowObserver* observer) { observer->on_commit(at); });
  }

 private:
  /// A flow that observers are to hear of, and of what.
  struct Told {
    Slot slot;
    bool rate_changes, starts;
  };
  void gather();
  void gather_ended();

  const MaxMin& solver_;
  const FlowTable& flows_;
  ObserverList<FlowObserver> observers_;
  std::vector<Told> told_;
  bool rates_wanted_ = false, loads_wanted_ = false;  ///< by any of them
};

}  // namespace phantora::network
