#include "run/machine_checks.hpp"

#include "run/own_gpus.hpp"
#include "run/process_tree.hpp"
#include "run/shared_memory.hpp"

#include <phantora/error.hpp>
#include <phantora/format.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/rseq.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

// NOLINTNEXTLINE(readability-redundant-declaration): the C library's names of variables
extern char** environ;

namespace phantora::run {
namespace {

using Status = Finding::Status;

std::string word_after(const std::string& path, std::string_view name) {
  std::ifstream file{path};
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name)) continue;
    const std::size_t at = line.find_first_not_of(" \t:", name.size());
    if (at != line.npos) return line.substr(at);
  }
  return {};
}

/// Of a file that has one, as control groups have them; nothing where it says "max".
std::optional<std::uint64_t> number_in(const std::string& path) {
  std::ifstream file{path};
  std::uint64_t number = 0;
  if (!(file >> number)) return std::nullopt;
  return number;
}

/// The folder of this process's control group (version 2).
std::string control_group() { return "/sys/fs/cgroup" + word_after("/proc/self/cgroup", "0::"); }

/// A process of ours that sleeps, to be looked at as ranks are.
class Sleeper {
 public:
  Sleeper() : process_{fork()} {
    if (process_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (true) sleep(1000);
  }
  ~Sleeper() {
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;
  [[nodiscard]] pid_t process() const noexcept { return process_; }

 private:
  pid_t process_;
};

/// A run finds by /proc whether its ranks' threads rest.
Finding check_proc() {
  const Sleeper sleeper;
  const pid_t process = sleeper.process();
  const auto descendants = ProcessTree{}.descendants(getpid());
  if (std::ranges::find(descendants, process) == descendants.end() || !look_at(process, process))
    return {Status::missing, "threads",
            "/proc does not tell how long a child's threads ran: who waits in an unseen way would "
            "never go on",
            "mount /proc, on a kernel with schedstat (CONFIG_SCHED_INFO)"};
  usleep(20'000);  // until it sleeps
  if (sleeps_in(process, process).empty())
    return {
        Status::warning, "threads",
        "/proc does not tell in which call a child sleeps: a run that stalls can say less of it",
        "allow ptrace of children (kernel.yama.ptrace_scope at most 2, or CAP_SYS_PTRACE)"};
  return {Status::ok, "threads", "/proc tells what they wait in"};
}

Finding check_shared_memory() {
  try {
    (void)make_shared_memory<std::uint64_t>("phantora-doctor");
  } catch (const Error& problem) {
    return {Status::missing, "shared memory", problem.what(),
            "allow memfd_create and shared mappings (a container's seccomp profile)"};
  }
  return {Status::ok, "shared memory", "memfd_create works"};
}

/// Each simulated GPU has 1 TiB of addresses in its process, which takes no memory.
Finding check_addresses() {
  constexpr std::size_t window = std::size_t{1} << 40U;
  void* const got =
      mmap(nullptr, window, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED)
    return {Status::missing, "addresses",
            fmt::format("1 TiB for a GPU cannot be reserved: {}", std::strerror(errno)),
            "ulimit -v unlimited"};
  munmap(got, window);
  return {Status::ok, "addresses", "1 TiB for a GPU can be reserved"};
}

/// For data loaders, which pass batches there.
Finding check_dev_shm() {
  struct statvfs found {};
  const bool there = statvfs("/dev/shm", &found) == 0;
  const auto free =
      there ? static_cast<std::uint64_t>(found.f_bavail) * found.f_frsize : std::uint64_t{0};
  const std::string text =
      there ? fmt::format("{:.2GiB} free", Bytes{static_cast<std::int64_t>(free)}) : "not there";
  constexpr std::uint64_t little = 256ULL << 20U;
  if (free >= little) return {Status::ok, "/dev/shm", text};
  return {Status::warning, "/dev/shm", text + ": workers of data loaders may die by SIGBUS",
          "mount it larger (docker run --shm-size 8g)"};
}

Finding check_clock() {
  const std::string flags = " " + word_after("/proc/cpuinfo", "flags") + " ";
  for (const std::string_view flag : {"constant_tsc", "nonstop_tsc"}) {
    if (flags.find(fmt::format(" {} ", flag)) == flags.npos)
      return {
          Status::warning, "clock",
          fmt::format("the processor does not say {}: its time stamp counter may not follow time, "
                      "and measured host time may be off",
                      flag),
          "--host-time fixed:NS or off"};
  }
  if (__rseq_size == 0)
    return {
        Status::warning, "clock",
        "no restartable sequences: each reading of CPU time is a system call, and counts as host "
        "time",
        "a kernel from 4.18 on, and GLIBC_TUNABLES without glibc.pthread.rseq=0"};
  return {Status::ok, "clock",
          "the time stamp counter follows time; CPU time is read without a call"};
}

Finding check_descriptors() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  constexpr rlim_t own = 64, per_rank = 4;  // a run of 16 ranks was seen to have 45
  const rlim_t ranks = limit.rlim_max > own ? (limit.rlim_max - own) / per_rank : 0;
  if (ranks >= 100) return {Status::ok, "open files", fmt::format("up to {}", limit.rlim_max)};
  return {ranks == 0 ? Status::missing : Status::warning, "open files",
          fmt::format("up to {}, enough for some {} ranks", limit.rlim_max, ranks),
          "ulimit -Hn 65536"};
}

Finding check_processes() {
  rlimit limit{};
  getrlimit(RLIMIT_NPROC, &limit);
  std::uint64_t most = limit.rlim_cur;
  std::string by = "ulimit -u";
  if (getuid() == 0) most = RLIM_INFINITY;  // whom that limit does not bind
  const std::string group = control_group();
  if (const auto of_group = number_in(group + "/pids.max")) {
    const std::uint64_t left =
        *of_group - std::min(*of_group, number_in(group + "/pids.current").value_or(0));
    if (left < most) {
      most = left;
      by = "the control group's pids.max";
    }
  }
  constexpr std::uint64_t few = 256;
  if (most == RLIM_INFINITY) return {Status::ok, "processes", "as many as there are"};
  if (most >= few)
    return {Status::ok, "processes", fmt::format("up to {}, threads included", most)};
  return {most < 4 ? Status::missing : Status::warning, "processes",
          fmt::format("up to {}, threads included, by {}; a rank of PyTorch has some 10 threads",
                      most, by),
          "raise " + by};
}

Finding check_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  return {Status::ok, "cores", fmt::format("{}: so many ranks run at a time", cores)};
}

Finding check_memory() {
  std::istringstream text{word_after("/proc/meminfo", "MemAvailable")};
  std::uint64_t kibibytes = 0;
  text >> kibibytes;
  std::uint64_t free = kibibytes << 10U;
  const std::string group = control_group();
  if (const auto most = number_in(group + "/memory.max")) {
    const std::uint64_t used = number_in(group + "/memory.current").value_or(0);
    free = std::min(free, *most - std::min(*most, used));
  }
  // Measured: 4.0 GB of 16 ranks that train GPT-2 (README.md).
  constexpr std::uint64_t of_rank = 250'000'000;
  const std::string found =
      fmt::format("{:.1GiB} free, enough for some {} ranks of PyTorch at 0.25 GB each",
                  Bytes{static_cast<std::int64_t>(free)}, free / of_rank);
  if (free >= 4 * of_rank) return {Status::ok, "memory", found};
  return {Status::warning, "memory", found, "free memory, add swap, or --runnable 1"};
}

Finding check_gpus() {
  const auto gpus = names_of_gpus();
  if (!gpus.empty())
    return {Status::ok, "GPUs",
            fmt::format("{}: phantora measure can time kernels here", fmt::join(gpus, ", "))};
  return {Status::ok, "GPUs", "none, and none needed; phantora measure needs one"};
}

/// Where NVIDIA's is, it compiles; ours only reads what a kernel's parameters are.
Finding check_nvrtc() {
  for (const char* const name : {"libnvrtc.so.13", "libnvrtc.so.12"}) {
    if (void* const real = dlopen(name, RTLD_LAZY | RTLD_LOCAL)) {
      dlclose(real);
      return {Status::ok, "NVRTC", fmt::format("NVIDIA's {}, which runs use", name)};
    }
  }
  return {Status::ok, "NVRTC",
          "ours, which does not compile, unless the program's environment has NVIDIA's"};
}

}  // namespace

Findings check_machine() {
  return {check_proc(),   check_shared_memory(), check_addresses(), check_dev_shm(),
          check_clock(),  check_descriptors(),   check_processes(), check_cores(),
          check_memory(), check_gpus(),          check_nvrtc()};
}

Findings check_environment() {
  Findings findings;
  const auto add = [&](Status status, std::string what, std::string found, std::string remedy) {
    findings.push_back({status, std::move(what), std::move(found), std::move(remedy)});
  };
  if (const char* const already = std::getenv("LD_PRELOAD"); already != nullptr && *already != '\0')
    add(Status::warning, "LD_PRELOAD",
        fmt::format("{}, which ranks load after the stand-ins", already),
        "unset it where the program does not need it");
  if (const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
    char* end = nullptr;
    const bool any = std::strtol(visible, &end, 10) >= 0 && end != visible;
    add(any ? Status::warning : Status::missing, "CUDA_VISIBLE_DEVICES",
        any ? fmt::format("\"{}\": each rank sees only these of its host's simulated GPUs", visible)
            : fmt::format("\"{}\": ranks see no GPU", visible),
        "unset CUDA_VISIBLE_DEVICES");
  }
  if (const char* const threads = std::getenv("OMP_NUM_THREADS");
      threads != nullptr && std::string_view{threads} != "1")
    add(Status::warning, "OMP_NUM_THREADS",
        fmt::format("{}: each rank starts so many threads for work on the CPU", threads),
        "unset it: ranks then have one");
  std::vector<std::string> nccl;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (std::string_view{*variable}.starts_with("NCCL_")) nccl.emplace_back(*variable);
  }
  std::sort(nccl.begin(), nccl.end());
  if (!nccl.empty())
    add(Status::warning, "NCCL",
        fmt::format("{}: the simulated NCCL follows what it knows of these", fmt::join(nccl, ", ")),
        "unset those that are not meant for the simulated cluster");
  return findings;
}

}  // namespace phantora::run
