// What ranks ask for, as operations of the session: records are taken off their rings in order.

#include "run/channel_time.hpp"
#include "run/engine.hpp"

#include <phantora/error.hpp>
#include <phantora/kernels/query_text.hpp>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

namespace phantora::run {
namespace {

using channel::Op;
using channel::Record;
using channel::Reply;
using channel::ThreadState;
using Clock = std::chrono::steady_clock;

Bytes bytes_of(std::uint64_t count) {
  PHANTORA_EXPECTS(count >> 62U == 0, "bytes of a GPU's memory");
  return Bytes{static_cast<std::int64_t>(count)};
}

/// Ids that ranks choose are unique within their process; these are within the run.
std::uint64_t global(ProcessIndex process, std::uint64_t id) {
  PHANTORA_EXPECTS(id >> channel::id_bits == 0, "ids of ranks have 40 bits");
  return (static_cast<std::uint64_t>(process) << channel::id_bits) | id;
}
/// The marker that a record is about. Who waits for an event that processes share may name one of
/// another process, by that one's number and one; the session may hear of its record later.
std::uint64_t marker_of(ProcessIndex process, const Record& record) {
  const bool waits =
      record.op == Op::wait || record.op == Op::synchronize || record.op == Op::query;
  const std::uint64_t owner = record.a >> channel::id_bits;
  if (!waits || owner == 0) return global(process, record.a);
  return record.a - (std::uint64_t{1} << channel::id_bits);
}
std::uint64_t own_id(std::uint64_t global) {
  return global & ((std::uint64_t{1} << channel::id_bits) - 1);
}

/// What a rank's hook checks before it asks: a record that says otherwise was overwritten.
void expect_valid(const channel::CollectiveRecord& call, int rank, int ranks) {
  constexpr std::uint64_t most_elements = std::uint64_t{1} << 40U;
  PHANTORA_EXPECTS(rank < ranks && call.peer >= 0 && call.peer < ranks, "ranks of a communicator");
  PHANTORA_EXPECTS(call.op <= static_cast<std::uint8_t>(channel::Collective::recv), "an operation");
  PHANTORA_EXPECTS(call.type <= static_cast<std::uint8_t>(channel::DataType::float8e5m2), "a type");
  PHANTORA_EXPECTS(call.reduction <= static_cast<std::uint8_t>(channel::Reduction::premul_sum),
                   "a reduction");
  PHANTORA_EXPECTS(call.count < most_elements, "a number of elements");
}

/// Handles that ranks hold: which communicator, and who they are in it.
constexpr std::uint64_t max_ranks = std::uint64_t{1} << 20U;
struct Seat {
  CommunicatorId communicator{};
  int rank = 0;
};
std::uint64_t handle_of(const Seat& seat) {
  return ((seat.communicator.value + 1) << 20U) | static_cast<std::uint64_t>(seat.rank);
}
Seat seat_of(std::uint64_t handle) {
  return {CommunicatorId{(handle >> 20U) - 1}, static_cast<int>(handle & (max_ranks - 1))};
}

}  // namespace

void Engine::drain(Process& process) {
  if (!process.link.has_records()) return;
  process.heard = Clock::now();
  process.idle = false;
  process.waits_for_ranks.reset();
  try {
    process.link.take([&](const Record& record, std::span<const std::byte> payload) {
      // A watchdog's looks are no progress.
      if (record.op != Op::query && record.op != Op::drop_marker) last_progress_ = process.heard;
      handle(process, record, payload);
    });
  } catch (const ArgumentError& broken) {
    throw_overwritten(process, broken.what());
  } catch (const std::logic_error& broken) {
    throw_overwritten(process, broken.what());
  }
}

void Engine::throw_overwritten(const Process& process, const std::string& found) const {
  throw Error{name_of(process.index) +
              " sent what no rank sends: it may have written over the memory that it shares with "
              "the simulation (" +
              found + ")"};
}

/// A GPU of the process's host, by its number there.
GpuIndex Engine::gpu_of(const Process& process, std::size_t device) const {
  const NodeId node = cluster_.hosts[static_cast<std::size_t>(process.hello.host)].gpus.at(device);
  const auto found = std::find(cluster_.gpus.begin(), cluster_.gpus.end(), node);
  return static_cast<GpuIndex>(found - cluster_.gpus.begin());
}

void Engine::handle(Process& process, const Record& record, std::span<const std::byte> payload) {
  if (record.clock_ps < 0 || record.clock_ps >= channel::no_time / 2) {
    throw ArgumentError{fmt::format("thread {}'s clock shows {} ps at operation {}", record.thread,
                                    record.clock_ps, static_cast<int>(record.op))};
  }
  const Time clock = time_of(record.clock_ps);
  const StreamId stream{global(process.index, record.stream)};
  const MarkerId marker{marker_of(process.index, record)};
  // Threads have clocks of their own; a stream is in order.
  const auto issued = [&] { return std::max(clock, session_.last_issued(stream)); };
  Recorder* const recorder = options_.recorder;
  const Recorder::Caller caller{process.index, record.thread, clock};
  switch (record.op) {
    case Op::define_query: {
      const std::string_view text{reinterpret_cast<const char*>(payload.data()), payload.size()};
      PHANTORA_EXPECTS(record.a == process.queries.size(), "query ids are consecutive");
      const KernelQuery query = query_from_text(text);
      // The GPUs of a host are alike.
      process.queries.push_back(session_.add_query(query, gpu_of(process, 0)));
      if (recorder != nullptr) recorder->add_query(process.queries.back(), query);
      return;
    }
    case Op::create_stream: {
      process.issued = true;
      const GpuIndex gpu = gpu_of(process, record.device);
      constexpr std::uint64_t most = 1000;  // CUDA has no priority near it
      PHANTORA_EXPECTS(record.a <= most, "no stream has the priority " + std::to_string(record.a));
      const int priority = -static_cast<int>(record.a);
      note_user(gpu, process.index);
      if (recorder != nullptr) recorder->add_stream(stream, gpu, process.index, priority);
      session_.add_stream(stream, gpu, process.index, priority);
      return;
    }
    case Op::launch:
      if (recorder != nullptr) recorder->launch(caller, stream, process.queries.at(record.a));
      session_.launch(stream, issued(), process.queries.at(record.a), span_tag(process, record.b));
      return;
    case Op::record:
      if (recorder != nullptr) recorder->record(caller, stream, marker);
      session_.record(stream, issued(), marker);
      return;
    case Op::wait:
      if (recorder != nullptr) recorder->wait(caller, stream, marker);
      session_.wait(stream, issued(), marker);
      return;
    case Op::graph:
      if (recorder != nullptr) recorder->graph(caller, stream, record.a != 0);
      session_.graph(stream, issued(), record.a != 0);
      return;
    case Op::drop_marker:
      session_.drop(marker);
      return;
    case Op::host_function:
      session_.host_function(stream, issued(), global(process.index, record.a));
      return;
    case Op::host_function_done:
      session_.host_function_done(global(process.index, record.a), clock);
      return;
    case Op::collective:
      handle_collective(process, record, payload);
      return;
    case Op::meet:
      handle_meeting(process, record, payload);
      return;
    case Op::operand:
      for (const Delivered& result : small_data_.operand(process.index, record.a, payload)) {
        deliver(result);
      }
      return;
    case Op::leave_communicator: {
      const CommunicatorId communicator = seat_of(record.a).communicator;
      if (communicators_.leave(communicator)) session_.drop_communicator(communicator);
      return;
    }
    case Op::counter:
      counters_.named[{reinterpret_cast<const char*>(payload.data()), payload.size()}] += record.a;
      return;
    case Op::memory:
      if (recorder != nullptr)
        recorder->hold(process.index, gpu_of(process, record.device), bytes_of(record.a),
                       bytes_of(record.b));
      return;
    case Op::context:
      if (recorder != nullptr)
        recorder->hold_context(process.index, gpu_of(process, record.device),
                               bytes_of(record.a + record.b), record.a > 0);
      return;
    case Op::begin_range:
      if (recorder != nullptr) recorder->begin_range(caller, record.b);
      return;
    case Op::range: {
      PHANTORA_EXPECTS(record.c <= static_cast<std::uint64_t>(record.clock_ps), "a range");
      const std::string_view name{reinterpret_cast<const char*>(payload.data()), payload.size()};
      if (recorder != nullptr) recorder->end_range(caller, record.b, name);
      session_.name_range({.process = process.index,
                           .thread = record.a,
                           .name = name,
                           .start = time_of(static_cast<std::int64_t>(record.c)),
                           .end = clock});
      return;
    }
    case Op::synchronize:
      block(process, record);
      if (recorder != nullptr) recorder->synchronize(caller, marker);
      session_.synchronize(process.index, record.thread, clock, marker);
      return;
    case Op::query: {
      const auto& slot = process.link.shared()->threads.at(record.thread);
      if (slot.state.load() == ThreadState::background && !stands_in(process)) {
        // Nobody waits for what it does: it may look, and costs nobody anything.
        const auto completed = session_.completion(marker);
        const bool done = completed && *completed <= std::max(clock, latest(process));
        reply(process, record.thread, {.clock_ps = record.clock_ps, .value = done ? 1 : 0});
        return;
      }
      block(process, record);
      if (recorder != nullptr) recorder->query(caller, marker);
      session_.query(process.index, record.thread, clock, marker);
      return;
    }
    case Op::elapsed: {
      const auto start = session_.completion(marker);
      const auto end = session_.completion(MarkerId{global(process.index, record.b)});
      reply(process, record.thread,
            {.clock_ps = record.clock_ps,
             .value = start && end ? (*end - *start).count() : channel::no_time});
      return;
    }
    case Op::take_spans:
      give_spans(process, record);
      return;
    case Op::join_communicator:
      process.issued = true;
      block(process, record);
      handle_join(process, record, payload);
      return;
    case Op::split_communicator:
      block(process, record);
      handle_split(process, record);
      return;
  }
  throw Error{"the channel carried an unknown record"};
}

void Engine::handle_collective(Process& process, const Record& record,
                               std::span<const std::byte> payload) {
  const Time clock = time_of(record.clock_ps);
  const StreamId stream{global(process.index, record.stream)};
  std::vector<channel::CollectiveRecord> calls(payload.size() / sizeof(channel::CollectiveRecord));
  PHANTORA_EXPECTS(!calls.empty(), "a group has operations");
  std::memcpy(calls.data(), payload.data(), calls.size() * sizeof(channel::CollectiveRecord));

  const auto [communicator, rank] = seat_of(calls.front().communicator);
  const int ranks = static_cast<int>(communicators_.members(communicator).size());
  std::vector<SendRecv> messages;
  Tagged message_tag{.process = process.index, .tickets = {}, .span = record.b};
  Tagged collective_tag{.process = process.index, .tickets = {}, .span = record.a};
  std::vector<GroupedCollective> group;
  for (const channel::CollectiveRecord& call : calls) expect_valid(call, rank, ranks);
  for (const channel::CollectiveRecord& call : calls) {
    const auto op = static_cast<channel::Collective>(call.op);
    const std::optional<CollectiveOp> collective = channel::collective_op(op);
    const bool message = !collective;
    const bool sends = op == channel::Collective::send;
    const Bytes one{static_cast<std::int64_t>(
        call.count * channel::size_of(static_cast<channel::DataType>(call.type)))};
    const Bytes total = collective ? total_bytes(*collective, one, ranks) : one;
    if (call.ticket != 0) {
      const auto key = std::tuple{communicator, rank, message ? static_cast<int>(op) : -1,
                                  message ? call.peer : -1};
      small_data_.call({.process = process.index,
                        .ticket = call.ticket,
                        .communicator = communicator.value,
                        .rank = rank,
                        .ranks = ranks,
                        .op = op,
                        .type = static_cast<channel::DataType>(call.type),
                        .reduction = static_cast<channel::Reduction>(call.reduction),
                        .premul = call.premul,
                        .peer = call.peer,
                        .count = call.count},
                       small_calls_[key]++);
    }
    if (message) {
      messages.push_back({.src_rank = sends ? rank : call.peer,
                          .dst_rank = sends ? call.peer : rank,
                          .size = total});
      if (call.ticket != 0 && !sends) message_tag.tickets.push_back(call.ticket);
      continue;
    }
    group.push_back({*collective, total, call.peer, call.type});
    if (call.ticket != 0) collective_tag.tickets.push_back(call.ticket);
  }
  const auto number = [&](Tagged& tagged) -> std::uint64_t {
    if (tagged.tickets.empty() && tagged.span == 0) return 0;  // nobody asks when it is done
    if (tagged.span != 0) watch_spans();
    tags_.emplace(++last_tag_, std::move(tagged));
    return last_tag_;
  };
  if (!group.empty()) issue(process, record, communicator, rank, group, number(collective_tag));
  if (!messages.empty()) {
    if (Recorder* const recorder = options_.recorder)
      recorder->send_recv({process.index, record.thread, clock}, stream, communicator, messages);
    session_.send_recv(stream, std::max(clock, session_.last_issued(stream)), communicator, rank,
                       messages, number(message_tag));
  }
}

/// Hands the collectives of a group over, on the record's stream.
void Engine::issue(const Process& process, const Record& record, CommunicatorId communicator,
                   int rank, std::span<const GroupedCollective> group, std::uint64_t tag) {
  const Time clock = time_of(record.clock_ps);
  const StreamId stream{global(process.index, record.stream)};
  if (Recorder* const recorder = options_.recorder)
    recorder->collective({process.index, record.thread, clock}, stream, communicator, group);
  try {
    session_.collective(stream, std::max(clock, session_.last_issued(stream)), communicator, rank,
                        group, tag);
  } catch (const Disagreement& found) {
    throw Error{in_words(found, communicator)};
  }
}

/// Where one process follows another that has ended, its kernels meet others anew.
void Engine::note_user(GpuIndex gpu, ProcessIndex process) {
  const auto [last, is_first] = users_.try_emplace(gpu, process);
  if (is_first || !processes_[last->second].ended) return;
  last->second = process;
  std::erase_if(meeting_places_, [&](const auto& place) {
    return std::ranges::find(place.first, gpu) != place.first.end();
  });
}

/// Kernels of the same GPUs wait for each other in the order in which they were launched.
void Engine::handle_meeting(Process& process, const Record& record,
                            std::span<const std::byte> payload) {
  std::vector<std::uint16_t> devices(payload.size() / sizeof(std::uint16_t));
  std::memcpy(devices.data(), payload.data(), devices.size() * sizeof(std::uint16_t));
  std::vector<GpuIndex> gpus;
  for (const std::uint16_t device : devices) gpus.push_back(gpu_of(process, device));
  std::sort(gpus.begin(), gpus.end());
  const auto own = std::find(gpus.begin(), gpus.end(), gpu_of(process, record.device));
  PHANTORA_EXPECTS(own != gpus.end(), "a GPU waits with others");
  const int rank = static_cast<int>(own - gpus.begin());
  const auto [place, is_new] = meeting_places_.try_emplace(gpus);
  if (is_new) {
    std::vector<Communicators::Member> members;
    for (const GpuIndex gpu : gpus) {
      const auto user = users_.find(gpu);
      members.push_back({user == users_.end() ? process.index : user->second, gpu});
    }
    place->second = communicators_.add(std::move(members));
  }
  const GroupedCollective barrier[] = {{.op = CollectiveOp::barrier}};
  issue(process, record, place->second, rank, barrier, 0);
}

/// What the session is to call a span for which the process has this tag.
std::uint64_t Engine::span_tag(const Process& process, std::uint64_t tag) {
  if (tag == 0) return 0;
  watch_spans();
  return global(process.index, tag);
}

void Engine::watch_spans() {
  if (!tagged_spans_) tagged_spans_ = session_.subscribe(*this);
}

void Engine::on_span(const Span& span) {
  // A kernel that waits for others is at work meanwhile.
  const auto wait = waits_since_.extract(span.stream);
  if (span.tag == 0) {
    if (span.name == to_string(CollectiveOp::barrier)) waits_since_[span.stream] = span.start;
    return;
  }
  const Time start = wait ? wait.mapped() : span.start;
  const std::uint64_t tag =
      span.kind == Span::Kind::communication ? tags_.at(span.tag).span : own_id(span.tag);
  if (tag == 0) return;
  processes_[span.process].spans.push_back(
      {.tag = tag,
       .start_ps = ps_of(start),
       .end_ps = ps_of(span.end),
       .tree = span.algorithm == Algorithm::tree ? std::uint64_t{1} : 0});
}

/// Those that have ended for the thread that asks: what the simulation knows beyond that depends on
/// how far other ranks are.
void Engine::give_spans(Process& process, const Record& record) {
  std::vector<channel::TaggedSpan>& all = process.spans;
  const auto later = std::stable_partition(
      all.begin(), all.end(), [&](const auto& span) { return span.end_ps <= record.clock_ps; });
  const std::span<const channel::TaggedSpan> ended{all.begin(), later};
  const auto bytes = std::as_bytes(ended);
  process.link.send(
      {.kind = channel::Delivery::Kind::spans, .bytes = static_cast<std::uint32_t>(bytes.size())},
      bytes);
  all.erase(all.begin(), later);
  reply(process, record.thread, {.clock_ps = record.clock_ps});
}

/// The process that made a unique id, if ncclGetUniqueId did.
std::optional<ProcessIndex> Engine::maker_of(std::span<const std::byte> unique_id) const {
  channel::UniqueId id{.magic = 0};
  if (unique_id.size() >= sizeof id) std::memcpy(&id, unique_id.data(), sizeof id);
  if (id.magic != channel::UniqueId::known_magic || id.process >= processes_.size()) return {};
  return static_cast<ProcessIndex>(id.process);
}

void Engine::handle_join(Process& process, const Record& record,
                         std::span<const std::byte> payload) {
  PHANTORA_EXPECTS(record.a <= max_ranks && record.b < record.a, "a rank of its communicator");
  const GpuIndex gpu = gpu_of(process, record.device);
  admit(communicators_.join({payload.begin(), payload.end()}, maker_of(payload),
                            static_cast<int>(record.a), static_cast<int>(record.b), gpu,
                            {process.index, record.thread, time_of(record.clock_ps)}));
}

void Engine::handle_split(Process& process, const Record& record) {
  const auto [parent, rank] = seat_of(record.a);
  admit(communicators_.split(parent, rank, static_cast<std::int64_t>(record.b),
                             static_cast<std::int64_t>(record.c),
                             {process.index, record.thread, time_of(record.clock_ps)}));
}

void Engine::admit(const std::vector<Communicators::Admitted>& callers) {
  for (const Communicators::Admitted& one : callers) {
    Reply answer{.clock_ps = ps_of(one.caller.clock),
                 .value = channel::no_communicator,
                 .ranks = one.ranks,
                 .rank = one.rank};
    if (one.communicator) {
      answer.value = static_cast<std::int64_t>(handle_of({*one.communicator, one.rank}));
    }
    hold(processes_[one.caller.process], one.caller.thread, answer);
  }
}

ProcessIndex Engine::process_of(CommunicatorId communicator, int rank) const {
  return communicators_.members(communicator).at(static_cast<std::size_t>(rank)).process;
}

}  // namespace phantora::run
