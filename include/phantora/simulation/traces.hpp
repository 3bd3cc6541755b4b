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
  Workload workload{};
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
TraceWorkload read_kineto(std::span<const std::string> paths);

}  // namespace phantora
