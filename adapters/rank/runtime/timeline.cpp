#include "rank/runtime/timeline.hpp"

#include "channel/partly_known.hpp"
#include "channel/query_text.hpp"
#include "rank/memory/data_queue.hpp"
#include "rank/memory/device_memory.hpp"
#include "rank/runtime/connection.hpp"
#include "rank/runtime/legacy_order.hpp"
#include "rank/runtime/process.hpp"
#include "rank/runtime/reached_markers.hpp"
#include "rank/runtime/spin_lock.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <unordered_map>

#include <unistd.h>

namespace phantora::rank {
namespace {

using channel::Op;
using channel::Record;

std::atomic<Marker> last_marker{0};
ReachedMarkers reached;

struct StreamEntry : Stream {
  /// Operations appended so far, and how many of them a blocking call has seen complete.
  std::atomic<std::uint64_t> appended{0};
  std::atomic<std::uint64_t> settled{0};
  SpinLock marking;  ///< its markers' numbers grow along the stream
};

struct Streams {
  std::mutex mutex;
  std::deque<StreamEntry> all;
  std::map<int, StreamEntry*> legacy;
  std::map<std::pair<int, unsigned long>, StreamEntry*> per_thread;
  LegacyOrder legacy_order;
};
Streams& streams() {
  static auto* all = new Streams;
  return *all;
}

StreamEntry& entry_of(Stream& stream) { return static_cast<StreamEntry&>(stream); }

HostThread& issuing_thread() {
  HostThread& thread = this_thread();
  if (thread.slot == nullptr || !thread.issues) {
    Connection::get();
    become_issuer(thread);
  }
  return thread;
}

void append(Record record, std::span<const std::byte> payload = {}) {
  HostThread& thread = issuing_thread();
  record.thread = thread.index;
  record.clock_ps = thread.clock.now().time_since_epoch().count();
  Connection::get()->append(record, payload);
}

channel::Reply ask(Record record, std::span<const std::byte> payload = {}) {
  HostThread& thread = this_thread();
  record.clock_ps = std::max(virtual_now().time_since_epoch().count(), thread.carried_ps);
  const channel::Reply reply = Connection::get()->request(thread, record, payload);
  if (thread.issues) {
    thread.clock.wait_until(Time{Duration{reply.clock_ps}});
  } else if (reply.counts) {
    thread.carried_ps = reply.clock_ps;
  }
  return reply;
}

StreamEntry& new_stream(int device, unsigned flags, int priority, bool legacy) {
  Streams& known = streams();
  StreamEntry& stream = known.all.emplace_back();
  stream.id = known.all.size();
  stream.device = device;
  stream.flags = flags;
  stream.priority = priority;
  stream.legacy = legacy;
  append({.op = Op::create_stream,
          .device = static_cast<std::uint16_t>(physical_device(device)),
          .stream = stream.id});
  known.legacy_order.add(stream);
  return stream;
}

Marker append_marker(StreamEntry& stream) {
  const Marker marker = [&] {
    const std::lock_guard lock{stream.marking};
    const Marker next = ++last_marker;
    append({.op = Op::record, .stream = stream.id, .a = next});
    reached.recorded(stream.id, next);
    return next;
  }();
  data::record(stream, marker);
  return marker;
}

void append_wait(StreamEntry& stream, Marker marker) {
  append({.op = Op::wait, .stream = stream.id, .a = marker});
  data::wait(stream, marker);
}

/// To be called before each operation on `stream`.
StreamEntry& touched(Stream& stream) {
  StreamEntry& entry = entry_of(stream);
  order_with_legacy(entry);
  LegacyOrder::operation(entry);
  entry.appended.fetch_add(1, std::memory_order_relaxed);
  return entry;
}

}  // namespace

// --- Streams ---

Stream& legacy_stream(int device) {
  Streams& known = streams();
  const std::lock_guard lock{known.mutex};
  StreamEntry*& stream = known.legacy[device];
  if (stream == nullptr) stream = &new_stream(device, 0, 0, true);
  return *stream;
}

Stream& per_thread_stream(int device) {
  Streams& known = streams();
  const std::lock_guard lock{known.mutex};
  StreamEntry*& stream = known.per_thread[{device, static_cast<unsigned long>(pthread_self())}];
  if (stream == nullptr) {
    stream = &new_stream(device, 0, 0, false);
  }
  return *stream;
}

Stream& create_stream(int device, unsigned flags, int priority) {
  Streams& known = streams();
  const std::lock_guard lock{known.mutex};
  return new_stream(device, flags, priority, false);
}

void destroy_stream(Stream& stream) { streams().legacy_order.remove(stream); }

void order_with_legacy(Stream& stream) {
  LegacyOrder& order = streams().legacy_order;
  for (const LegacyOrder::Join& join : order.before(stream)) {
    const Marker marker = append_marker(entry_of(*join.earlier));
    append_wait(entry_of(*join.later), marker);
    append({.op = Op::drop_marker, .a = marker});
    order.joined(join);
  }
}

// --- Asynchronous calls ---

QueryId intern(const KernelQuery& query) {
  static std::mutex mutex;
  static auto* known = new std::map<KernelQuery, QueryId>;
  const std::lock_guard lock{mutex};
  const auto [found, added] = known->try_emplace(query, static_cast<QueryId>(known->size()));
  if (added) {
    const std::string text = channel::to_text(query);
    append({.op = Op::define_query, .a = found->second},
           std::as_bytes(std::span{text.data(), text.size()}));
  }
  return found->second;
}

void launch(Stream& stream, const KernelQuery& query) { launch(stream, intern(query)); }

void launch(Stream& stream, QueryId query) {
  append({.op = Op::launch, .stream = touched(stream).id, .a = query});
}

Marker record(Stream& stream) { return append_marker(touched(stream)); }

void record(Stream& stream, Event& event) {
  const Marker previous = event.marker.exchange(record(stream));
  forget_marker(previous);
}

void forget_marker(Marker marker) {
  if (marker != 0) append({.op = Op::drop_marker, .a = marker});
}

void wait(Stream& stream, Marker marker) {
  if (marker != 0) append_wait(touched(stream), marker);
}

// --- Blocking calls and queries ---

namespace {
/// Whether the calling thread can tell that `marker` is complete at its clock.
bool known_complete(Marker marker) {
  HostThread& thread = this_thread();
  return thread.issues && reached.knows(marker, thread.clock.now().time_since_epoch().count());
}
}  // namespace

void synchronize(Marker marker) {
  if (marker == 0 || known_complete(marker)) return;
  issuing_thread();
  reached.reached(marker, ask({.op = Op::synchronize, .a = marker}).clock_ps);
}

void synchronize(Stream& stream) {
  StreamEntry& entry = entry_of(stream);
  order_with_legacy(entry);
  const std::uint64_t appended = entry.appended.load();
  if (entry.settled.load() >= appended) return;
  issuing_thread();
  const Marker marker = append_marker(entry);
  synchronize(marker);
  append({.op = Op::drop_marker, .a = marker});
  std::uint64_t settled = entry.settled.load();
  while (settled < appended && !entry.settled.compare_exchange_weak(settled, appended)) {
  }
}

void synchronize_device(int device) {
  std::vector<StreamEntry*> mine;
  {
    Streams& known = streams();
    const std::lock_guard lock{known.mutex};
    for (StreamEntry& stream : known.all) {
      if (stream.device == device) mine.push_back(&stream);
    }
  }
  for (StreamEntry* stream : mine) synchronize(*stream);
}

bool done(Marker marker) {
  if (marker == 0 || known_complete(marker)) return true;
  HostThread& thread = this_thread();
  const channel::Reply reply = ask({.op = Op::query, .a = marker});
  const bool is_done = reply.value != 0;
  if (is_done && thread.issues) reached.reached(marker, reply.clock_ps);
  // Polling must end in every mode, whoever polls: each "not ready" takes at least a microsecond.
  constexpr Duration least = std::chrono::microseconds{1};
  if (!is_done && !thread.issues && reply.counts) thread.carried_ps += least.count();
  if (!is_done && thread.issues && host_time_policy().kind != HostTime::measured) {
    thread.clock.advance(least);
  }
  return is_done;
}

bool done(Stream& stream) {
  StreamEntry& entry = entry_of(stream);
  if (entry.settled.load() >= entry.appended.load()) return true;
  issuing_thread();
  const Marker marker = append_marker(entry);
  const bool is_done = done(marker);
  append({.op = Op::drop_marker, .a = marker});
  return is_done;
}

std::optional<Duration> elapsed(Marker start, Marker end) {
  if (start == 0 || end == 0) return std::nullopt;
  const channel::Reply reply = ask({.op = Op::elapsed, .a = start, .b = end});
  if (reply.value == channel::no_time) return std::nullopt;
  return Duration{reply.value};
}

// --- Host functions ---

namespace {

struct HostFunction {
  void (*function)(void*);
  void* argument;
};
std::mutex host_function_mutex;
std::unordered_map<std::uint64_t, HostFunction>& host_functions() {
  static auto* all = new std::unordered_map<std::uint64_t, HostFunction>;
  return *all;
}
std::uint64_t last_host_function = 0;

}  // namespace

void host_function(Stream& stream, void (*function)(void*), void* argument) {
  std::uint64_t ticket = 0;
  {
    const std::lock_guard lock{host_function_mutex};
    ticket = ++last_host_function;
    host_functions().emplace(ticket, HostFunction{function, argument});
  }
  append({.op = Op::host_function, .stream = touched(stream).id, .a = ticket});
}

void handle_delivery(const channel::Delivery& delivery, std::span<const std::byte> bytes) {
  switch (delivery.kind) {
    case channel::Delivery::Kind::result:
      data::deliver(delivery.ticket, bytes);
      return;
    case channel::Delivery::Kind::run_host_function: {
      HostFunction call{};
      {
        const std::lock_guard lock{host_function_mutex};
        const auto found = host_functions().find(delivery.ticket);
        if (found == host_functions().end()) return;
        call = found->second;
        host_functions().erase(found);
      }
      runs_at(Time{Duration{delivery.clock_ps}});
      call.function(call.argument);
      Connection::get()->append(
          {.op = Op::host_function_done, .thread = channel::no_thread, .a = delivery.ticket});
      Connection::get()->ring();
      return;
    }
  }
}

// --- Communicators ---

namespace {

std::mutex communicator_mutex;
std::unordered_map<std::uint64_t, CommunicatorInfo>& communicators() {
  static auto* all = new std::unordered_map<std::uint64_t, CommunicatorInfo>;
  return *all;
}
std::atomic<std::uint64_t> last_ticket{0};

/// Bytes that a rank puts into an operation and gets out of it; of a collective as its root does.
BufferBytes operand_bytes(const CollectiveCall& call, int ranks, bool is_root) {
  const Bytes one{static_cast<std::int64_t>(call.count * size_of(call.type))};
  if (const auto op = channel::collective_op(call.op)) {
    return buffer_bytes(*op, one, ranks, is_root);
  }
  return call.op == Collective::send ? BufferBytes{.send = one} : BufferBytes{.receive = one};
}

/// Whether the operation carries data: every rank must come to the same answer.
bool carries_data(const CollectiveCall& call, const CommunicatorInfo& info) {
  const BufferBytes root = operand_bytes(call, info.ranks, true);
  const Bytes largest = call.op == Collective::recv ? root.receive : root.send;
  return static_cast<std::size_t>(largest.count()) <= small_bytes;
}

}  // namespace

void make_unique_id(std::span<std::byte, 128> out) {
  static std::atomic<std::uint64_t> made{0};
  std::memset(out.data(), 0, out.size());
  // The engine numbers processes: no other process of the job makes the same pair.
  const channel::UniqueId id{
      .process = static_cast<std::uint64_t>(Connection::get()->welcome().process),
      .sequence = ++made};
  std::memcpy(out.data(), &id, sizeof id);
}

std::optional<std::uint64_t> join_communicator(std::span<const std::byte, 128> unique_id, int ranks,
                                               int rank, int device) {
  issuing_thread();
  const channel::Reply reply = ask({.op = Op::join_communicator,
                                    .device = static_cast<std::uint16_t>(physical_device(device)),
                                    .a = static_cast<std::uint64_t>(ranks),
                                    .b = static_cast<std::uint64_t>(rank)},
                                   unique_id);
  if (reply.value == channel::no_communicator) return std::nullopt;
  const auto handle = static_cast<std::uint64_t>(reply.value);
  const std::lock_guard lock{communicator_mutex};
  communicators()[handle] = {ranks, rank, device};
  return handle;
}

std::uint64_t split_communicator(std::uint64_t parent, int color, int key) {
  issuing_thread();
  const CommunicatorInfo info = communicator_info(parent);
  const channel::Reply reply = ask({.op = Op::split_communicator,
                                    .a = parent,
                                    .b = static_cast<std::uint64_t>(std::int64_t{color}),
                                    .c = static_cast<std::uint64_t>(std::int64_t{key})});
  if (reply.value == 0) return 0;
  const auto handle = static_cast<std::uint64_t>(reply.value);
  const std::lock_guard lock{communicator_mutex};
  communicators()[handle] = {reply.ranks, reply.rank, info.device};
  return handle;
}

void leave_communicator(std::uint64_t communicator) {
  append({.op = Op::leave_communicator, .a = communicator});
  const std::lock_guard lock{communicator_mutex};
  communicators().erase(communicator);
}

CommunicatorInfo communicator_info(std::uint64_t communicator) {
  const std::lock_guard lock{communicator_mutex};
  const auto found = communicators().find(communicator);
  return found == communicators().end() ? CommunicatorInfo{} : found->second;
}

void enqueue_collectives(std::span<const CollectiveCall> group) {
  std::vector<bool> sent(group.size(), false);
  // One record per communicator and stream, in the order of the calls.
  for (std::size_t first = 0; first < group.size(); ++first) {
    if (sent[first]) continue;
    const CollectiveCall& head = group[first];
    const CommunicatorInfo info = communicator_info(head.communicator);
    std::vector<channel::CollectiveRecord> records;
    std::vector<const CollectiveCall*> calls;
    for (std::size_t i = first; i < group.size(); ++i) {
      const CollectiveCall& call = group[i];
      if (sent[i] || call.communicator != head.communicator || call.stream != head.stream) continue;
      sent[i] = true;
      calls.push_back(&call);
      records.push_back({.communicator = call.communicator,
                         .ticket = carries_data(call, info) ? ++last_ticket : 0,
                         .count = call.count,
                         .op = static_cast<std::uint8_t>(call.op),
                         .type = static_cast<std::uint8_t>(call.type),
                         .reduction = static_cast<std::uint8_t>(call.reduction),
                         .peer = call.peer,
                         .premul = call.premul});
    }
    append({.op = Op::collective, .stream = touched(*head.stream).id},
           std::as_bytes(std::span{records}));
    // Sends first: a receive of the same group may depend on them.
    for (const bool receiving : {false, true}) {
      for (std::size_t i = 0; i < calls.size(); ++i) {
        const CollectiveCall& call = *calls[i];
        if ((call.op == Collective::recv) != receiving) continue;
        const BufferBytes size = operand_bytes(call, info.ranks, call.peer == info.rank);
        const auto send_bytes = static_cast<std::size_t>(size.send.count());
        const auto receive_bytes = static_cast<std::size_t>(size.receive.count());
        const std::uint64_t ticket = records[i].ticket;
        if (ticket == 0) {
          if (receive_bytes > 0) {
            data::enqueue(*call.stream,
                          [to = call.recv, receive_bytes] { forget(to, receive_bytes); });
          }
          continue;
        }
        const auto send = [ticket, from = call.send, bytes = send_bytes] {
          channel::PartlyKnown operand{std::vector<std::byte>(bytes),
                                       std::vector<std::uint8_t>(bytes)};
          if (bytes > 0) read_with_mask(operand.bytes.data(), operand.known.data(), from, bytes);
          Connection::get()->append({.op = Op::operand, .thread = channel::no_thread, .a = ticket},
                                    channel::packed(operand));
          Connection::get()->ring();  // other ranks' blocking calls may wait for nothing else
        };
        if (call.op == Collective::send) {
          // A send leaves nothing behind it to wait for.
          data::enqueue(*call.stream, send);
        } else {
          data::collective(*call.stream, ticket, send,
                           [to = call.recv](std::span<const std::byte> message) {
                             const auto result = channel::unpacked(message);
                             if (result.bytes.empty()) return;
                             write_known(to, result.bytes.data(), result.known, result.bytes.size(),
                                         {.name = "a collective"});
                           });
        }
      }
    }
  }
}

}  // namespace phantora::rank
