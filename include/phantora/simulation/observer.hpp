#pragma once

#include <phantora/collectives/operation.hpp>
#include <phantora/ids.hpp>
#include <phantora/kernels/kernel_cost_model.hpp>
#include <phantora/units.hpp>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

/// What a Session tells of the streams of its GPUs.
namespace phantora {

/// A point in a stream (CUDA: an event once recorded). The caller chooses it, unique within the
/// session, as the StreamId.
using MarkerId = Id<struct MarkerTag, std::uint64_t>;
/// Index of a GPU in Cluster::gpus.
using GpuIndex = std::uint32_t;
/// Index of a process (logical processes of one rank share it), counted from 0.
using ProcessIndex = std::uint32_t;
/// A stretch of time on a stream.
struct Span {
  /// What the stream did.
  enum class Kind : std::uint8_t { compute, copy, communication };
  GpuIndex gpu = 0;          ///< whose stream it is
  ProcessIndex process = 0;  ///< that made the stream
  StreamId stream{};         ///< on which it ran
  Kind kind{};               ///< what the stream did
  CostSource source{};       ///< of a compute or copy span
  std::string_view name{};   ///< valid during the call
  /// Equal for equal work: same kernel and launch, or same collective and size.
  std::uint64_t identity = 0;
  std::uint64_t tag = 0;                 ///< that its caller gave it; 0: none
  std::optional<Algorithm> algorithm{};  ///< of a collective
  Time start{};                          ///< when it began
  Time end{};                            ///< when the next of its stream may follow
  Duration stddev{};                     ///< of a kernel's price: CostEstimate::stddev
};

/// A stretch of time on a host thread that the program named (NVTX). A mark has no length.
struct NamedRange {
  ProcessIndex process = 0;  ///< whose thread it ends on
  std::uint64_t thread = 0;  ///< of the process
  std::string_view name{};   ///< valid during the call
  Time start{};              ///< where it was begun, perhaps by another thread
  Time end{};                ///< where it ended
};

/// Watches a Session. Told in time order per stream. While it is told, it may subscribe observers
/// and end subscriptions, but not ask or change the session.
class SessionObserver {
 public:
  SessionObserver() = default;
  SessionObserver(const SessionObserver&) = default;
  SessionObserver& operator=(const SessionObserver&) = default;
  virtual ~SessionObserver() = default;
  /// Work on a stream has ended.
  virtual void on_span(const Span&) {}
  /// A stretch of time that has a name has ended. Those of one thread come in order of their ends.
  virtual void on_range(const NamedRange&) {}
};

/// What one GPU did. Unions of spans, so that overlapping work counts once.
struct GpuUse {
  Duration busy{};           ///< anything ran
  Duration communication{};  ///< a collective ran
  Duration exposed{};        ///< a collective ran and no kernel did
  /// Kernel time by CostSource.
  std::vector<Duration> by_source = std::vector<Duration>(cost_sources);
  std::uint64_t kernels = 0;  ///< that ran
};

}  // namespace phantora
