#pragma once

#include "channel/wire.hpp"
#include "run/open_calls.hpp"
#include "run/small_data.hpp"

#include <phantora/cluster.hpp>
#include <phantora/error.hpp>
#include <phantora/gpu_model.hpp>
#include <phantora/session.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <sys/types.h>

/// The server of a run: ranks on one side, a Session on the other.
namespace phantora::run {

struct EngineOptions {
  std::string socket_name;
  /// How many ranks may run at once; the others wait for their turn, least clock first.
  int runnable = 2;
  /// Without progress for so long while some rank waits for another, the run is stalled.
  std::chrono::seconds stall_timeout{60};
};

/// What a run says about itself besides what the GPUs did.
struct RunCounters {
  std::uint64_t forced_answers = 0;
  std::map<std::string, std::uint64_t> named;  ///< "unknown_reads", "unsupported cudaX", ...
};

/// The run cannot go on: the message says who waits for whom.
class StallError : public Error {
 public:
  using Error::Error;
};

class Engine {
 public:
  /// @throws Error if the socket cannot be made.
  Engine(const Cluster& cluster, const GpuModel& gpu, Session& session, EngineOptions options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// A rank was started: until it connects or ends, it may still do anything.
  /// @param alone  `pid` runs no other rank: whenever no process of it is connected, another may
  ///   still come.
  void expect(int rank, pid_t pid, bool alone);
  /// What was started for it has ended.
  void rank_ended(int rank);

  /// Handles what has come in, waiting for up to `patience` for something.
  /// @throws StallError when ranks wait for what cannot come; Error when they contradict each
  /// other.
  void step(std::chrono::milliseconds patience);
  /// All ranks have ended: simulates the rest.
  void finish();
  /// A descriptor to be watched together with the engine's own; step() returns when it is ready.
  void watch(int descriptor);

  [[nodiscard]] const RunCounters& counters() const noexcept { return counters_; }
  [[nodiscard]] int rank_of(ProcessIndex process) const;
  /// Peak memory of a GPU, in bytes.
  [[nodiscard]] std::uint64_t peak_memory(GpuIndex gpu) const;

 private:
  struct Thread {
    bool blocked = false;                  ///< in the session, a join or a split
    std::optional<channel::Reply> held{};  ///< answered, but may not go on yet
  };
  struct Process {
    ProcessIndex index = 0;
    int socket = -1;
    channel::Hello hello{};
    bool welcomed = false;
    bool ended = false;
    channel::RankShared* shared = nullptr;
    std::map<std::uint32_t, Thread> threads{};
    std::vector<QueryIndex> queries{};
    std::uint64_t deliveries = 0;
    std::chrono::steady_clock::time_point heard{};  ///< when it last appended a record
    std::vector<std::byte> outgoing{};
    /// Small collectives that are over in simulated time and whose data has not come together.
    std::set<std::uint64_t> undelivered{};
    std::set<std::uint64_t> delivered{};
    std::uint64_t cpu_ns = 0;  ///< at the last sample
    bool idle = false;         ///< it holds a turn and does not use it
    /// One of its threads sleeps until this instant of its clock, and since when it does.
    std::int64_t sleeps_until_ps = 0;
    std::chrono::steady_clock::time_point asleep_since{};
  };
  struct Join;
  struct Split;
  struct Member {
    ProcessIndex process = 0;
    GpuIndex gpu = 0;
  };
  struct CommunicatorEntry {
    CommunicatorId id{};
    std::vector<Member> members;
    OpenCalls calls;
  };
  /// A rank none of whose processes is connected.
  struct Expected {
    pid_t pid = 0;
    std::uint64_t cpu_ns = 0;  ///< at the last sample
    Time bound{};              ///< where the clock of its former process stopped
  };

  void accept_process();
  bool greet(Process& process);
  void receive(Process& process);
  void flush(Process& process);
  void disconnect(Process& process);
  void drain(Process& process);
  void handle(Process& process, const channel::Record& record, std::span<const std::byte> payload);
  void handle_collective(Process& process, const channel::Record& record,
                         std::span<const std::byte> payload);
  void handle_join(Process& process, const channel::Record& record,
                   std::span<const std::byte> payload);
  void handle_split(Process& process, const channel::Record& record);
  std::uint64_t add_communicator(std::vector<Member> members);

  [[nodiscard]] Time bound(const Process& process) const;
  void progress();
  /// @throws Error that names the rank, and what in its records cannot be.
  [[noreturn]] void throw_overwritten(const Process& process, const std::string& found) const;
  void block(Process& process, std::uint32_t thread);
  void hold(Process& process, std::uint32_t thread, channel::Reply reply);
  void release_held();
  void reply(Process& process, std::uint32_t thread, const channel::Reply& reply);
  void deliver(const Delivered& delivered);
  void send(Process& process, const channel::Delivery& delivery, std::span<const std::byte> data);
  [[nodiscard]] int running() const;
  void look_for_stall();
  bool sample_idleness();
  void note_sleep(Process& process) const;
  [[nodiscard]] bool someone_sleeps_long() const;
  [[nodiscard]] bool waits_for_the_dead() const;
  [[nodiscard]] std::string name_of(ProcessIndex process) const;
  [[nodiscard]] std::string names_of(const std::vector<ProcessIndex>& processes) const;
  [[nodiscard]] std::string state_of(ProcessIndex process) const;
  [[noreturn]] void diagnose_stall() const;

  const Cluster& cluster_;
  const GpuModel& gpu_;
  Session& session_;
  EngineOptions options_;
  int listener_ = -1;
  int epoll_ = -1;
  std::deque<Process> processes_{};
  std::map<int, Expected> expected_{};
  std::map<int, pid_t> started_{};  ///< ranks that have a process of their own
  std::set<int> ended_ranks_{};
  std::vector<channel::HostShared*> hosts_{};
  std::vector<int> host_descriptors_{};
  std::map<std::vector<std::byte>, Join> joins_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, Split> splits_;
  std::map<std::pair<std::uint64_t, int>, std::uint64_t> split_calls_{};
  std::vector<CommunicatorEntry> communicators_{};
  SmallData small_data_{};
  /// Per communicator, rank, send or recv, and peer: operations with data so far.
  std::map<std::tuple<std::uint64_t, int, int, int>, std::uint64_t> small_calls_{};
  struct Tagged {
    ProcessIndex process = 0;
    std::vector<std::uint64_t> tickets;
  };
  std::map<std::uint64_t, Tagged> tags_{};
  std::uint64_t last_tag_ = 0;
  RunCounters counters_{};
  std::chrono::steady_clock::time_point last_progress_{}, last_sample_{};
  int quiet_samples_ = 0;
};

}  // namespace phantora::run
