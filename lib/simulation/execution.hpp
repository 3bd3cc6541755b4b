#pragma once

#include "simulation/host_threads.hpp"
#include "simulation/meetings.hpp"

#include <phantora/simulation/session.hpp>
#include <phantora/simulation/workload.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

/// Workloads driven through a Session. Private to Simulation and Jobs.
namespace phantora::detail {

/// When something was under way.
struct Interval {
  Time start{}, end{};
};

/// A job, and what its operations did.
struct JobRecord {
  std::shared_ptr<const Workload> workload;
  std::shared_ptr<const Meetings> meetings;
  std::shared_ptr<const std::vector<RankThreads>> threads;  ///< by rank
  std::vector<GpuIndex> gpus;
  Time start{};
  std::vector<std::size_t> kinds{};  ///< of each rank's GPU, among those of the cluster
  /// By kind and kernel: what it costs; nothing of those that are not launched there.
  std::vector<std::vector<std::optional<CostEstimate>>> prices{};
  /// By rank and operation. Of a kernel, when it ran; of a communication, from when its rank was
  /// there; of the host's work, and of what it waited for, when; of what is recorded, its instant
  /// twice.
  std::vector<std::vector<Interval>> times{};
  std::vector<Time> ends{};   ///< of the ranks
  std::vector<GpuUse> use{};  ///< of their GPUs, by this job
};

/// Jobs in one session, from their first operation to their last.
class Execution final : private SessionObserver {
 public:
  /// Makes a session that asks the given model for prices.
  using MakeSession = std::function<Session(KernelCostModel)>;
  explicit Execution(const MakeSession& make_session);

  /// @param job  checked; `times` and `ends` are filled in.
  std::size_t add(JobRecord job);
  /// Goes on to the next end of a job, or to `until`. @throws Error if jobs wait for ever.
  std::optional<std::size_t> next(Time until);
  [[nodiscard]] Time now() const noexcept { return now_; }
  [[nodiscard]] const JobRecord& record(std::size_t job) const { return jobs_[job]->record; }
  /// Forgets a job that has ended.
  void forget(std::size_t job);
  [[nodiscard]] Subscription subscribe(SessionObserver& observer) {
    return session_.subscribe(observer);
  }

 private:
  struct Job;
  /// A stream of a rank, and its operations that have spans.
  struct Stream {
    Job* job = nullptr;
    Rank rank = 0;
    StreamNumber number = 0;
    std::vector<std::uint32_t> spans{};
    std::size_t done = 0;  ///< of these
  };
  /// A thread of a rank's host.
  struct HostThread {
    Time clock{};
    std::size_t stretch = 0;                ///< of its RankThreads
    std::uint32_t at = 0;                   ///< its next operation
    bool blocked = false;                   ///< in the session
    std::optional<Workload::Event> held{};  ///< it waits for one that has not been reached yet
  };
  struct RankState {
    std::vector<HostThread> threads{};
    std::size_t running = 0;              ///< threads that have not come to their ends
    std::vector<std::uint32_t> parked{};  ///< threads that wait for their turn at a stream
    std::vector<bool> issued{};           ///< by operation, where there are several threads
    std::vector<std::pair<StreamNumber, StreamId>> streams{};
    std::uint64_t first_event = 0;           ///< marker of its event 0
    std::vector<bool> reached{};             ///< by event: recorded or marked
    std::map<std::uint32_t, Time> marked{};  ///< events that are in no stream
    std::vector<MarkerId> others{};          ///< its markers that are no events
    std::size_t awaited = 0;                 ///< streams, once all threads have ended
    bool ending = false;
  };
  /// Who issues.
  struct Issuer {
    Job* job = nullptr;
    Rank rank = 0;
    std::uint32_t thread = 0;
  };
  struct Job {
    JobRecord record;
    std::size_t number = 0;
    ProcessIndex first_process = 0;
    std::vector<RankState> ranks;
    std::size_t left = 0;                                        ///< ranks that have not ended
    std::vector<std::optional<CommunicatorId>> communicators{};  ///< by group
    /// By kind and kernel.
    std::vector<std::vector<std::optional<QueryIndex>>> queries{};
    std::vector<Issuer> held{};  ///< those with HostThread::held
  };

  void on_span(const Span& span) override;
  /// Lets a thread issue until it blocks.
  void issue(const Issuer& issuer);
  void issue(const Issuer& issuer, HostThread& host, const Workload::Operation& operation);
  void synchronize(const Issuer& issuer, HostThread& host, Workload::Event event);
  void end(Job& job, Rank rank);
  void answered(const Answer& answer);
  void release_held(Job& job);
  void add_streams(Job& job, Rank rank);
  void job_ended(Job& job);
  [[nodiscard]] static StreamId stream(const Job& job, Rank rank, StreamNumber number);
  CommunicatorId communicator(Job& job, std::uint32_t group);
  QueryIndex query(Job& job, Rank rank, std::uint32_t kernel);
  [[nodiscard]] MarkerId marker(const Job& job, Workload::Event event) const;
  [[nodiscard]] std::string standstill() const;
  [[nodiscard]] std::string stands_at(const Job& job, Rank rank) const;

  std::shared_ptr<std::vector<CostEstimate>> prices_;  ///< by "price" of the session's queries
  Session session_;
  Subscription spans_;
  std::vector<std::unique_ptr<Job>> jobs_{};
  std::vector<Stream> streams_{};                   ///< by StreamId
  std::vector<std::pair<Job*, Rank>> processes_{};  ///< by ProcessIndex - 1
  std::vector<Issuer> ready_{};                     ///< threads that may go on
  /// What the session knows of kernels, by the kind of GPU and key_of().
  std::map<std::pair<std::size_t, std::string>, QueryIndex> queries_{};
  std::vector<Time> bounds_{never};                 ///< of processes; 0 is us
  std::set<std::pair<Time, std::size_t>> ended_{};  ///< jobs that next() has not returned
  std::size_t running_ = 0;
  std::uint64_t last_marker_ = 0;
  Time now_{};
};

}  // namespace phantora::detail
