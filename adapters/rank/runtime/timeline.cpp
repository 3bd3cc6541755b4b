#include "rank/runtime/timeline.hpp"

#include "rank/memory/data_queue.hpp"
#include "rank/runtime/capture.hpp"
#include "rank/runtime/connection.hpp"
#include "rank/runtime/executable.hpp"
#include "rank/runtime/process.hpp"
#include "rank/runtime/rank.hpp"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace phantora::rank {
namespace {

/// Work is issued and asked about once there is a connection.
Rank& connected_rank() {
  Rank& rank = this_rank();
  rank.connect();
  return rank;
}
Streams& streams() { return connected_rank().streams; }

/// Tells a profiler that asks for them of the wait during its life.
class NotedWait {
 public:
  explicit NotedWait(const WaitActivity& wait) : wait_{wait} {
    if (wanted_) wait_.start = this_rank().clocks.now(this_thread());
  }
  ~NotedWait() {
    if (!wanted_) return;
    wait_.end = this_rank().clocks.now(this_thread());
    this_rank().activities.waited(this_thread(), wait_);
  }
  NotedWait(const NotedWait&) = delete;
  NotedWait& operator=(const NotedWait&) = delete;

 private:
  const bool wanted_ = this_rank().activities.wants(Activities::waits);
  WaitActivity wait_;
};

}  // namespace

// --- Streams ---

Stream& legacy_stream(int device) { return streams().legacy(this_thread(), device); }
Stream& per_thread_stream(int device) { return streams().per_thread(this_thread(), device); }
Stream& create_stream(int device, unsigned flags, int priority) {
  return streams().create(this_thread(), device, flags, priority);
}
void destroy_stream(Stream& stream) { streams().destroy(stream); }
void order_with_legacy(Stream& stream) { streams().order_with_legacy(this_thread(), stream); }

// --- Asynchronous calls ---

QueryId intern(const KernelQuery& query, const KernelCode& code) {
  return streams().intern(this_thread(), query, code);
}
void launch(Stream& stream, const KernelQuery& query) {
  if (capturing(stream)) {
    capture(stream, std::make_shared<LibraryWork>(intern(query), query.name));
  } else {
    launch(stream, intern(query));
  }
}
void launch(Stream& stream, QueryId query) {
  if (capturing(stream)) {
    capture(stream, std::make_shared<LibraryWork>(query, "library operation"));
  } else {
    streams().launch(this_thread(), stream, query);
  }
}

void meet(Stream& stream, std::span<const int> devices) {
  streams().meet(this_thread(), stream, devices);
}

Marker record(Stream& stream) { return streams().record(this_thread(), stream); }
void record(Stream& stream, Event& event, bool external) {
  if (capturing(stream)) {
    if (!external) return capture_record(stream, event);
    capture(stream, std::make_shared<EventWork>(NodeType::event_record, event));
    return;
  }
  no_longer_captured(event);
  const Marker recorded = record(stream);
  this_rank().activities.recorded(this_thread(), stream, recorded);
  if (event.shared) {
    event.shared->store(recorded);  // another process may be about to ask about the one before
  } else {
    forget_marker(event.marker.exchange(recorded));
  }
}
void in_graph(Stream& stream, bool inside) {
  streams().append(this_thread(), stream, {.op = channel::Op::graph, .a = inside ? 1U : 0U});
}
void forget_marker(Marker marker) {
  if (marker != 0) streams().forget(this_thread(), marker);
}
void wait(Stream& stream, Marker marker) {
  const NotedWait note{{.kind = WaitActivity::For::event_on_stream,
                        .device = stream.device,
                        .stream = &stream,
                        .marker = marker}};
  streams().wait(this_thread(), stream, marker);
}

void wait(Stream& stream, Event& event, bool external) {
  if (external && capturing(stream)) {
    capture(stream, std::make_shared<EventWork>(NodeType::wait_event, event));
  } else if (!capture_wait(stream, event)) {
    wait(stream, event.latest());
  }
}

void host_function(Stream& stream, void (*function)(void*), void* argument) {
  if (capturing(stream)) {
    capture(stream, std::make_shared<HostWork>(function, argument));
    return;
  }
  Rank& rank = connected_rank();
  rank.streams.append(
      this_thread(), stream,
      {.op = channel::Op::host_function, .a = rank.host_functions.add({function, argument})});
}

// --- Blocking calls and queries ---

void synchronize(Marker marker) {
  const NotedWait note{{.kind = WaitActivity::For::event, .marker = marker}};
  streams().synchronize(this_thread(), marker);
}
void synchronize(const Event& event) {
  refuse_if_captured(event, true);
  refuse_if_unsafe();
  synchronize(event.latest());
}
void synchronize(Stream& stream) {
  refuse_if_captured(stream);
  const NotedWait note{
      {.kind = WaitActivity::For::stream, .device = stream.device, .stream = &stream}};
  streams().synchronize(this_thread(), stream);
}
void synchronize_device(int device) {
  const NotedWait note{{.kind = WaitActivity::For::device, .device = device}};
  streams().synchronize_device(this_thread(), device);
}
bool done(Marker marker) { return streams().done(this_thread(), marker); }
bool done(const Event& event) {
  refuse_if_captured(event, true);
  refuse_if_unsafe();
  return done(event.latest());
}
bool done(Stream& stream) {
  refuse_if_captured(stream);
  refuse_if_unsafe();
  return streams().done(this_thread(), stream);
}
Marker marker_of(const Event& event) {
  refuse_if_captured(event, false);
  return event.latest();
}
std::optional<Duration> elapsed(Marker start, Marker end) {
  return streams().elapsed(this_thread(), start, end);
}

// --- Communicators ---

namespace {

/// Of each captured stream the operations become a node.
/// @return the others.
std::vector<CollectiveCall> without_captured(std::span<const CollectiveCall> group) {
  std::vector<CollectiveCall> rest;
  std::vector<std::pair<Stream*, std::vector<CollectiveCall>>> captured;
  for (const CollectiveCall& call : group) {
    if (!capturing(*call.stream)) {
      rest.push_back(call);
      continue;
    }
    auto found = std::ranges::find(captured, call.stream, [](const auto& e) { return e.first; });
    if (found == captured.end()) found = captured.insert(found, {call.stream, {}});
    found->second.push_back(call);
  }
  for (auto& [stream, calls] : captured)
    capture(*stream, std::make_shared<CollectiveWork>(std::move(calls)));
  return rest;
}

}  // namespace

void make_unique_id(std::span<std::byte, 128> out) {
  connected_rank().communicators.make_unique_id(out);
}
std::optional<std::uint64_t> join_communicator(std::span<const std::byte, 128> unique_id, int ranks,
                                               int rank, int device) {
  return connected_rank().communicators.join(this_thread(), unique_id, {ranks, rank, device},
                                             physical_device(device));
}
std::uint64_t split_communicator(std::uint64_t parent, int color, int key) {
  return connected_rank().communicators.split(this_thread(), parent, color, key);
}
void leave_communicator(std::uint64_t communicator) {
  connected_rank().communicators.leave(this_thread(), communicator);
}
CommunicatorInfo communicator_info(std::uint64_t communicator) {
  return this_rank().communicators.info(communicator);
}
void enqueue_collectives(std::span<const CollectiveCall> group) {
  if (group.empty()) return;
  Rank& rank = connected_rank();
  if (!any_capture()) return rank.communicators.enqueue(this_thread(), group);
  rank.communicators.enqueue(this_thread(), without_captured(group));
}

// --- Data ---

namespace data {

bool any_capture() noexcept { return rank::any_capture(); }
bool captured(Stream& stream, Operation operation) {
  if (!capturing(stream)) return false;
  capture_data(stream, std::move(operation));
  return true;
}
bool pending() noexcept { return !this_rank().data.idle(); }
bool pending(Stream& stream) { return this_rank().streams.holds_back(this_thread(), stream); }
void hold_back(Stream& stream, Operation operation) {
  streams().next_data(this_thread(), stream).append(stream, std::move(operation));
}

}  // namespace data

}  // namespace phantora::rank
