#include "rank/runtime/executable.hpp"

#include "rank/runtime/capture.hpp"
#include "rank/runtime/rank.hpp"

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <utility>

namespace phantora::rank {
namespace {

/// Branches that run side by side at most: connections to the device that the driver makes
/// (CUDA_DEVICE_MAX_CONNECTIONS has up to 32).
constexpr std::size_t most_lanes = 32;

/// What comes next in `later` starts after what is in `earlier` now.
void order(Stream& earlier, Stream& later) {
  const Marker marker = record(earlier);
  wait(later, marker);
  forget_marker(marker);
}

}  // namespace

/// Appends the steps of `graph`, whose first ones come behind `before`. False if it has a circle.
bool Executable::append(const Graph& graph, const std::vector<std::size_t>& before, Steps& steps) {
  const std::vector<Node*> nodes = graph.in_order();
  if (nodes.size() != graph.nodes().size()) return false;
  std::unordered_map<const Node*, std::size_t> places;
  for (const Node* const node : nodes) {
    Step step{.node = node, .work = node->work, .data = node->data, .device = node->device};
    for (const Edge& edge : node->dependencies) step.dependencies.push_back(places.at(edge.node));
    if (node->dependencies.empty()) step.dependencies = before;
    if (const Graph* const child = node->work->child()) {
      // The child begins when all that it depends on has come, and ends with the last of it.
      const std::size_t begin = steps.size();
      steps.push_back({.node = node,
                       .begins = true,
                       .work = std::make_shared<EmptyWork>(),
                       .device = node->device,
                       .dependencies = step.dependencies});
      if (!append(*child, {begin}, steps)) return false;
      step.dependencies.clear();
      std::vector<bool> followed(steps.size() - begin, false);
      for (std::size_t i = begin; i < steps.size(); ++i) {
        for (const std::size_t earlier : steps[i].dependencies) {
          if (earlier >= begin) followed[earlier - begin] = true;
        }
      }
      for (std::size_t i = begin; i < steps.size(); ++i) {
        if (!followed[i - begin]) step.dependencies.push_back(i);
      }
    }
    places[node] = steps.size();
    steps.push_back(std::move(step));
  }
  return true;
}

std::unique_ptr<Executable> Executable::make(const Graph& graph, std::uint64_t flags) {
  static std::atomic<std::uint64_t> last{0};
  std::unique_ptr<Executable> made{new Executable};
  if (!append(graph, {}, made->steps_)) return nullptr;
  made->id_ = ++last;
  made->flags_ = flags;
  for (std::size_t i = 0; i < made->steps_.size(); ++i) {
    const Node* const node = std::exchange(made->steps_[i].node, nullptr);
    (made->steps_[i].begins ? made->begins_ : made->places_)[node->id] = i;
  }
  made->assign_lanes();
  made->keep(graph);
  return made;
}

Executable::~Executable() {
  for (const auto& [object, count] : kept_) release(*object, count);
}

void Executable::keep(const Graph& graph) {
  for (const auto& [object, _] : graph.kept()) {
    if (kept_.try_emplace(object, 1).second) retain(*object, 1);
  }
}

/// Each step goes on where one that it depends on was the last, or in a lane of its own. While
/// there are lanes left, no step waits for one that it does not depend on.
void Executable::assign_lanes() {
  // Of each step: how far it has seen each lane, as the number of steps.
  std::vector<std::vector<std::size_t>> seen(steps_.size());
  std::vector<std::size_t> place(steps_.size());  // in its lane, from 1
  std::vector<std::size_t> length;
  constexpr auto none = std::numeric_limits<std::size_t>::max();
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    Step& step = steps_[i];
    std::vector<std::size_t> known(lanes_.size(), 0);
    for (const std::size_t earlier : step.dependencies) {
      for (std::size_t lane = 0; lane < seen[earlier].size(); ++lane)
        known[lane] = std::max(known[lane], seen[earlier][lane]);
    }
    // The lane whose last step it knows of, best one that it depends on itself.
    std::size_t chosen = none, fewest = none;
    for (const std::size_t earlier : step.dependencies) {
      const std::size_t lane = steps_[earlier].lane;
      if (chosen == none && lanes_[lane] == step.device && place[earlier] == length[lane])
        chosen = lane;
    }
    for (std::size_t lane = 0; lane < lanes_.size() && chosen == none; ++lane) {
      if (lanes_[lane] != step.device) continue;
      if (length[lane] > 0 && known[lane] == length[lane]) chosen = lane;
      if (fewest == none || length[lane] < length[fewest]) fewest = lane;
    }
    if (chosen == none && (fewest == none || lanes_.size() < most_lanes)) {
      chosen = lanes_.size();
      lanes_.push_back(step.device);
      length.push_back(0);
      last_of_lane_.push_back(0);
      known.push_back(0);
    } else if (chosen == none) {
      chosen = fewest;
    }
    step.lane = chosen;
    // It has seen all that was before it in its lane.
    std::vector<std::size_t> there(known.size(), 0);
    if (length[chosen] > 0) there = seen[last_of_lane_[chosen]];
    there.resize(known.size(), 0);
    // Later dependencies first: what they have seen need not be waited for.
    std::vector<std::size_t> dependencies = step.dependencies;
    std::ranges::sort(dependencies, std::greater{});
    for (const std::size_t earlier : dependencies) {
      if (there[steps_[earlier].lane] >= place[earlier]) continue;
      step.waits.push_back(earlier);
      steps_[earlier].awaited = true;
      for (std::size_t lane = 0; lane < seen[earlier].size(); ++lane)
        there[lane] = std::max(there[lane], seen[earlier][lane]);
    }
    place[i] = ++length[chosen];
    there[chosen] = place[i];
    seen[i] = std::move(there);
    last_of_lane_[chosen] = i;
  }
}

void Executable::launch(Stream& stream) {
  const std::lock_guard lock{mutex_};
  refuse_if_captured(stream);
  if (last_launched_in_ != nullptr && last_launched_in_ != &stream)
    order(*last_launched_in_, stream);
  last_launched_in_ = &stream;
  std::vector<Stream*> lanes;
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    const bool here = lane == 0 && lanes_[lane] == stream.device;
    lanes.push_back(here ? &stream : &this_rank().branches.beside(stream, lanes_[lane], lane));
    if (!here) order(stream, *lanes.back());
  }
  std::vector<Marker> reached(steps_.size(), 0);
  std::vector<bool> inside(lanes.size(), false);  // behind the lane's first step
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    Stream& lane = *lanes[step.lane];
    for (const std::size_t earlier : step.waits) wait(lane, reached[earlier]);
    if (!inside[step.lane] && !step.dependencies.empty()) {
      in_graph(lane, true);
      inside[step.lane] = true;
    }
    if (step.enabled) {
      step.work->issue(lane);
      for (const DataQueue::Operation& operation : step.data) data::enqueue(lane, operation);
    }
    if (step.awaited) reached[i] = record(lane);
  }
  for (const Marker marker : reached) forget_marker(marker);
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    if (inside[lane]) in_graph(*lanes[lane], false);
  }
  for (Stream* const lane : lanes) {
    if (lane != &stream) order(*lane, stream);
  }
}

const WorkPointer& Executable::work(const Node& node) const {
  return steps_[places_.at(node.id)].work;
}
void Executable::set_work(const Node& node, WorkPointer work) {
  const std::lock_guard lock{mutex_};
  Step& step = steps_[places_.at(node.id)];
  step.work = std::move(work);
  step.data.clear();
}
bool Executable::enabled(const Node& node) const { return steps_[places_.at(node.id)].enabled; }
void Executable::enable(const Node& node, bool enabled) {
  const std::lock_guard lock{mutex_};
  steps_[places_.at(node.id)].enabled = enabled;
}

/// Compares `steps` from `first` on with the own ones up to `last`, and takes over what they do.
std::optional<Executable::Difference> Executable::update(std::size_t first, std::size_t last,
                                                         const Steps& steps) {
  for (std::size_t i = first; i < std::min(last, steps.size()); ++i) {
    if (steps_[i].work->type() != steps[i].work->type())
      return Difference{.node = steps[i].node, .type = true};
    if (steps_[i].device != steps[i].device || steps_[i].dependencies != steps[i].dependencies)
      return Difference{.node = steps[i].node};
  }
  if (last != steps.size()) return Difference{};
  for (std::size_t i = first; i < last; ++i) {
    steps_[i].work = steps[i].work;
    steps_[i].data = steps[i].data;
  }
  return std::nullopt;
}

std::optional<Executable::Difference> Executable::update(const Graph& graph) {
  const std::lock_guard lock{mutex_};
  Steps steps;
  if (!append(graph, {}, steps)) return Difference{};
  const auto differs = update(0, steps_.size(), steps);
  if (!differs) keep(graph);
  return differs;
}

std::optional<Executable::Difference> Executable::update(const Node& child, const Graph& graph) {
  const std::lock_guard lock{mutex_};
  const std::size_t begin = begins_.at(child.id), end = places_.at(child.id);
  Steps steps(steps_.begin(), steps_.begin() + static_cast<std::ptrdiff_t>(begin) + 1);
  if (!append(graph, {begin}, steps)) return Difference{};
  const auto differs = update(begin + 1, end, steps);
  if (!differs) keep(graph);
  return differs;
}

}  // namespace phantora::rank
