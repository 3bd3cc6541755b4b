#pragma once

#include <phantora/cluster/cluster.hpp>
#include <phantora/collectives/communicator.hpp>
#include <phantora/ids.hpp>
#include <phantora/kernels/gpu_model.hpp>
#include <phantora/kernels/kernel_cost_model.hpp>
#include <phantora/simulation/device_timing.hpp>
#include <phantora/simulation/observer.hpp>
#include <phantora/simulation/rendezvous.hpp>
#include <phantora/subscription.hpp>
#include <phantora/units.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace phantora {

/// A kernel that add_query() has put a price on.
using QueryIndex = std::uint32_t;
/// Says what kernels cost on a GPU.
using GpuCosts = std::function<KernelCostModel(const GpuModel&)>;

/// A blocking call that may return.
struct Answer {
  ProcessIndex process = 0;  ///< that blocks, or asked
  std::uint32_t thread = 0;  ///< within its process
  Time clock{};              ///< what the thread's clock becomes
  bool done = true;          ///< of a query
};

/// The simulation of live ranks: streams of GPUs, collectives over the network, and the
/// conservative rule that decides which blocking call may return.
///
/// The caller appends work as it is issued, says how far each process is (advance), and gets the
/// answers that are safe. Deterministic: results depend on issue times and program order, not on
/// when calls of different processes arrive. Not thread-safe.
///
/// Functions throw ArgumentError for an id that does not exist, and for what is issued on a stream
/// before what was issued on it last.
class Session {
 public:
  /// On any cluster, mixed ones too: each kernel costs what it does on the GPU that runs it.
  ///
  ///     Session session{parse_cluster("h200:2x8+l40s:3x4"), builtin_cost_model};
  ///
  /// @param costs  called once for each model that the cluster has.
  /// @param timing  of every GPU.
  /// @param nccl  of every rank, as environment variables ("NCCL_ALGO").
  /// @throws ConfigError if a host's `gpu_model` is none that gpu_model() knows, or the cluster has
  ///   no hosts that would say (topologies::single_switch).
  Session(const Cluster& cluster, const GpuCosts& costs, DeviceTiming timing = {},
          NcclVariables nccl = {});
  /// On a cluster whose GPUs are all alike, or that does not say what they are. The figures of
  /// `gpu` may be changed; its `key` says what it stands for.
  /// @throws ConfigError if a host has other GPUs than `gpu.key`.
  Session(const Cluster& cluster, const GpuModel& gpu, KernelCostModel costs,
          DeviceTiming timing = {}, NcclVariables nccl = {});
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  /// Tells the observer of everything from now on, until the subscription ends.
  [[nodiscard]] Subscription subscribe(SessionObserver& observer);
  /// Tells the observers of a stretch of time that a program named. It changes nothing else.
  void name_range(const NamedRange& range);

  /// Prices a kernel once on GPUs that are alike: now on those like `gpu`, on others when it is
  /// first launched there. @throws CostError if no cost model of that GPU answers.
  QueryIndex add_query(const KernelQuery& query, GpuIndex gpu = 0);
  /// Streams of one process are in-order queues of one GPU.
  /// @param priority  as in CUDA: kernels of a stream with a lesser number have the SMs that they
  ///   can fill before those with a greater one.
  /// @throws ArgumentError if there is a stream of that id.
  void add_stream(StreamId stream, GpuIndex gpu, ProcessIndex process, int priority = 0);
  /// Nothing more is issued on it. What was issued completes.
  void drop_stream(StreamId stream);
  /// When the latest operation of a stream was issued; nothing may be issued on it before.
  [[nodiscard]] Time last_issued(StreamId stream) const;

  /// @param tag  what its span will bear.
  /// @throws CostError if the stream's GPU is unlike that of add_query(), and no cost model of it
  ///   answers.
  void launch(StreamId stream, Time issued, QueryIndex query, std::uint64_t tag = 0);
  /// The marker completes when all that the stream was given before has.
  void record(StreamId stream, Time issued, MarkerId marker);
  /// What the stream is given from now on waits for the marker.
  void wait(StreamId stream, Time issued, MarkerId marker);
  /// What the stream gets next is of a CUDA graph and follows something of that graph in the
  /// stream, or is not.
  void graph(StreamId stream, Time issued, bool inside);
  /// The stream stops here until host_function_done(ticket).
  void host_function(StreamId stream, Time issued, std::uint64_t ticket);
  /// The stream goes on from there.
  void host_function_done(std::uint64_t ticket, Time finished);
  /// Host functions whose turn has come since the last call, with their instants.
  std::vector<std::pair<std::uint64_t, Time>> due_host_functions();

  /// @param gpus  of each rank.
  CommunicatorId add_communicator(std::vector<GpuIndex> gpus);
  /// No rank calls it again. What all ranks have called completes.
  void drop_communicator(CommunicatorId communicator);
  /// One rank's part of the communicator's next collectives, which all ranks group alike.
  /// @param stream  of the rank's GPU.
  /// @param tag  what finished_collectives() will call it, and its span bears; 0: nothing.
  /// @throws Disagreement if another rank groups other operations, or ones of another size, root or
  ///   type.
  void collective(StreamId stream, Time issued, CommunicatorId communicator, int rank,
                  std::span<const GroupedCollective> group, std::uint64_t tag = 0);
  /// The same of a single one.
  void collective(StreamId stream, Time issued, CommunicatorId communicator, int rank,
                  CollectiveOp op, Bytes total, int root, std::uint64_t tag = 0);
  /// One rank's group of sends and receives, which run together.
  /// @param group  src_rank or dst_rank of each is `rank`.
  void send_recv(StreamId stream, Time issued, CommunicatorId communicator, int rank,
                 std::span<const SendRecv> group, std::uint64_t tag = 0);
  /// The tags, but 0, of the calls to the two above that have completed since the last call of
  /// this. They are kept until then.
  std::vector<std::uint64_t> finished_collectives();

  /// Thread `thread` of `process` blocks until `marker` has completed. As in CUDA, one that nobody
  /// has recorded counts as completed; a stream waits for it until somebody records it.
  void synchronize(ProcessIndex process, std::uint32_t thread, Time clock, MarkerId marker);
  /// It asks whether `marker` has completed at `clock`.
  void query(ProcessIndex process, std::uint32_t thread, Time clock, MarkerId marker);
  /// When a marker completed, as far as is known now.
  [[nodiscard]] std::optional<Time> completion(MarkerId marker) const;
  /// Nobody will name `marker` again in a blocking call.
  void drop(MarkerId marker);

  /// Simulates as far as is safe and returns the calls that may return.
  ///
  /// @param bounds  per process, the least clock of its running threads; `never` if none runs
  ///   (HostProcess). Nothing will be issued before its process's bound.
  std::vector<Answer> advance(std::span<const Time> bounds);
  /// The least bound with which advance() would do more: what the caller has to wait for. `never`
  /// if nothing is under way.
  [[nodiscard]] Time awaited() const;
  /// To be called when no process can issue anything before a blocked call returns or a host
  /// function runs, or before `until`, or is taken to: goes on to the first of these.
  /// @return the call that may return; empty if a host function is due (due_host_functions());
  ///   nothing if neither will happen before `until`.
  std::optional<std::vector<Answer>> force(Time until = never);
  /// Operations that were issued before an instant already simulated, which is then theirs.
  [[nodiscard]] std::uint64_t late_operations() const;

  /// The instant up to which everything is simulated.
  [[nodiscard]] Time now() const noexcept;
  /// What the GPU did so far.
  [[nodiscard]] const GpuUse& use(GpuIndex gpu) const;
  /// Collectives and messages that some ranks have called and others have not, by communicator,
  /// oldest first.
  [[nodiscard]] std::vector<OpenCall> open_calls() const;
  /// Collectives that some ranks have reached and others have not: one line each, naming the
  /// communicator, the operation, who waits since when and who is missing. And the obstacles().
  [[nodiscard]] std::vector<std::string> incomplete_collectives() const;
  /// What else holds work up: collectives that cannot go on because a link is down, naming it, and
  /// streams that wait for a marker that nobody has recorded. One line each.
  [[nodiscard]] std::vector<std::string> obstacles() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace phantora
