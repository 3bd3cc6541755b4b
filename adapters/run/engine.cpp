#include "run/engine.hpp"

#include "channel/handshake.hpp"
#include "channel/query_text.hpp"

#include <phantora/error.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace phantora::run {
namespace {

using channel::Op;
using channel::Record;
using channel::Reply;
using channel::ThreadState;
using Clock = std::chrono::steady_clock;

Time time_of(std::int64_t ps) { return Time{Duration{ps}}; }
std::int64_t ps_of(Time time) { return time.time_since_epoch().count(); }

Bytes bytes_of(std::uint64_t count) {
  PHANTORA_EXPECTS(count >> 62U == 0, "bytes of a GPU's memory");
  return Bytes{static_cast<std::int64_t>(count)};
}

/// Ids that ranks choose are unique within their process; these are within the run.
std::uint64_t global(ProcessIndex process, std::uint64_t id) {
  PHANTORA_EXPECTS(id >> 40U == 0, "ids of ranks have 40 bits");
  return (static_cast<std::uint64_t>(process) << 40U) | id;
}

/// Where the clock stands of that thread of a process that has come furthest, ended or not.
Time latest_clock(const channel::RankShared& shared) {
  Time latest{};
  for (const channel::ThreadSlot& slot : slots_of(shared)) {
    latest = std::max(latest, time_of(slot.clock_ps.load()));
  }
  return latest;
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

Engine::Engine(const Cluster& cluster, Session& session, EngineOptions options)
    : cluster_{cluster},
      session_{session},
      options_{std::move(options)},
      communicators_{[this](std::vector<GpuIndex> gpus) {
        const CommunicatorId id = session_.add_communicator(gpus);
        if (options_.recorder != nullptr) options_.recorder->add_communicator(id, std::move(gpus));
        return id;
      }} {
  listener_ = UniqueFd{socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  const channel::Address address{options_.socket_name};
  if (bind(listener_.get(), address.get(), address.length) != 0 ||
      listen(listener_.get(), 1024) != 0) {
    throw Error{std::string{"cannot listen for ranks: "} + std::strerror(errno)};
  }
  epoll_ = UniqueFd{epoll_create1(EPOLL_CLOEXEC)};
  if (epoll_.get() < 0) throw Error{std::string{"cannot wait for ranks: "} + std::strerror(errno)};
  watch(listener_.get());
  for (std::size_t host = 0; host < cluster_.hosts.size(); ++host) {
    hosts_.push_back(make_shared_memory<channel::HostShared>("phantora-host"));
  }
  run_ = make_shared_memory<channel::RunShared>("phantora-run");
  last_progress_ = last_movement_ = last_look_ = Clock::now();
}

Engine::~Engine() {
  for (Process& process : processes_) disconnect(process);
}

void Engine::watch(int descriptor) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = descriptor;
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event);
}

void Engine::expect(int rank, pid_t pid, bool alone) {
  expected_[rank] = {.pid = pid};
  if (alone) {
    started_[rank] = pid;
  } else {
    with_parent_.insert(rank);
  }
}
void Engine::rank_ended(int rank) {
  expected_.erase(rank);
  started_.erase(rank);
  with_parent_.erase(rank);
  ended_ranks_.insert(rank);
}

int Engine::rank_of(ProcessIndex process) const { return processes_.at(process).hello.rank; }

std::uint64_t Engine::peak_memory(GpuIndex gpu) const {
  const Host& host = cluster_.host_of(cluster_.gpus.at(gpu));
  const auto index = static_cast<std::size_t>(&host - cluster_.hosts.data());
  const auto slot = std::find(host.gpus.begin(), host.gpus.end(), cluster_.gpus[gpu]);
  return hosts_.at(index)
      .memory->gpus.at(static_cast<std::size_t>(slot - host.gpus.begin()))
      .peak.load();
}

// --- Messages ---

void Engine::step(std::chrono::milliseconds patience) {
  // A delivery larger than a socket's buffer goes in parts, as the rank reads it.
  for (Process& process : processes_) {
    process.link.flush();
    if (process.link.has_outgoing()) patience = std::chrono::milliseconds{1};
  }
  patience = std::min(patience, std::max(until_next_look(), std::chrono::milliseconds{1}));
  std::array<epoll_event, 64> events{};
  const int ready = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                               static_cast<int>(patience.count()));
  for (int i = 0; i < ready; ++i) {
    const int descriptor = events[static_cast<std::size_t>(i)].data.fd;
    if (descriptor == listener_.get()) accept_process();
    for (Process& process : processes_) {
      if (process.link.descriptor() == descriptor) receive(process);
    }
  }
  progress();
  look_around();
}

void Engine::accept_process() {
  while (true) {
    const int socket = accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket < 0) return;
    processes_.push_back({.index = static_cast<ProcessIndex>(processes_.size()),
                          .link = RankLink{UniqueFd{socket}}});
    watch(socket);
  }
}

void Engine::receive(Process& process) {
  if (process.hello.pid != 0) {
    const bool open = process.link.receive_bells();
    if (open) {
      process.link.flush();
    } else {
      drain(process);
      disconnect(process);
    }
    return;
  }
  const auto hello = process.link.receive_hello();
  const bool known_host =
      hello && hello->host >= 0 && static_cast<std::size_t>(hello->host) < cluster_.hosts.size();
  if (!known_host) {
    if (hello || process.link.descriptor() < 0) disconnect(process);
    return;
  }
  process.hello = *hello;  // it is greeted when its turn comes
  if (hello->rank < 0) process.hello.rank = free_rank(process.index);
  last_progress_ = Clock::now();
}

bool Engine::greet(Process& process) {
  channel::Welcome welcome{.process = static_cast<std::int32_t>(process.index)};
  if (const auto known = expected_.find(process.hello.rank); known != expected_.end()) {
    welcome.start_ps = ps_of(known->second.bound);
    // What was started to start ranks uses the GPUs itself.
    if (known->second.pid == process.hello.pid) {
      std::erase_if(expected_, [&](const auto& e) { return e.second.pid == process.hello.pid; });
    }
  } else {
    welcome.start_ps = ps_of(session_.now());  // nobody has waited for it
  }
  const bool sent = process.link.welcome(
      welcome, hosts_[static_cast<std::size_t>(process.hello.host)].descriptor.get(),
      run_.descriptor.get());
  process.welcomed = true;
  process.turn = Clock::now();
  ++processes_of_rank_[process.hello.rank];
  expected_.erase(process.hello.rank);
  if (!sent) {
    disconnect(process);
    return false;
  }
  return true;
}

/// A number for a process that does not know its own: that of the rank which it was started as, or
/// within; else the first of its host's that a parent of several may still start; else one that no
/// GPU has.
int Engine::free_rank(ProcessIndex index) const {
  const channel::Hello& hello = processes_[index].hello;
  const auto taken = [&](int rank) {
    return std::any_of(processes_.begin(), processes_.end(), [&](const Process& p) {
      return p.index != index && !p.ended && p.hello.pid != 0 && p.hello.rank == rank;
    });
  };
  const ProcessTree now;
  for (const auto& [rank, pid] : started_) {
    if (taken(rank)) continue;
    const std::vector<pid_t> within = now.descendants(pid);
    if (pid == hello.pid || std::find(within.begin(), within.end(), hello.pid) != within.end()) {
      return rank;
    }
  }
  const auto host = static_cast<std::size_t>(hello.host);
  int rank = 0;
  for (std::size_t h = 0; h < host; ++h) rank += static_cast<int>(cluster_.hosts[h].gpus.size());
  const int end = rank + static_cast<int>(cluster_.hosts[host].gpus.size());
  while (rank < end && (started_.contains(rank) || taken(rank))) ++rank;
  if (rank == end) rank = static_cast<int>(cluster_.gpus.size());
  while (rank >= end && taken(rank)) ++rank;
  return rank;
}

void Engine::disconnect(Process& process) {
  process.ended = true;
  forget_who_waits_for_ranks();  // its parent may have waited for its end
  if (process.welcomed) --processes_of_rank_[process.hello.rank];
  process.threads.clear();
  if (options_.recorder != nullptr) options_.recorder->end(process.index);
  admit(communicators_.end_process(process.index));
  if (process.link.shared() != nullptr) {
    const auto host = static_cast<std::size_t>(process.hello.host);
    for (std::size_t gpu = 0; gpu < channel::max_gpus_per_host; ++gpu) {
      hosts_[host].memory->gpus[gpu].used -= process.link.shared()->held[gpu].exchange(0);
    }
    // Started through a script, the rank may run another program after this one.
    const auto rank = started_.find(process.hello.rank);
    if (rank != started_.end() && rank->second != process.hello.pid) {
      expected_[rank->first] = {.pid = rank->second, .bound = latest_clock(*process.link.shared())};
    }
  }
  process.link.close();
  last_progress_ = Clock::now();
}

// --- Records ---

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
  PHANTORA_EXPECTS(record.clock_ps >= 0 && record.clock_ps < channel::no_time / 2, "a clock");
  const Time clock = time_of(record.clock_ps);
  const StreamId stream{global(process.index, record.stream)};
  const MarkerId marker{global(process.index, record.a)};
  // Threads have clocks of their own; a stream is in order.
  const auto issued = [&] { return std::max(clock, session_.last_issued(stream)); };
  Recorder* const recorder = options_.recorder;
  const Recorder::Caller caller{process.index, record.thread, clock};
  switch (record.op) {
    case Op::define_query: {
      const std::string_view text{reinterpret_cast<const char*>(payload.data()), payload.size()};
      PHANTORA_EXPECTS(record.a == process.queries.size(), "query ids are consecutive");
      const KernelQuery query = channel::query_from_text(text);
      // The GPUs of a host are alike.
      process.queries.push_back(session_.add_query(query, gpu_of(process, 0)));
      if (recorder != nullptr) recorder->add_query(process.queries.back(), query);
      return;
    }
    case Op::create_stream:
      process.issued = true;
      if (recorder != nullptr)
        recorder->add_stream(stream, gpu_of(process, record.device), process.index);
      session_.add_stream(stream, gpu_of(process, record.device), process.index);
      return;
    case Op::launch:
      if (recorder != nullptr) recorder->launch(caller, stream, process.queries.at(record.a));
      session_.launch(stream, issued(), process.queries.at(record.a));
      return;
    case Op::record:
      if (recorder != nullptr) recorder->record(caller, stream, marker);
      session_.record(stream, issued(), marker);
      return;
    case Op::wait:
      if (recorder != nullptr) recorder->wait(caller, stream, marker);
      session_.wait(stream, issued(), marker);
      return;
    case Op::drop_marker:
      session_.drop(marker);
      return;
    case Op::host_function:
      session_.host_function(stream, issued(), global(process.index, record.a));
      return;
    case Op::host_function_done:
      session_.host_function_done(global(process.index, record.a), Time{});
      return;
    case Op::collective:
      handle_collective(process, record, payload);
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
    case Op::range:
      PHANTORA_EXPECTS(record.c <= static_cast<std::uint64_t>(record.clock_ps), "a range");
      if (range_listener_) {
        range_listener_({.process = process.index,
                         .thread = record.a,
                         .name = {reinterpret_cast<const char*>(payload.data()), payload.size()},
                         .start = time_of(static_cast<std::int64_t>(record.c)),
                         .end = clock});
      }
      return;
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
  Tagged message_tag{.process = process.index, .tickets = {}};
  Tagged collective_tag{.process = process.index, .tickets = {}};
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
    if (tagged.tickets.empty()) return 0;  // nobody asks when it is done
    tags_.emplace(++last_tag_, std::move(tagged));
    return last_tag_;
  };
  const Time issued = std::max(clock, session_.last_issued(stream));
  Recorder* const recorder = options_.recorder;
  const Recorder::Caller caller{process.index, record.thread, clock};
  if (!group.empty()) {
    if (recorder != nullptr) recorder->collective(caller, stream, communicator, group);
    try {
      session_.collective(stream, issued, communicator, rank, group, number(collective_tag));
    } catch (const Disagreement& found) {
      throw Error{in_words(found, communicator)};
    }
  }
  if (!messages.empty()) {
    if (recorder != nullptr) recorder->send_recv(caller, stream, communicator, messages);
    session_.send_recv(stream, issued, communicator, rank, messages, number(message_tag));
  }
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

// --- Time ---

/// Whether the process has only asked what GPUs there are, and another of its rank does the work:
/// as the processes that compile kernels for PyTorch do. Nobody waits for what it may do.
bool Engine::only_helps(const Process& process) const {
  const auto all = processes_of_rank_.find(process.hello.rank);
  return process.welcomed && !process.issued && all != processes_of_rank_.end() && all->second > 1;
}

Time Engine::bound(const Process& process) const {
  if (process.ended || only_helps(process)) return never;
  if (!process.welcomed) return Time{};
  HostProcess threads;
  const auto slots = slots_of(*process.link.shared());
  for (std::uint32_t i = 0; i < slots.size(); ++i) {
    const channel::ThreadSlot& slot = slots[i];
    if (const auto known = process.threads.find(i); known != process.threads.end()) {
      if (known->second.held) {
        threads.runs(time_of(known->second.held->clock_ps));
        continue;
      }
      if (known->second.blocked) {
        threads.is_blocked();
        continue;
      }
    }
    const ThreadState state = slot.state.load(std::memory_order_acquire);
    Time clock = time_of(slot.clock_ps.load(std::memory_order_acquire));
    bool waits = false;
    const auto seen = process.observed.find(i);
    if (state == ThreadState::running && seen != process.observed.end() &&
        seen->second.clock_ps == ps_of(clock)) {
      // It waits in a way that nobody told us, or computes without calling.
      waits = seen->second.asleep;
      clock += Duration{seen->second.charged_ps};
    }
    if (state == ThreadState::waiting) {
      threads.waits(clock, time_of(slot.wakes_at_ps.load()));
    } else if (waits) {
      threads.waits(clock);
    } else if (state == ThreadState::running || state == ThreadState::sleeping) {
      threads.runs(clock);
    }
  }
  const bool ranks_wake =
      process.waits_for_ranks && process.waits_for_ranks == threads.waiting_at();
  if (const auto known = threads.bound(ranks_wake)) return *known;
  // The threads that used a GPU have ended, and the main thread has made no call since.
  return latest_clock(*process.link.shared());
}

/// The latest clock of the process's threads, with what they have computed since they last called.
Time Engine::latest(const Process& process) const {
  Time latest{};
  for (const auto& [index, seen] : process.observed) {
    if (seen.clock_ps == process.link.shared()->threads[index].clock_ps.load()) {
      latest = std::max(latest, time_of(seen.clock_ps + seen.charged_ps));
    }
  }
  return latest;
}

/// Whether all threads of the process that have a part in time wait: then a background thread that
/// asks about its GPU may be what they wait for, and its asking takes their time.
bool Engine::stands_in(const Process& process) const {
  const auto slots = slots_of(*process.link.shared());
  for (std::uint32_t i = 0; i < slots.size(); ++i) {
    const channel::ThreadSlot& slot = slots[i];
    const ThreadState state = slot.state.load(std::memory_order_acquire);
    if (state == ThreadState::sleeping) return false;
    if (state != ThreadState::running) continue;
    const auto seen = process.observed.find(i);
    if (process.threads.contains(i) || seen == process.observed.end() || !seen->second.asleep ||
        seen->second.clock_ps != slot.clock_ps.load()) {
      return false;
    }
  }
  return true;
}

void Engine::progress() {
  while (true) {
    std::vector<Time> bounds;
    // A clock is read before the ring: whatever its thread issued earlier is then in the ring.
    for (Process& process : processes_) {
      bounds.push_back(bound(process));
      drain(process);
    }
    // A clock is read before the number of messages too: what its thread sent earlier is counted.
    if (run_.memory->sends.load() != sends_at_look_ && forget_who_waits_for_ranks()) continue;
    for (const auto& [rank, expected] : expected_) bounds.push_back(expected.bound);
    const Time before = session_.now();
    const std::vector<Answer> answers = session_.advance(bounds);
    for (const Answer& answer : answers) give(answer);
    send_host_functions();
    for (const std::uint64_t tag : session_.finished_collectives()) {
      const auto found = tags_.find(tag);
      if (found == tags_.end()) continue;
      Process& process = processes_[found->second.process];
      for (const std::uint64_t ticket : found->second.tickets) {
        if (process.delivered.erase(ticket) == 0) process.undelivered.insert(ticket);
      }
      tags_.erase(found);
    }
    release_held();
    const bool moved = !answers.empty() || bounds != last_bounds_ || session_.now() != before;
    last_bounds_ = bounds;
    if (moved) note_movement();
    if (!answers.empty()) {
      last_progress_ = Clock::now();
      continue;
    }
    // Nothing more is safe. Ask to be told when a clock passes what we wait for, then look again
    // in case it did so meanwhile.
    const Time awaited = session_.awaited();
    bool again = false;
    for (Process& process : processes_) {
      if (process.link.shared() == nullptr) continue;
      process.link.shared()->doorbell_at.store(awaited == never ? channel::no_time
                                                                : ps_of(awaited));
      again = again || process.link.has_records() || bound(process) != bounds[process.index];
    }
    if (!again) return;
  }
}

/// Simulated time, or some clock, has moved.
void Engine::note_movement() {
  last_movement_ = Clock::now();
  pause_ = std::chrono::milliseconds{1};
  quiet_looks_ = 0;
  silence_ = {};
}

void Engine::give(const Answer& answer) {
  if (options_.recorder != nullptr) options_.recorder->answered(answer);
  Process& process = processes_[answer.process];
  Reply reply_to{.clock_ps = ps_of(answer.clock), .value = answer.done ? 1 : 0};
  if (!process.ended &&
      process.link.shared()->threads.at(answer.thread).state.load() == ThreadState::background) {
    reply_to.counts = true;
    reply(process, answer.thread, reply_to);  // it uses no turn
  } else {
    hold(process, answer.thread, reply_to);
  }
}

void Engine::send_host_functions() {
  for (const auto& [ticket, at] : session_.due_host_functions()) {
    processes_[ticket >> 40U].link.send({.kind = channel::Delivery::Kind::run_host_function,
                                         .bytes = 0,
                                         .ticket = ticket & ((std::uint64_t{1} << 40U) - 1),
                                         .clock_ps = ps_of(at)},
                                        {});
    note_movement();
  }
}

void Engine::block(Process& process, const Record& record) {
  PHANTORA_EXPECTS(record.thread < channel::max_threads, "a thread's slot");
  last_progress_ = Clock::now();
  process.threads[record.thread] = {
      .blocked = true, .held = {}, .in = record.op, .since = time_of(record.clock_ps)};
}

void Engine::hold(Process& process, std::uint32_t thread, Reply answer) {
  process.threads[thread].held = answer;
}

std::vector<Contender> Engine::contenders() const {
  std::vector<Contender> all;
  for (const Process& process : processes_) {
    if (process.ended) continue;
    Contender& contender = all.emplace_back(Contender{.process = process.index});
    auto& next = contender.next;
    if (!process.welcomed && process.hello.pid != 0) next = {0, channel::no_thread};
    if (!process.undelivered.empty()) continue;
    for (const auto& [thread, state] : process.threads) {
      if (state.held && (!next || state.held->clock_ps < next->clock_ps)) {
        next = {state.held->clock_ps, thread};
      }
    }
  }
  if (std::none_of(all.begin(), all.end(), [](const auto& one) { return one.next.has_value(); })) {
    return {};
  }
  const auto now = Clock::now();
  for (Contender& contender : all) {
    const Process& process = processes_[contender.process];
    if (!process.welcomed) continue;
    const auto slots = slots_of(*process.link.shared());
    TurnUse use{.has_threads = !slots.empty(),
                .idle = process.idle,
                .silent_for = now - std::max(process.heard, process.turn)};
    for (std::uint32_t i = 0; i < slots.size(); ++i) {
      const auto known = process.threads.find(i);
      const bool blocked =
          known != process.threads.end() && (known->second.blocked || known->second.held);
      const ThreadState state = slots[i].state.load(std::memory_order_acquire);
      use.thread_runs = use.thread_runs || (!blocked && state == ThreadState::running);
    }
    contender.uses_turn = uses_turn(use);
  }
  return all;
}

/// Lets as many go on as may run.
void Engine::release_held() {
  while (const auto next = next_turn(contenders(), options_.runnable)) {
    Process& process = processes_[next->process];
    process.idle = false;
    process.turn = Clock::now();
    const std::uint32_t thread = next->next->thread;
    if (thread == channel::no_thread) {
      greet(process);
    } else {
      const Reply answer = *process.threads[thread].held;
      reply(process, thread, answer);
    }
  }
}

void Engine::reply(Process& process, std::uint32_t thread, const Reply& answer) {
  process.threads.erase(thread);
  process.link.reply(thread, answer);
}

void Engine::deliver(const Delivered& delivered) {
  Process& process = processes_[delivered.process];
  process.link.send({.kind = channel::Delivery::Kind::result,
                     .bytes = static_cast<std::uint32_t>(delivered.bytes.size()),
                     .ticket = delivered.ticket},
                    delivered.bytes);
  if (process.undelivered.erase(delivered.ticket) == 0) process.delivered.insert(delivered.ticket);
}

void Engine::finish() {
  for (Process& process : processes_) drain(process);
  const std::vector<Time> bounds(processes_.size(), never);
  while (!session_.advance(bounds).empty()) {
  }
}

}  // namespace phantora::run
