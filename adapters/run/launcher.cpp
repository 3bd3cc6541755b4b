#include "run/launcher.hpp"

#include "channel/handshake.hpp"
#include "run/cluster_choice.hpp"
#include "run/engine.hpp"
#include "run/look_server.hpp"
#include "run/memory_pressure.hpp"
#include "run/output.hpp"
#include "run/output_files.hpp"
#include "run/process_tree.hpp"
#include "run/progress.hpp"
#include "run/report.hpp"
#include "run/starts.hpp"

#include <phantora/cluster/cluster.hpp>
#include <phantora/error.hpp>
#include <phantora/simulation/host_sensitivity.hpp>
#include <phantora/simulation/session_report.hpp>
#include <phantora/simulation/step_observer.hpp>
#include <phantora/simulation/trace.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

namespace phantora::run {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// What is kept of a run to tell what other hosts would do. Of each GPU: some tens of steps of most
/// models, and 10 MB. Of all together: 200 MB, and 3 s for the four replays at the end (0.35 us an
/// operation, bench/replay).
constexpr std::size_t operations_for_steps = 100'000, most_operations = 2'000'000;

/// Exit statuses of our own, as sysexits.h has them.
constexpr int unavailable = 69, software = 70;

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

/// Each rank takes a socket and two pipes. @return the limit as it was, which ranks get.
rlimit allow_many_descriptors() {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit most{.rlim_cur = before.rlim_max, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &most);
  return before;
}

/// @param memory_kills  killed_for_memory() when the run began.
std::string describe_status(int status, std::uint64_t memory_kills) {
  if (WIFSIGNALED(status)) {
    std::string text = fmt::format("was killed by signal {} ({})", WTERMSIG(status),
                                   sigdescr_np(WTERMSIG(status)));
    if (WTERMSIG(status) == SIGKILL && killed_for_memory() > memory_kills) {
      text += "; the kernel has killed to free memory meanwhile (then try --runnable 1)";
    }
    return text;
  }
  return fmt::format("exited with status {}", WEXITSTATUS(status));
}
int shell_status(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/// The engine's process: starts the ranks and serves them until they have ended.
class Supervisor {
 public:
  Supervisor(const Cluster& cluster, const LaunchOptions& options)
      : cluster_{cluster}, options_{options} {}

  int run() {
    // Signals arrive as messages, between two steps of the engine.
    sigset_t caught;
    sigemptyset(&caught);
    for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&caught, signal);
    sigprocmask(SIG_BLOCK, &caught, &original_mask_);
    signals_ = signalfd(-1, &caught, SFD_CLOEXEC | SFD_NONBLOCK);

    std::signal(SIGPIPE, SIG_IGN);  // who prints for nobody is told by the write

    const rlimit original_limit = allow_many_descriptors();
    const auto began = steady_clock::now();
    const std::string socket_name =
        fmt::format("phantora-{}-{}", getpid(), began.time_since_epoch().count());
    Session session{cluster_, options_.costs, {}, nccl_environment()};
    std::optional<Recorder> recorder;
    if (!options_.record.empty()) {
      recorder.emplace(session, cluster_.gpus.size());
    } else if (options_.host_time.kind != HostTime::off) {
      const std::size_t gpus = cluster_.gpus.size();
      recorder.emplace(session, gpus, std::min(operations_for_steps * gpus, most_operations));
    }
    Engine engine{cluster_,
                  session,
                  {.socket_name = socket_name,
                   .runnable = options_.runnable > 0 ? options_.runnable : available_cores(),
                   .cores = available_cores(),
                   .stall_timeout = std::chrono::seconds{options_.stall_timeout_s},
                   .tell = [this](const std::string& what) { output_.say(what); },
                   .recorder = recorder ? &*recorder : nullptr}};
    engine.watch(signals_);
    LookServer looks{socket_name + channel::look_suffix,
                     cluster_,
                     options_.cluster,
                     options_.command,
                     session,
                     engine};
    engine.watch(looks.descriptor());
    StepObserver observed{options_.step_marker};
    const Subscription steps = session.subscribe(observed);
    std::optional<TraceWriter> trace;
    Subscription spans;
    remove_old(options_.report);
    remove_old(options_.trace);
    remove_old(options_.record);
    if (!options_.trace.empty()) {
      trace.emplace(
          options_.trace, [&](ProcessIndex p) { return engine.rank_of(p); },
          names_of_unlike_gpus(cluster_));
      spans = session.subscribe(*trace);
    }

    // Where nobody asks, NVTX stays as cheap as it is without a profiler. A profiler's own library
    // is left in its place.
    const bool asked = trace || !options_.record.empty() ||
                       (!options_.step_marker.empty() && options_.step_marker != "optimizer");
    if (asked)
      setenv("NVTX_INJECTION64_PATH", (hook_directory() / "libphantora_nvtx.so").c_str(), 0);

    // However the run ends: what was simulated is reported.
    int status = software;
    try {
      for (const Start& start :
           plan_starts(options_, cluster_, {socket_name, engine.run_memory()})) {
        const Output::Ends ends = output_.add(name_of(start));
        const pid_t child = start_process(start, original_mask_, original_limit, ends);
        ends.close();
        started_.emplace(child, start);
        for (int i = 0; i < start.ranks; ++i) {
          engine.expect(start.first_rank + i, child, !start.parent);
        }
      }
      output_.start();
      Progress progress{session, observed, output_};
      status = serve(engine, progress, looks);
    } catch (const std::exception& problem) {
      cut_short_ = std::string{problem.what()}.substr(0, std::string{problem.what()}.find('\n'));
      output_.say(problem.what());
    }
    kill_descendants();
    try {
      engine.finish();
    } catch (const std::exception& problem) {
      if (cut_short_.empty()) {
        status = software;
        cut_short_ = problem.what();
        output_.say(problem.what());
      }
    }
    output_.finish();
    if (trace) trace->close();
    if (options_.real_rank) return status;  // what took simulated time stands beside what took real
    const double wall = std::chrono::duration<double>(steady_clock::now() - began).count();
    RunFacts facts{.cluster = options_.cluster,
                   .command = options_.command,
                   .host_time = to_string(options_.host_time),
                   .host_scale = options_.host_time.scale,
                   .host = options_.host_time.kind != HostTime::off ? options_.host.name : "",
                   .step_marker = options_.step_marker,
                   .routing = channel::to_string(options_.routing),
                   .status = status,
                   .cut_short = cut_short_};
    if (options_.host_time.kind == HostTime::measured) facts.wall_seconds = wall;
    if (recorder && cut_short_.empty()) tell_sensitivity(facts, *recorder);
    std::vector<std::uint64_t> peak_memory;
    for (GpuIndex gpu = 0; gpu < cluster_.gpus.size(); ++gpu)
      peak_memory.push_back(engine.peak_memory(gpu));
    const Report report{facts, session_report(cluster_, session, observed), engine.counters(),
                        std::move(peak_memory)};
    std::cout << '\n';
    report.print(std::cout, wall);
    if (!engine.gpus_were_used()) {
      std::cout << "  no process of this run used a simulated GPU\n";
    }
    if (!options_.report.empty()) report.write(options_.report);
    if (!options_.record.empty()) {
      // What a replay assumes unless it is told otherwise.
      Workload::Origin origin = nccl_environment();
      origin["cluster"] = options_.cluster.ends_with(".toml")
                              ? std::filesystem::absolute(options_.cluster).string()
                              : options_.cluster;
      if (options_.gpu_memory) origin["gpu_memory"] = *options_.gpu_memory;
      if (!cut_short_.empty()) {
        origin["cut_short"] = cut_short_;
        std::cout << "  the record ends where the last ranks met\n";
      }
      recorder->workload().set_origin(std::move(origin)).save(options_.record);
    }
    return status;
  }

 private:
  /// What the step takes on other hosts, from what the ranks did here.
  void tell_sensitivity(RunFacts& facts, const Recorder& recorder) const {
    if (options_.host_time.kind == HostTime::off) return;
    try {
      facts.sensitivity = host_sensitivity(
          Simulation{cluster_, {.costs = options_.costs, .nccl = nccl_environment()}},
          recorder.workload(), options_.step_marker);
    } catch (const Error& problem) {
      facts.no_sensitivity = problem.what();
    }
  }

  /// Until every process has ended, or the first failure has been given time to spread.
  int serve(Engine& engine, Progress& progress, LookServer& looks) {
    int status = 0;
    std::optional<steady_clock::time_point> deadline;
    while (!started_.empty()) {
      bool others = false;
      try {
        others = engine.step(milliseconds{50});
      } catch (const StallError&) {
        if (status != 0) return status;  // it follows from the failure that was told
        throw;
      }
      if (others) {
        drain_signals();
        looks.serve();
      }
      int child_status = 0;
      // A child's end is a signal.
      for (pid_t child = 0; others && (child = waitpid(-1, &child_status, WNOHANG)) > 0;) {
        const auto found = started_.find(child);
        if (found == started_.end()) continue;  // an orphan of a rank
        const Start start = found->second;
        started_.erase(found);
        for (int i = 0; i < start.ranks; ++i) engine.rank_ended(start.first_rank + i);
        if (child_status == 0 || status != 0 || interrupted_) continue;
        status = shell_status(child_status);
        cut_short_ = name_of(start) + " " + describe_status(child_status, memory_kills_);
        output_.say(cut_short_ + "; ending the run");
        // The others may be about to say why they fail too.
        deadline = steady_clock::now() + milliseconds{1500};
      }
      if (interrupted_) {
        cut_short_ =
            fmt::format("interrupted by signal {} ({})", interrupted_, sigdescr_np(interrupted_));
        output_.say("interrupted; stopping the ranks");
        return 128 + interrupted_;
      }
      tell_if_unread();
      progress.update(started_.size());
      if (deadline && steady_clock::now() > *deadline) break;
    }
    return status;
  }

  void drain_signals() {
    signalfd_siginfo info{};
    while (read(signals_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      if (info.ssi_signo != SIGCHLD) interrupted_ = static_cast<int>(info.ssi_signo);
    }
  }

  /// Ranks that print wait for who reads: said, lest it look like a hang.
  void tell_if_unread() {
    const bool unread = output_.blocked() > std::chrono::seconds{10};
    if (unread && !told_unread_) {
      output_.say("nobody has read the ranks' output for 10 s; they wait where they print");
    }
    told_unread_ = unread;
  }

  const Cluster& cluster_;
  const LaunchOptions& options_;
  Output output_{options_.label_output};
  std::uint64_t memory_kills_ = killed_for_memory();
  std::string cut_short_{};  ///< why the run ended before its ranks did
  bool told_unread_ = false;
  sigset_t original_mask_{};
  int signals_ = -1;
  int interrupted_ = 0;
  std::map<pid_t, Start> started_{};
};

pid_t supervisor = 0;
volatile std::sig_atomic_t forwarded = 0, insisted = 0;

/// A second signal does not wait for the engine to come to it. What comes within a second is the
/// same one: `timeout` and terminals send it to a process and then to its group.
void forward(int signal) {
  static std::int64_t first = 0;
  const std::int64_t now = std::chrono::nanoseconds{steady_clock::now().time_since_epoch()}.count();
  if (forwarded == 0) {
    forwarded = 1;
    first = now;
    if (supervisor > 0) kill(supervisor, signal);
  } else if (now - first > 1'000'000'000) {
    insisted = 1;
    if (supervisor > 0) kill(supervisor, SIGKILL);
  }
}

}  // namespace

int launch(const Cluster& cluster, const LaunchOptions& options) {
  // Bad input is said before anything is started.
  (void)hook_directory();
  check_writable("report", options.report);
  check_writable("trace", options.trace);
  check_writable("record", options.record);
  check_program(options.command.front());

  // Two processes watch over each other: whichever is killed, the other one cleans up. Both are
  // subreapers, so that what ranks leave behind comes to them.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::fflush(nullptr);
  const pid_t outer = getpid();
  const std::uint64_t memory_kills = killed_for_memory();
  supervisor = fork();
  if (supervisor < 0) throw Error{std::string{"cannot fork: "} + std::strerror(errno)};
  if (supervisor == 0) {
    setpgid(0, 0);  // Ctrl-C reaches the ranks through us, once
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != outer) _exit(software);
    int status = software;
    try {
      status = Supervisor{cluster, options}.run();
    } catch (const std::exception& problem) {
      std::cerr << "phantora: " << problem.what() << std::endl;
    }
    std::fflush(nullptr);
    std::cout.flush();
    _exit(status);
  }
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, forward);
  int status = 0;
  while (waitpid(supervisor, &status, 0) < 0 && errno == EINTR) {
  }
  kill_descendants();
  if (insisted != 0) {
    std::cerr << "phantora: interrupted again; ended without a report\n";
  } else if (WIFSIGNALED(status)) {
    std::cerr << "phantora: the engine " << describe_status(status, memory_kills)
              << "; the run was ended\n";
  }
  return shell_status(status);
}

}  // namespace phantora::run
