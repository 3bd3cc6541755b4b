// The processes of a run: how they connect, are greeted and leave. What they ask for is in
// engine_calls.cpp, their time in engine_time.cpp and engine_rest.cpp.

#include "run/engine.hpp"

#include "channel/handshake.hpp"
#include "run/channel_time.hpp"

#include <phantora/error.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace phantora::run {
namespace {

using Clock = std::chrono::steady_clock;

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
  run_.memory->recorded = options_.recorder != nullptr;
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

std::vector<Engine::Resident> Engine::residents() const {
  std::vector<Resident> all;
  for (const Process& process : processes_) {
    const channel::RankShared* const shared = process.link.shared();
    if (shared == nullptr) continue;
    const auto host = static_cast<std::size_t>(process.hello.host);
    for (std::size_t device = 0; device < cluster_.hosts[host].gpus.size(); ++device) {
      const std::uint64_t bytes = shared->held.at(device).load();
      if (bytes > 0)
        all.push_back({gpu_of(process, device), process.hello.pid, process.hello.rank, bytes});
    }
  }
  return all;
}

const MemoryLedger& Engine::ledger(GpuIndex gpu) const {
  const Host& host = cluster_.host_of(cluster_.gpus.at(gpu));
  const auto index = static_cast<std::size_t>(&host - cluster_.hosts.data());
  const auto slot = std::find(host.gpus.begin(), host.gpus.end(), cluster_.gpus[gpu]);
  return hosts_.at(index).memory->gpus.at(static_cast<std::size_t>(slot - host.gpus.begin()));
}

std::string Engine::run_memory() const {
  return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(run_.descriptor.get());
}

bool Engine::step(std::chrono::milliseconds patience) {
  // A delivery larger than a socket's buffer goes in parts, as the rank reads it.
  for (Process& process : processes_) {
    process.link.flush();
    if (process.link.has_outgoing()) patience = std::chrono::milliseconds{1};
  }
  patience = std::min(patience, std::max(until_next_look(), std::chrono::milliseconds{1}));
  const bool others = !rung(patience) && sleep_until_any(patience);
  progress();
  look_around();
  return others;
}

/// Whether a rank has rung, or does so in a little, if there is time for that.
bool Engine::rung(std::chrono::milliseconds patience) {
  // Bells that come one after the other do not keep anything else from being heard.
  constexpr int most_in_a_row = 32;
  channel::RunShared& run = *run_.memory;
  const auto bell = [&] { return run.bells.load() != bells_heard_; };
  const bool looks = patience.count() > 0 && run.cores_to_spare.load();
  const bool came = looks ? lookout_.sees(bell) : bell();
  if (!came || ++bells_in_a_row_ > most_in_a_row) return false;
  bells_heard_ = run.bells.load();
  return true;
}

/// Sleeps until a rank rings or a descriptor is ready, for `patience` at most.
/// @return whether one of watch() is ready.
bool Engine::sleep_until_any(std::chrono::milliseconds patience) {
  bells_in_a_row_ = 0;
  channel::RunShared& run = *run_.memory;
  run.engine_sleeps.store(true);
  // In one order with a rank, which counts its bell and then looks whether the engine sleeps.
  if (run.bells.load() != bells_heard_) patience = {};
  std::array<epoll_event, 64> events{};
  const int ready = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                               static_cast<int>(patience.count()));
  run.engine_sleeps.store(false);
  bells_heard_ = run.bells.load();
  bool others = false;
  for (int i = 0; i < ready; ++i) {
    const int descriptor = events[static_cast<std::size_t>(i)].data.fd;
    if (descriptor == listener_.get()) {
      accept_process();
      continue;
    }
    const auto from = std::ranges::find_if(processes_, [&](const Process& process) {
      return process.link.descriptor() == descriptor;
    });
    if (from != processes_.end()) {
      receive(*from);
    } else {
      others = true;
    }
  }
  return others;
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
  share_cores();
  expected_.erase(process.hello.rank);
  if (!sent) {
    disconnect(process);
    return false;
  }
  goes_on();
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

/// Says whether there is a core for each process, and one for the engine.
void Engine::share_cores() {
  const auto connected = std::ranges::count_if(
      processes_, [](const Process& process) { return process.welcomed && !process.ended; });
  run_.memory->cores_to_spare.store(connected < options_.cores);
}

void Engine::disconnect(Process& process) {
  process.ended = true;
  forget_who_waits_for_ranks();  // its parent may have waited for its end
  if (process.welcomed) --processes_of_rank_[process.hello.rank];
  share_cores();
  process.threads.clear();
  if (options_.recorder != nullptr) options_.recorder->end(process.index);
  admit(communicators_.end_process(process.index));
  if (process.link.shared() != nullptr) {
    const auto host = static_cast<std::size_t>(process.hello.host);
    for (std::size_t gpu = 0; gpu < channel::max_gpus_per_host; ++gpu) {
      const std::uint64_t held = process.link.shared()->held[gpu].exchange(0);
      hosts_[host].memory->gpus[gpu].free(Bytes{static_cast<std::int64_t>(held)});
    }
    // Started through a script, the rank may run another program after this one.
    const auto rank = started_.find(process.hello.rank);
    if (rank != started_.end() && rank->second != process.hello.pid) {
      expected_[rank->first] = {.pid = rank->second, .bound = latest_clock(*process.link.shared())};
    }
  }
  process.link.close();
  last_progress_ = Clock::now();
  if (std::ranges::all_of(processes_, &Process::ended)) stands();
}

}  // namespace phantora::run
