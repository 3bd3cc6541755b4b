#pragma once

#include <phantora/collectives/operation.hpp>
#include <phantora/ids.hpp>
#include <phantora/kernels/kernel_cost_model.hpp>
#include <phantora/simulation/observer.hpp>
#include <phantora/simulation/session.hpp>
#include <phantora/simulation/workload.hpp>
#include <phantora/units.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace phantora {

/// Writes down, as a Workload, what live ranks ask of a Session. Its owner tells it each call that
/// it makes of the session, in the same order, with the clock of the thread that made it; what the
/// session answers it is told too.
///
///     Recorder recorder{session, cluster.gpus.size()};
///     recorder.add_stream(stream, gpu, process);
///     session.add_stream(stream, gpu, process);
///     ...
///     recorder.workload().save("job.rec");
///
/// A rank of the workload is a GPU of the cluster. Run on the same cluster, the workload's
/// operations take place when they did, to the picosecond. On another cluster a thread goes on
/// where what it went on from has come:
///
/// - its own call before, or the blocking call that it returned from;
/// - where its clock jumped to what another thread of its process had reached, that thread: one
/// woke
///   the other;
/// - a loop that asks about a marker until it has completed ends when it has.
///
/// What lies between is time of the host, and stays as long as it was.
class Recorder {
 public:
  /// Who calls, and when by its clock.
  struct Caller {
    ProcessIndex process = 0;  ///< of the thread
    std::uint32_t thread = 0;  ///< within its process
    Time clock{};              ///< when it calls
  };

  /// @param session  that it is told of; it has to live as long.
  /// @param most  operations that it keeps, some 100 bytes each: once it has heard of so many it
  ///   listens no more, and workload() is how the run began.
  Recorder(const Session& session, std::size_t gpus,
           std::size_t most = std::numeric_limits<std::size_t>::max());
  Recorder(Recorder&&) noexcept;
  Recorder& operator=(Recorder&&) noexcept;
  ~Recorder();

  /// Session::add_query() gave this index.
  void add_query(QueryIndex query, const KernelQuery& asked);
  /// As Session::add_stream().
  void add_stream(StreamId stream, GpuIndex gpu, ProcessIndex process, int priority = 0);
  /// @param gpus  of each rank.
  void add_communicator(CommunicatorId communicator, std::vector<GpuIndex> gpus);

  /// As Session::launch().
  void launch(const Caller& caller, StreamId stream, QueryIndex query);
  /// As Session::record().
  void record(const Caller& caller, StreamId stream, MarkerId marker);
  /// As Session::wait().
  void wait(const Caller& caller, StreamId stream, MarkerId marker);
  /// As Session::graph().
  void graph(const Caller& caller, StreamId stream, bool inside);
  /// One rank's part, as Session::collective().
  void collective(const Caller& caller, StreamId stream, CommunicatorId communicator,
                  std::span<const GroupedCollective> group);
  /// One rank's part, as Session::send_recv().
  void send_recv(const Caller& caller, StreamId stream, CommunicatorId communicator,
                 std::span<const SendRecv> group);
  /// A stretch of time that the program names begins at the caller's clock.
  /// @param range  its number, unique within the process.
  void begin_range(const Caller& caller, std::uint64_t range);
  /// It ends, on this or another thread; one that has not begun begins here. It is of the GPU that
  /// its thread uses; of a thread that uses none nothing is kept.
  void end_range(const Caller& caller, std::uint64_t range, std::string_view name);
  /// The process takes memory of a GPU, and gives some back, beside what its context takes.
  void hold(ProcessIndex process, GpuIndex gpu, Bytes taken, Bytes given_back);
  /// It makes a context on a GPU, or gives it up. A rank of a workload has one as it is.
  void hold_context(ProcessIndex process, GpuIndex gpu, Bytes size, bool made);
  /// It has ended, and holds nothing.
  void end(ProcessIndex process);

  /// As Session::synchronize(); answered() says when it returned.
  void synchronize(const Caller& caller, MarkerId marker);
  /// As Session::query(); answered() says what it gave.
  void query(const Caller& caller, MarkerId marker);
  /// What Session::advance() or force() gave.
  void answered(const Answer& answer);

  /// What was told so far, as far as it can run to its end: of a rank not the collective or message
  /// that others have not called yet, nor what it did after that. Blocking calls that have not been
  /// answered are left out.
  [[nodiscard]] Workload workload() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace phantora
