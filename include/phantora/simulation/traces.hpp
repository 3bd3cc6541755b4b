#pragma once

#include <phantora/kernels/kernel_cost_model.hpp>
#include <phantora/simulation/workload.hpp>
#include <phantora/units.hpp>

#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Execution traces of other tools as workloads, and the other way round.
namespace phantora {

/// A workload that was read from traces.
struct TraceWorkload {
  Workload workload{};  ///< what the ranks of the trace did
  /// Of each rank: from its first call or work to the end of the last, as it was recorded; 0 where
  /// the trace has no times.
  std::vector<Duration> recorded{};
  /// What the traces do not say, and what was taken instead. Empty if all was there.
  std::vector<std::string> notes{};
};

/// PyTorch profiles (Kineto's Chrome JSON, unpacked): a file for each rank. Ranks are those that
/// the files name (distributedInfo), else as the files come.
///
/// A kernel, copy or fill takes as long as it was recorded, on the stream and in the order of its
/// launch; what it lost to others at its side is part of that, so that it loses nothing again.
/// Between calls the host works as long as it did then. It waits where it called a
/// synchronisation or a blocking copy, plus what that took beyond the end of the work that it
/// waited for. Calls of several threads are one list in order of time. Events between streams are
/// those that CUPTI told (enable_cuda_sync_events); if it did not, they are guessed from what
/// followed on what, and a note says so. NCCL's kernels are collectives and messages again where
/// the profiles of all ranks of their group are there, else kernels of recorded length. Each
/// "ProfilerStep#" ends a step.
///
/// @param source  what errors call the text, such as its path.
/// @throws ConfigError naming source, event, field and what was expected there.
TraceWorkload read_kineto(std::istream& profile, std::string_view source = "profile");
/// The same of files, a rank each.
TraceWorkload read_kineto(std::span<const std::string> paths);

/// An MLCommons Chakra execution trace, as ASTRA-sim reads it.
struct ChakraTrace {
  /// Of each rank: what its file PREFIX.RANK.et holds, messages of et_def.proto (schema 0.0.4),
  /// each after its length: GlobalMetadata, then a Node for each thing to do.
  std::vector<std::string> ranks{};
  /// JSON, for ASTRA-sim's --comm-group-configuration: ranks by the name of their group (pg_name).
  /// Empty: none is named, all ranks are one.
  std::string groups{};
};

/// A workload as a trace. Kernels and the host's work are COMP_NODEs (is_cpu_op tells them apart)
/// with their times, and the flop and bytes of kernels whose shape is known; collectives and
/// messages are COMM nodes with the bytes of the buffer that is sent. Streams, events and
/// synchronisations become data_deps, all that ASTRA-sim's feeder follows. Chakra counts whole
/// microseconds: they are rounded so that sums stay right, and the exact time is an attribute of
/// our own (duration_ps), as are the stream, what holds a kernel up and what runs as one kernel, so
/// that from_chakra() gives back what takes the same time, but for what kernels and communication
/// side by side lose to each other. Memory and steps have no place in a trace.
///
/// @param costs  prices kernels that have no known time.
/// @throws CostError  if it has no answer.
/// @throws ConfigError  if a rank waits for an event of another, which a trace cannot say.
ChakraTrace to_chakra(const Workload& workload, const KernelCostModel& costs);
/// The same as files PREFIX.0.et, PREFIX.1.et, ... and PREFIX.groups.json.
/// @throws Error if they cannot be written.
void write_chakra(const Workload& workload, const KernelCostModel& costs,
                  const std::string& prefix);

/// A trace as a workload. What depends on nothing that is still to come is issued in the order of
/// the file. GPU work without a stream of its own takes its turn with the rank's other kernels, or
/// the communication of its group, or the messages with one other rank in one direction. A kernel
/// without a time costs what its flop (on tensor cores) and bytes do. Nodes that are neither
/// computation nor communication take no time; a note counts them.
///
/// @param source  what errors call the trace, such as the prefix of its files.
/// @throws ConfigError naming source, rank, place, field and what was expected there.
TraceWorkload from_chakra(const ChakraTrace& trace, std::string_view source = "trace");
/// From files PREFIX.0.et, PREFIX.1.et, ..., and PREFIX.groups.json if that is there.
TraceWorkload read_chakra(const std::string& prefix);

}  // namespace phantora
