#pragma once

#include "simulation/device.hpp"

#include <memory_resource>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace phantora::detail {

/// A marker from the first that is told of it: it is recorded on one stream, and others, and
/// blocking calls, wait until that stream has come to it.
struct MarkerState {
  Device* device = nullptr;  ///< where it was recorded
  std::optional<Time> completed{};
  std::vector<StreamQueue*> waiting{};
  int waits = 0;                          ///< appended and not yet reached by their streams
  std::vector<std::uint64_t> requests{};  ///< that it has held up
  bool dropped = false;
  [[nodiscard]] bool forgettable() const { return dropped && completed && waits == 0; }
};

/// All markers of a session.
class Markers {
 public:
  /// A stream of this device is to come to the marker.
  void record(MarkerId marker, Device& device) {
    MarkerState& state = markers_[marker];
    // Until now those that wait for it were taken to wait for another GPU.
    if (state.device == nullptr)
      for (StreamQueue* waiting : state.waiting)
        if (waiting->device == &device) device.add_foreign_wait(-1);
    state.device = &device;
  }
  /// A stream is to wait for the marker.
  void add_wait(MarkerId marker) { ++markers_[marker].waits; }

  /// The stream has come to the marker: those that wait for it go on. @return the blocking calls
  /// that it has held up
  std::vector<std::uint64_t> complete(MarkerId marker, Time at) {
    MarkerState& state = markers_[marker];
    state.completed = at;
    std::vector<std::uint64_t> requests = std::exchange(state.requests, {});
    for (StreamQueue* waiting : std::exchange(state.waiting, {})) {
      if (waiting->device != state.device) waiting->device->add_foreign_wait(-1);
      waiting->device->wake(*waiting, at);
      --state.waits;
    }
    if (state.forgettable()) markers_.erase(marker);
    return requests;
  }

  /// A stream has come to where it waits. @return when the marker has completed; otherwise the
  /// stream will be woken
  std::optional<Time> await(MarkerId marker, StreamQueue& waiting) {
    MarkerState& state = markers_.at(marker);
    if (state.completed) {
      const Time at = *state.completed;
      --state.waits;
      if (state.forgettable()) markers_.erase(marker);
      return at;
    }
    state.waiting.push_back(&waiting);
    if (waiting.device != state.device) waiting.device->add_foreign_wait(+1);
    return std::nullopt;
  }

  /// Nobody will ask for the marker again.
  void drop(MarkerId marker) {
    const auto found = markers_.find(marker);
    if (found == markers_.end()) return;
    found->second.dropped = true;
    if (found->second.forgettable()) markers_.erase(found);
  }

  /// Null if nobody recorded the marker or waits for it, or it was dropped after completion.
  [[nodiscard]] MarkerState* find(MarkerId marker) {
    const auto found = markers_.find(marker);
    return found == markers_.end() ? nullptr : &found->second;
  }
  [[nodiscard]] const MarkerState* find(MarkerId marker) const {
    const auto found = markers_.find(marker);
    return found == markers_.end() ? nullptr : &found->second;
  }
  [[nodiscard]] auto begin() const { return markers_.begin(); }
  [[nodiscard]] auto end() const { return markers_.end(); }

 private:
  // Steps record as many markers as operations: their nodes come and go without the heap.
  std::pmr::unsynchronized_pool_resource nodes_{};
  std::pmr::unordered_map<MarkerId, MarkerState> markers_{&nodes_};
};

}  // namespace phantora::detail
