#pragma once

#include "channel/lookout.hpp"
#include "channel/wire.hpp"
#include "run/doing.hpp"
#include "run/process_tree.hpp"
#include "run/rank_link.hpp"
#include "run/rest.hpp"
#include "run/shared_memory.hpp"
#include "run/small_data.hpp"
#include "run/turns.hpp"
#include "run/unique_fd.hpp"

#include <phantora/cluster/cluster.hpp>
#include <phantora/error.hpp>
#include <phantora/simulation/communicators.hpp>
#include <phantora/simulation/host_process.hpp>
#include <phantora/simulation/memory_ledger.hpp>
#include <phantora/simulation/recorder.hpp>
#include <phantora/simulation/session.hpp>
#include <phantora/simulation/standstill.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <sys/types.h>

/// The server of a run: ranks on one side, a Session on the other.
namespace phantora::run {

struct EngineOptions {
  std::string socket_name{};
  /// How many ranks may run at once; the others wait for their turn, least clock first.
  int runnable = 2;
  /// Of this machine, for the ranks and the engine.
  int cores = 1;
  /// When every thread has slept for so long and nothing can wake one, the run is stalled.
  std::chrono::seconds stall_timeout{60};
  /// Whom to tell when simulated time has stood still for long; nobody if empty.
  std::function<void(const std::string&)> tell{};
  /// Told of what the ranks do, if any.
  Recorder* recorder = nullptr;
};

/// What a run says about itself besides what the GPUs did.
struct RunCounters {
  /// How often a thread that ran was taken to spin, so that answers did not wait for it.
  std::uint64_t forced_answers = 0;
  /// Given when every thread of the run slept, so that nobody could do anything before.
  std::uint64_t answers_at_rest = 0;
  std::map<std::string, std::uint64_t> named;  ///< "unknown_reads", "unsupported cudaX", ...
};

/// The run cannot go on: the message says who waits for whom.
class StallError : public Error {
 public:
  using Error::Error;
};

class Engine : SessionObserver {
 public:
  /// @throws Error if the socket cannot be made.
  Engine(const Cluster& cluster, Session& session, EngineOptions options);
  ~Engine() override;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// A rank was started: until it connects or ends, it may still do anything.
  /// @param alone  `pid` runs no other rank: whenever no process of it is connected, another may
  ///   still come. Else it is the parent of several, and may start fewer.
  void expect(int rank, pid_t pid, bool alone);
  /// What was started for it has ended.
  void rank_ended(int rank);

  /// Handles what has come in, waiting for up to `patience` for something. @return whether a
  /// descriptor of watch() is ready.
  /// @throws StallError when ranks wait for what cannot come; Error when they contradict each
  /// other.
  bool step(std::chrono::milliseconds patience);
  /// All ranks have ended: simulates the rest.
  void finish();
  /// A path under which processes of this machine can open the memory that all of them share.
  [[nodiscard]] std::string run_memory() const;
  /// A descriptor to be watched together with the engine's own; step() returns when it is ready.
  void watch(int descriptor);

  [[nodiscard]] const RunCounters& counters() const noexcept { return counters_; }
  /// Whether any process has used a GPU.
  [[nodiscard]] bool gpus_were_used() const noexcept { return !processes_.empty(); }
  [[nodiscard]] int rank_of(ProcessIndex process) const;
  /// Peak memory of a GPU, in bytes.
  [[nodiscard]] std::uint64_t peak_memory(GpuIndex gpu) const {
    return static_cast<std::uint64_t>(ledger(gpu).peak().count());
  }
  /// What is taken of it now.
  [[nodiscard]] std::uint64_t used_memory(GpuIndex gpu) const {
    return static_cast<std::uint64_t>(ledger(gpu).held().count());
  }
  /// A process that holds memory of a GPU.
  struct Resident {
    GpuIndex gpu = 0;
    pid_t pid = 0;
    int rank = 0;
    std::uint64_t bytes = 0;
  };
  [[nodiscard]] std::vector<Resident> residents() const;

 private:
  struct Thread {
    bool blocked = false;                  ///< in the session, a join or a split
    std::optional<channel::Reply> held{};  ///< answered, but may not go on yet
    channel::Op in{};                      ///< what it called
    Time since{};                          ///< by its clock
  };
  /// What the kernel showed of a thread with a clock, while that stood at `clock_ps`.
  struct Observed {
    std::int64_t clock_ps = 0;
    std::uint64_t first_cpu_ns = 0, cpu_ns = 0;  ///< when first and last looked at
    std::int64_t charged_ps = 0;                 ///< how much further its clock has come since then
    bool asleep = false;  ///< it has not run between the last two looks, or only spins
  };
  struct Watched {
    ThreadLook look;
    ThreadLook computed_from;  ///< since then: no system call to speak of, no memory taken
    bool spins = false;        ///< for so long that it is taken to wait
  };
  struct Process {
    ProcessIndex index = 0;
    RankLink link;
    channel::Hello hello{};  ///< its pid is 0 until it has come
    bool welcomed = false;
    bool ended = false;
    bool issued = false;  ///< work for a GPU, or has joined a communicator
    std::map<std::uint32_t, Thread> threads{};
    std::map<std::uint32_t, Observed> observed{};
    std::vector<QueryIndex> queries{};
    std::chrono::steady_clock::time_point heard{};  ///< when it last appended a record
    std::chrono::steady_clock::time_point turn{};   ///< when it was last let go on
    /// Small collectives that are over in simulated time and whose data has not come together.
    std::set<std::uint64_t> undelivered{};
    std::set<std::uint64_t> delivered{};
    bool idle = false;  ///< it holds a turn and does not use it
    /// All its threads waited at this instant of their clocks when nobody but ranks could wake
    /// them: they go on no earlier than those do, and so hold nobody up. Until something is sent:
    /// they may then go on as early as its sender was, who may be ahead when they do.
    std::optional<Time> waits_for_ranks{};
    std::vector<channel::TaggedSpan> spans{};  ///< that it will ask for
    /// One of its threads sleeps until this instant of its clock, and since when it does.
    std::int64_t sleeps_until_ps = 0;
    std::chrono::steady_clock::time_point asleep_since{};
  };
  /// A rank none of whose processes is connected.
  struct Expected {
    pid_t pid = 0;
    Time bound{};  ///< where the clock of its former process stopped
  };

  bool rung(std::chrono::milliseconds patience);
  bool sleep_until_any(std::chrono::milliseconds patience);
  void accept_process();
  void share_cores();
  bool greet(Process& process);
  [[nodiscard]] int free_rank(ProcessIndex index) const;
  [[nodiscard]] const MemoryLedger& ledger(GpuIndex gpu) const;
  void receive(Process& process);
  void disconnect(Process& process);
  void drain(Process& process);
  void handle(Process& process, const channel::Record& record, std::span<const std::byte> payload);
  void handle_collective(Process& process, const channel::Record& record,
                         std::span<const std::byte> payload);
  void issue(const Process& process, const channel::Record& record, CommunicatorId communicator,
             int rank, std::span<const GroupedCollective> group, std::uint64_t tag);
  void note_user(GpuIndex gpu, ProcessIndex process);
  void handle_meeting(Process& process, const channel::Record& record,
                      std::span<const std::byte> payload);
  [[nodiscard]] GpuIndex gpu_of(const Process& process, std::size_t device) const;
  [[nodiscard]] std::optional<ProcessIndex> maker_of(std::span<const std::byte> unique_id) const;
  void handle_join(Process& process, const channel::Record& record,
                   std::span<const std::byte> payload);
  void handle_split(Process& process, const channel::Record& record);
  void on_span(const Span& span) override;
  void give_spans(Process& process, const channel::Record& record);
  std::uint64_t span_tag(const Process& process, std::uint64_t tag);
  void watch_spans();
  void admit(const std::vector<Communicators::Admitted>& callers);
  [[nodiscard]] ProcessIndex process_of(CommunicatorId communicator, int rank) const;

  [[nodiscard]] Time bound(const Process& process) const;
  [[nodiscard]] bool only_helps(const Process& process) const;
  void progress();
  /// @throws Error that names the rank, and what in its records cannot be.
  [[noreturn]] void throw_overwritten(const Process& process, const std::string& found) const;
  void note_movement();
  void show_time(const std::vector<Time>& bounds);
  void goes_on();
  void stands();
  void stood(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to);
  void block(Process& process, const channel::Record& record);
  void give(const Answer& answer);
  void send_host_functions();
  void hold(Process& process, std::uint32_t thread, channel::Reply reply);
  void release_held();
  void reply(Process& process, std::uint32_t thread, const channel::Reply& reply);
  void deliver(const Delivered& delivered);
  [[nodiscard]] std::vector<Contender> contenders() const;
  [[nodiscard]] bool stands_in(const Process& process) const;
  [[nodiscard]] Time latest(const Process& process) const;
  [[nodiscard]] bool someone_waits() const;

  // engine_rest.cpp: what the kernel knows of the threads, and what follows when nothing moves.
  [[nodiscard]] std::chrono::milliseconds until_next_look() const;
  void look_around();
  Found look_at_threads();
  void observe(Process& process, std::uint32_t slot, const ThreadLook& look, bool asleep);
  bool go_on_at_rest();
  [[nodiscard]] Time first_to_wake() const;
  [[nodiscard]] bool is_blocked(const Process& process) const;
  [[nodiscard]] std::optional<Time> waiting_at(const Process& process) const;
  [[nodiscard]] bool ranks_wait() const;
  bool forget_who_waits_for_ranks();
  void look_for_stall(bool rests);
  void note_sleep(Process& process) const;
  [[nodiscard]] bool someone_sleeps_long() const;
  [[nodiscard]] bool someone_waits_outside() const;
  [[nodiscard]] bool waits_for_the_dead() const;

  // diagnosis.cpp: in words.
  [[nodiscard]] std::string name_of(ProcessIndex process) const;
  [[nodiscard]] SeenProcess seen(const Process& process) const;
  [[nodiscard]] SeenThread seen(const Process& process, std::uint32_t slot) const;
  [[nodiscard]] Standstill standstill() const;
  [[nodiscard]] std::string in_words(const Disagreement& found, CommunicatorId communicator) const;
  void tell_that_nothing_moves();
  [[noreturn]] void diagnose_stall() const;

  const Cluster& cluster_;
  Session& session_;
  EngineOptions options_;
  UniqueFd listener_{}, epoll_{};
  std::deque<Process> processes_{};
  std::map<int, Expected> expected_{};
  std::map<int, pid_t> started_{};  ///< ranks that have a process of their own
  std::set<int> with_parent_{};     ///< ranks that a living parent of several starts
  std::set<int> ended_ranks_{};
  std::map<int, int> processes_of_rank_{};  ///< connected ones
  std::vector<SharedMemory<channel::HostShared>> hosts_{};
  SharedMemory<channel::RunShared> run_{};
  channel::Lookout lookout_{};  ///< for bells
  std::uint32_t bells_heard_ = 0;
  int bells_in_a_row_ = 0;           ///< since it slept
  std::uint64_t sends_at_look_ = 0;  ///< RunShared::sends before the last look at the threads
  Communicators communicators_;
  /// Of GPUs whose kernels wait for each other, in order: what they meet in.
  std::map<std::vector<GpuIndex>, CommunicatorId> meeting_places_{};
  std::map<GpuIndex, ProcessIndex> users_{};  ///< that make streams there, the first that lives
  SmallData small_data_{};
  /// Per communicator, rank, send or recv, and peer: operations with data so far.
  std::map<std::tuple<CommunicatorId, int, int, int>, std::uint64_t> small_calls_{};
  struct Tagged {
    ProcessIndex process = 0;
    std::vector<std::uint64_t> tickets;
    std::uint64_t span = 0;  ///< the process's tag of it
  };
  std::map<std::uint64_t, Tagged> tags_{};
  std::uint64_t last_tag_ = 0;
  /// Once a process has tagged something.
  std::optional<Subscription> tagged_spans_{};
  /// Of streams whose next kernel waits for those of other GPUs: when that began.
  std::map<StreamId, Time> waits_since_{};
  RunCounters counters_{};
  std::vector<Time> last_bounds_{};
  std::chrono::steady_clock::time_point last_progress_{};  ///< a record, an answer, a rank's start
  std::chrono::steady_clock::time_point last_movement_{};  ///< simulated time, or some clock, moved
  std::chrono::steady_clock::time_point last_look_{};
  std::chrono::milliseconds pause_{1};  ///< between two looks at the threads
  std::chrono::seconds silence_{};      ///< until the next word about a standstill
  /// Since when all looks found all ranks waiting.
  std::optional<std::chrono::steady_clock::time_point> ranks_wait_since_{};
  std::map<pid_t, Watched> looks_{};  ///< the last, by thread
  std::vector<AwakeThread> awake_{};  ///< at the last look
  Rest rest_{};
};

}  // namespace phantora::run
