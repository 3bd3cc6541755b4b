#include "rank/runtime/capture.hpp"

#include "rank/runtime/captures.hpp"
#include "rank/runtime/rank.hpp"
#include "rank/runtime/refusal.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

namespace phantora::rank {

/// A sequence of calls that one cudaStreamBeginCapture began.
struct Capture {
  std::uint64_t id = 0;
  CaptureMode mode{};
  std::thread::id thread{};
  Stream* origin = nullptr;
  std::unique_ptr<Graph> own{};
  Graph* graph = nullptr;
  bool invalidated = false;
  /// What the next node of each captured stream depends on.
  std::map<Stream*, std::vector<Edge>> ends{};
};

/// The end of a captured stream when an event was recorded there.
struct CapturedPoint {
  std::weak_ptr<Capture> capture{};
  std::vector<Edge> dependencies{};
};

namespace detail {
constinit std::atomic<int> capture_count{0};
}

namespace {

thread_local CaptureMode thread_mode = CaptureMode::global;

[[noreturn]] void spoil(Capture& spoilt, Refusal::Status status) {
  spoilt.invalidated = true;
  throw Refusal{status};
}

bool blocking(const Stream& stream) { return stream.legacy || stream.flags == 0; }

void add_edges(std::vector<Edge>& to, std::span<const Edge> more) {
  for (const Edge& edge : more) {
    if (std::ranges::find(to, edge) == to.end()) to.push_back(edge);
  }
}

Node& add_node(Capture& capture, Stream& stream, WorkPointer work) {
  std::vector<Edge>& end = capture.ends.at(&stream);
  Node& node = capture.graph->add(std::move(work), end, stream.device);
  end = {{&node}};
  return node;
}

/// Whether each stream's end comes before that of the origin, or is it.
bool joined(const Capture& capture) {
  std::set<const Node*> before;
  std::vector<const Node*> rest;
  const auto see = [&](const std::vector<Edge>& edges) {
    for (const Edge& edge : edges) {
      if (before.insert(edge.node).second) rest.push_back(edge.node);
    }
  };
  see(capture.ends.at(capture.origin));
  while (!rest.empty()) {
    const Node* const node = rest.back();
    rest.pop_back();
    see(node->dependencies);
  }
  return std::ranges::all_of(capture.ends, [&](const auto& entry) {
    return std::ranges::all_of(entry.second,
                               [&](const Edge& edge) { return before.contains(edge.node); });
  });
}

}  // namespace

// The three below are called with the lock held.

std::shared_ptr<Capture> Captures::of(const Stream& stream) const {
  for (const auto& capture : all_) {
    if (capture->ends.contains(const_cast<Stream*>(&stream))) return capture;
  }
  return nullptr;
}

/// A capture of a stream for which `stream`, the legacy one, would wait; nullptr if there is none.
std::shared_ptr<Capture> Captures::blocking_beside(const Stream& stream) const {
  if (!stream.legacy) return nullptr;
  for (const auto& capture : all_) {
    for (const auto& [captured, _] : capture->ends) {
      if (captured->device == stream.device && blocking(*captured)) return capture;
    }
  }
  return nullptr;
}

/// The capture of a stream that gets work; nullptr if there is none.
std::shared_ptr<Capture> Captures::usable(Stream& stream) {
  auto found = of(stream);
  if (found && found->invalidated) throw Refusal{Refusal::capture_invalidated};
  if (found) return found;
  if (const auto beside = blocking_beside(stream)) spoil(*beside, Refusal::capture_implicit);
  return nullptr;
}

void Captures::begin(Stream& stream, CaptureMode mode, Graph* into,
                     std::span<const Edge> dependencies) {
  const std::lock_guard lock{mutex_};
  if (of(stream)) throw Refusal{Refusal::illegal_state};
  (void)usable(stream);
  if (stream.legacy) throw Refusal{Refusal::capture_unsupported};
  auto made = std::make_shared<Capture>();
  made->id = ++last_id_;
  made->mode = mode;
  made->thread = std::this_thread::get_id();
  made->origin = &stream;
  if (into == nullptr) made->own = std::make_unique<Graph>();
  made->graph = into != nullptr ? into : made->own.get();
  made->ends[&stream] = {dependencies.begin(), dependencies.end()};
  all_.push_back(std::move(made));
  ++count_;
}

Graph* Captures::end(Stream& stream) {
  const std::lock_guard lock{mutex_};
  const auto ended = of(stream);
  if (!ended) throw Refusal{Refusal::illegal_state};
  if (ended->origin != &stream) spoil(*ended, Refusal::capture_unmatched);
  std::erase(all_, ended);
  --count_;
  if (ended->mode != CaptureMode::relaxed && ended->thread != std::this_thread::get_id())
    throw Refusal{Refusal::capture_wrong_thread};
  if (ended->invalidated) throw Refusal{Refusal::capture_invalidated};
  if (!joined(*ended)) throw Refusal{Refusal::capture_unjoined};
  return ended->own ? ended->own.release() : ended->graph;
}

CaptureInfo Captures::info(Stream& stream) {
  const std::lock_guard lock{mutex_};
  const auto found = of(stream);
  if (!found) {
    if (blocking_beside(stream)) throw Refusal{Refusal::capture_implicit};
    return {};
  }
  if (found->invalidated) return {.status = CaptureStatus::invalidated};
  return {.status = CaptureStatus::active,
          .id = found->id,
          .graph = found->graph,
          .dependencies = found->ends.at(&stream)};
}

void Captures::update_dependencies(Stream& stream, std::span<const Edge> dependencies, bool add) {
  const std::lock_guard lock{mutex_};
  const auto found = usable(stream);
  if (!found) throw Refusal{Refusal::illegal_state};
  for (const Edge& edge : dependencies) {
    if (edge.node == nullptr || edge.node->graph != found->graph)
      throw Refusal{Refusal::invalid_value};
  }
  std::vector<Edge>& end = found->ends.at(&stream);
  if (!add) end.clear();
  add_edges(end, dependencies);
}

bool Captures::capturing(Stream& stream) {
  const std::lock_guard lock{mutex_};
  return usable(stream) != nullptr;
}

Node& Captures::add(Stream& stream, WorkPointer work) {
  const std::lock_guard lock{mutex_};
  const auto found = usable(stream);
  if (!found) throw Refusal{Refusal::illegal_state};
  return add_node(*found, stream, std::move(work));
}

void Captures::add_data(Stream& stream, DataQueue::Operation operation) {
  const std::lock_guard lock{mutex_};
  const auto found = usable(stream);
  if (!found) throw Refusal{Refusal::illegal_state};
  // Behind the node that it belongs to, which is the stream's latest.
  const std::vector<Edge>& end = found->ends.at(&stream);
  Node& node =
      end.size() == 1 ? *end.front().node : add_node(*found, stream, std::make_shared<EmptyWork>());
  node.data.push_back(std::move(operation));
}

void Captures::record(Stream& stream, Event& event) {
  const std::lock_guard lock{mutex_};
  const auto found = usable(stream);
  if (!found) throw Refusal{Refusal::illegal_state};
  event.captured = std::make_shared<CapturedPoint>(CapturedPoint{found, found->ends.at(&stream)});
}

bool Captures::wait(Stream& stream, const Event& event) {
  const std::lock_guard lock{mutex_};
  const auto waiting = usable(stream);
  if (!event.captured) {
    // What runs each time cannot wait for what ran once.
    if (waiting && event.latest() != 0) spoil(*waiting, Refusal::capture_isolation);
    return waiting != nullptr;
  }
  const auto waited = event.captured->capture.lock();
  if (!waited || std::ranges::find(all_, waited) == all_.end()) {
    throw Refusal{Refusal::invalid_value};
  }
  if (waited->invalidated) throw Refusal{Refusal::capture_invalidated};
  if (waiting && waiting != waited) {
    waiting->invalidated = true;
    spoil(*waited, Refusal::capture_merge);
  }
  if (stream.legacy) spoil(*waited, Refusal::capture_implicit);
  add_edges(waited->ends[&stream], event.captured->dependencies);
  return true;
}

void Captures::refuse(Stream& stream) {
  const std::lock_guard lock{mutex_};
  if (const auto found = usable(stream)) spoil(*found, Refusal::capture_unsupported);
}

void Captures::refuse(int device) {
  const std::lock_guard lock{mutex_};
  bool captured = false;
  for (const auto& capture : all_) {
    for (const auto& [stream, _] : capture->ends) {
      if (stream->device != device) continue;
      capture->invalidated = captured = true;
    }
  }
  if (captured) throw Refusal{Refusal::capture_unsupported};
}

void Captures::refuse(const Event& event, bool spoils) {
  const std::lock_guard lock{mutex_};
  const auto found = event.captured->capture.lock();
  if (!found || std::ranges::find(all_, found) == all_.end())
    throw Refusal{Refusal::invalid_value};  // its capture has ended
  if (spoils) found->invalidated = true;
  throw Refusal{Refusal::captured_event};
}

void Captures::refuse_if_unsafe(CaptureMode mode) {
  if (mode == CaptureMode::relaxed) return;
  const std::lock_guard lock{mutex_};
  const auto self = std::this_thread::get_id();
  bool refused = false;
  for (const auto& capture : all_) {
    const bool own = capture->thread == self && capture->mode != CaptureMode::relaxed;
    const bool others = mode == CaptureMode::global && capture->mode == CaptureMode::global;
    if (!own && !others) continue;
    capture->invalidated = refused = true;
  }
  if (refused) throw Refusal{Refusal::capture_unsupported};
}

// --- Of this process ---

namespace {

Captures& captures() { return this_rank().captures; }

}  // namespace

void begin_capture(Stream& stream, CaptureMode mode, Graph* into,
                   std::span<const Edge> dependencies) {
  captures().begin(stream, mode, into, dependencies);
}
Graph* end_capture(Stream& stream) { return captures().end(stream); }
CaptureInfo capture_info(Stream& stream) {
  return any_capture() ? captures().info(stream) : CaptureInfo{};
}
void update_capture_dependencies(Stream& stream, std::span<const Edge> dependencies, bool add) {
  captures().update_dependencies(stream, dependencies, add);
}
CaptureMode exchange_capture_mode(CaptureMode mode) noexcept {
  return std::exchange(thread_mode, mode);
}

bool detail::capturing(Stream& stream) { return captures().capturing(stream); }
Node& capture(Stream& stream, WorkPointer work) { return captures().add(stream, std::move(work)); }
void capture_data(Stream& stream, DataQueue::Operation operation) {
  captures().add_data(stream, std::move(operation));
}
void capture_record(Stream& stream, Event& event) { captures().record(stream, event); }
bool capture_wait(Stream& stream, const Event& event) {
  return (any_capture() || event.captured) && captures().wait(stream, event);
}
void no_longer_captured(Event& event) noexcept { event.captured.reset(); }

void refuse_if_captured(Stream& stream) {
  if (any_capture()) captures().refuse(stream);
}
void refuse_if_captured(int device) {
  if (any_capture()) captures().refuse(device);
}
void refuse_if_captured(const Event& event, bool spoils) {
  if (event.captured) captures().refuse(event, spoils);
}
void refuse_if_unsafe() {
  if (any_capture()) captures().refuse_if_unsafe(thread_mode);
}

}  // namespace phantora::rank
