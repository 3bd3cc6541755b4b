#include "rank/runtime/streams.hpp"

#include "rank/runtime/connection.hpp"

#include <phantora/kernels/query_text.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <pthread.h>

namespace phantora::rank {

using channel::Op;
using channel::Record;

void Streams::append(HostThread& thread, Record&& record, std::span<const std::byte> payload) {
  clocks_.become_issuer(thread);
  record.thread = thread.index;
  record.clock_ps = thread.clock.now().time_since_epoch().count();
  clocks_.connection()->append(record, payload);
}

void Streams::append(HostThread& thread, Stream& stream, Record&& record,
                     std::span<const std::byte> payload) {
  record.stream = touched(thread, stream).id;
  append(thread, std::move(record), payload);
}

channel::Reply Streams::ask(HostThread& thread, Record record, std::span<const std::byte> payload) {
  record.clock_ps = std::max(clocks_.now(thread).time_since_epoch().count(), thread.carried_ps);
  const channel::Reply reply = clocks_.connection()->request(thread, record, payload);
  if (thread.issues) {
    thread.clock.wait_until(Time{Duration{reply.clock_ps}});
  } else if (reply.counts) {
    thread.carried_ps = reply.clock_ps;
  }
  return reply;
}

DataQueue& Streams::next_data(HostThread& thread, Stream& stream) {
  order_with_legacy(thread, stream);
  LegacyOrder::operation(stream);
  return data_;
}

bool Streams::holds_back(HostThread& thread, Stream& stream) {
  if (data_.idle()) return false;
  order_with_legacy(thread, stream);
  return data_.holds(stream);
}

Streams::Entry& Streams::add(HostThread& thread, int device, unsigned flags, int priority,
                             bool legacy) {
  Entry& stream = all_.emplace_back();
  stream.id = all_.size();
  stream.device = device;
  stream.flags = flags;
  stream.priority = priority;
  stream.legacy = legacy;
  append(thread, {.op = Op::create_stream,
                  .device = static_cast<std::uint16_t>(physical_(device)),
                  .stream = stream.id,
                  .a = static_cast<std::uint64_t>(-priority)});
  legacy_order_.add(stream);
  return stream;
}

Marker Streams::append_marker(HostThread& thread, Entry& stream) {
  const Marker marker = [&] {
    const std::lock_guard lock{stream.marking};
    const Marker next = ++last_marker_;
    append(thread, {.op = Op::record, .stream = stream.id, .a = next});
    reached_.recorded(stream.id, next);
    return next;
  }();
  data_.record(stream, marker);
  return marker;
}

void Streams::append_wait(HostThread& thread, const Stream& stream, Marker marker) {
  append(thread, {.op = Op::wait, .stream = stream.id, .a = marker});
  data_.wait(stream, marker);
}

/// To be called before each operation on `stream`.
Streams::Entry& Streams::touched(HostThread& thread, Stream& stream) {
  Entry& entry = entry_of(stream);
  order_with_legacy(thread, entry);
  LegacyOrder::operation(entry);
  return entry;
}

Stream& Streams::legacy(HostThread& thread, int device) {
  const std::lock_guard lock{mutex_};
  Entry*& stream = legacy_[device];
  if (stream == nullptr) stream = &add(thread, device, 0, 0, true);
  return *stream;
}

Stream& Streams::per_thread(HostThread& thread, int device) {
  const std::lock_guard lock{mutex_};
  Entry*& stream = per_thread_[{device, static_cast<unsigned long>(pthread_self())}];
  if (stream == nullptr) stream = &add(thread, device, 0, 0, false);
  return *stream;
}

Stream& Streams::create(HostThread& thread, int device, unsigned flags, int priority) {
  const std::lock_guard lock{mutex_};
  return add(thread, device, flags, priority, false);
}

void Streams::join_legacy(HostThread& thread, Stream& stream) {
  for (const LegacyOrder::Join& join : legacy_order_.before(stream)) {
    const Marker marker = append_marker(thread, entry_of(*join.earlier));
    append_wait(thread, *join.later, marker);
    forget(thread, marker);
    legacy_order_.joined(join);
  }
}

QueryId Streams::intern(HostThread& thread, const KernelQuery& query, const KernelCode& code) {
  const std::lock_guard lock{queries_mutex_};
  const auto [found, added] = queries_.try_emplace(query, static_cast<QueryId>(queries_.size()));
  if (added) {
    const std::string text = to_text(query);
    append(thread, {.op = Op::define_query, .a = found->second},
           std::as_bytes(std::span{text.data(), text.size()}));
    activities_.describe(found->second, &found->first, code);
  }
  return found->second;
}

void Streams::launch(HostThread& thread, Stream& stream, QueryId query) {
  append(thread, stream,
         {.op = Op::launch, .a = query, .b = activities_.launched(thread, stream, query)});
}

void Streams::meet(HostThread& thread, Stream& stream, std::span<const int> devices) {
  std::vector<std::uint16_t> physical;
  for (const int device : devices)
    physical.push_back(static_cast<std::uint16_t>(physical_(device)));
  append(thread, stream,
         {.op = Op::meet, .device = static_cast<std::uint16_t>(physical_(stream.device))},
         std::as_bytes(std::span{physical}));
}

Marker Streams::record(HostThread& thread, Stream& stream) {
  return append_marker(thread, touched(thread, stream));
}

void Streams::forget(HostThread& thread, Marker marker) {
  if (marker != 0) append(thread, {.op = Op::drop_marker, .a = marker});
}

void Streams::wait(HostThread& thread, Stream& stream, Marker marker) {
  if (marker != 0) append_wait(thread, touched(thread, stream), marker);
}

/// Whether the calling thread can tell that `marker` is complete at its clock.
bool Streams::known_complete(HostThread& thread, Marker marker) const {
  return thread.issues && reached_.knows(marker, thread.clock.now().time_since_epoch().count());
}

void Streams::synchronize(HostThread& thread, Marker marker) {
  if (marker == 0 || known_complete(thread, marker)) return;
  clocks_.become_issuer(thread);
  reached_.reached(marker, ask(thread, {.op = Op::synchronize, .a = marker}).clock_ps);
}

void Streams::synchronize(HostThread& thread, Stream& stream) {
  Entry& entry = entry_of(stream);
  order_with_legacy(thread, entry);
  const std::uint64_t operations = entry.operations.load();
  if (entry.settled.load() >= operations) return;
  clocks_.become_issuer(thread);
  const Marker marker = append_marker(thread, entry);
  synchronize(thread, marker);
  forget(thread, marker);
  std::uint64_t settled = entry.settled.load();
  while (settled < operations && !entry.settled.compare_exchange_weak(settled, operations)) {
  }
}

void Streams::synchronize_device(HostThread& thread, int device) {
  std::vector<Entry*> mine;
  {
    const std::lock_guard lock{mutex_};
    for (Entry& stream : all_) {
      if (stream.device == device) mine.push_back(&stream);
    }
  }
  for (Entry* stream : mine) synchronize(thread, *stream);
}

bool Streams::done(HostThread& thread, Marker marker) {
  if (marker == 0 || known_complete(thread, marker)) return true;
  const channel::Reply reply = ask(thread, {.op = Op::query, .a = marker});
  const bool is_done = reply.value != 0;
  if (is_done && thread.issues) reached_.reached(marker, reply.clock_ps);
  // Polling must end in every mode, whoever polls: each "not ready" takes at least a microsecond.
  constexpr Duration least = std::chrono::microseconds{1};
  if (!is_done && !thread.issues && reply.counts) thread.carried_ps += least.count();
  if (!is_done && thread.issues && clocks_.policy().kind != HostTime::measured) {
    thread.clock.advance(least);
  }
  return is_done;
}

bool Streams::done(HostThread& thread, Stream& stream) {
  Entry& entry = entry_of(stream);
  const std::uint64_t operations = entry.operations.load();
  if (entry.settled.load() >= operations) return true;
  const Marker before = [&] {
    const std::lock_guard lock{entry.marking};
    return entry.found_after == operations ? entry.found_complete : 0;
  }();
  if (before != 0 && known_complete(thread, before)) return true;
  clocks_.become_issuer(thread);
  const Marker marker = append_marker(thread, entry);
  const bool is_done = done(thread, marker);
  forget(thread, marker);
  if (is_done) {
    const std::lock_guard lock{entry.marking};
    entry.found_complete = marker;
    entry.found_after = operations;
  }
  return is_done;
}

std::optional<Duration> Streams::elapsed(HostThread& thread, Marker start, Marker end) {
  if (start == 0 || end == 0) return std::nullopt;
  const channel::Reply reply = ask(thread, {.op = Op::elapsed, .a = start, .b = end});
  if (reply.value == channel::no_time) return std::nullopt;
  return Duration{reply.value};
}

}  // namespace phantora::rank
