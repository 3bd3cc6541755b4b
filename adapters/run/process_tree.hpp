#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

/// The processes of this machine as /proc shows them.
namespace phantora::run {

/// One look at who descends from whom.
class ProcessTree {
 public:
  ProcessTree();
  /// All descendants of `root`, nearest first, without `root`.
  [[nodiscard]] std::vector<pid_t> descendants(pid_t root) const;

 private:
  std::map<pid_t, std::vector<pid_t>> children_{};
};

/// The threads of a process, by their ids; none if it is gone.
std::vector<pid_t> threads_of(pid_t process);

/// Whether another process can change memory of this one: it has a mapping that others may have
/// too. The run's own, `/memfd:phantora-run`, does not count.
bool shares_memory(pid_t process);

/// What the kernel says of a thread.
struct ThreadLook {
  /// As in /proc/PID/stat: R runs or could run, D waits for a disk, S sleeps, T is stopped ...
  char state = '?';
  std::uint64_t cpu_ns = 0;  ///< on a core, so far
  std::uint64_t runs = 0;    ///< how often it was given a core: equal means that it has not run
  /// Page faults, and time within the kernel in clock ticks: while both stand, a thread that runs
  /// makes no system calls to speak of and takes no memory.
  std::uint64_t faults = 0, system_ticks = 0;

  /// Nothing but something outside of it makes it go on.
  [[nodiscard]] bool asleep() const noexcept { return state != 'R' && state != 'D'; }
};
/// Nothing if the thread is gone.
std::optional<ThreadLook> look_at(pid_t process, pid_t thread);

/// Where a sleeping thread sleeps, in words: "read of pipe:[1234]", "futex"; empty if that cannot
/// be found out.
std::string sleeps_in(pid_t process, pid_t thread);

/// Kills every descendant of the calling process, also those that appear meanwhile, and waits for
/// them. The caller must be a child subreaper (prctl), so that orphans come to it.
void kill_descendants();

}  // namespace phantora::run
