#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include <sys/types.h>

/// The processes of this machine as /proc shows them.
namespace phantora::run {

/// One look at who descends from whom, and at the CPU time of each.
class ProcessTimes {
 public:
  ProcessTimes();
  /// CPU time of a process and all its descendants, in nanoseconds; 0 if it is gone.
  [[nodiscard]] std::uint64_t of_tree(pid_t root) const;
  /// All descendants of `root`, nearest first, without `root`.
  [[nodiscard]] std::vector<pid_t> descendants(pid_t root) const;

 private:
  std::map<pid_t, std::vector<pid_t>> children_{};
};

/// Kills every descendant of the calling process, also those that appear meanwhile, and waits for
/// them. The caller must be a child subreaper (prctl), so that orphans come to it.
void kill_descendants();

}  // namespace phantora::run
