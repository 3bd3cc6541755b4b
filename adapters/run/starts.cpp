#include "run/starts.hpp"

#include "channel/launchers.hpp"
#include "channel/rank_variables.hpp"
#include "channel/settings.hpp"

#include <phantora/error.hpp>
#include <phantora/kernels/gpu_model.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string_view>
#include <utility>

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

namespace phantora::run {
namespace {

namespace fs = std::filesystem;

int free_port() {
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  int port = 29500;  // torchrun's default
  if (bind(descriptor, reinterpret_cast<const sockaddr*>(&address), length) == 0 &&
      getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &length) == 0) {
    port = ntohs(address.sin_port);
  }
  close(descriptor);
  return port;
}

std::string preload_list(const fs::path& hooks) {
  std::vector<std::string> libraries;
  for (const auto& entry : fs::directory_iterator{hooks}) {
    const std::string name = entry.path().filename();
    if (entry.is_directory() || name.starts_with("libphantora_")) continue;  // come with the rest
    libraries.push_back(entry.path());
  }
  std::sort(libraries.begin(), libraries.end());
  std::string list = (hooks / "libphantora_static_runtime.so").string() + ":" +
                     (hooks / "libphantora_libc.so").string();
  for (const std::string& library : libraries) list += ":" + library;
  if (const char* already = std::getenv("LD_PRELOAD")) list += std::string{":"} + already;
  return list;
}

std::int64_t now_ns(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return t.tv_sec * 1'000'000'000 + t.tv_nsec;
}

/// What the clocks show at virtual time zero. Where runs must repeat exactly, so does this: the
/// start of 2026, so that differences of readings round alike.
channel::Epoch epoch(const LaunchOptions& options) {
  if (options.host_time.kind != HostTime::measured) return {1'767'225'600'000'000'000, 0};
  return {now_ns(CLOCK_REALTIME), now_ns(CLOCK_MONOTONIC)};
}

channel::Settings settings_of(const LaunchOptions& options, const Cluster& cluster,
                              const Meeting& meeting) {
  channel::Settings settings{.socket = meeting.socket_name,
                             .run_memory = meeting.run_memory,
                             .host_time = options.host_time,
                             .epoch = epoch(options),
                             .unknown = options.unknown,
                             .routing = options.routing,
                             .selected = options.selected,
                             .host_by_rank = start_per(options) == Per::run};
  for (const Host& host : cluster.hosts) {
    if (host.name.find('\n') != host.name.npos)
      throw ConfigError{"the host " + host.name + ": a name is of one line"};
    const GpuModel gpu = gpu_model(host);
    settings.hosts.push_back({.name = host.name,
                              .gpus = static_cast<int>(host.gpus.size()),
                              .gpu_model = gpu.key,
                              .gpu_memory = gpu.memory});
    if (host.own_gpu && std::ranges::find(settings.gpus, *host.own_gpu) == settings.gpus.end())
      settings.gpus.push_back(*host.own_gpu);
  }
  return settings;
}

/// What is the same in every process.
std::map<std::string, std::string> common_environment(const channel::Settings& settings) {
  const fs::path hooks = hook_directory();
  std::map<std::string, std::string> common = {
      {"MASTER_ADDR", "127.0.0.1"},
      {"MASTER_PORT", std::to_string(free_port())},
      {"LD_PRELOAD", preload_list(hooks)},
      {"LD_LIBRARY_PATH", library_path(hooks, true)},
      {"TRITON_LIBCUDA_PATH", hooks.string()},
      {channel::settings_variable, to_text(settings)},
  };
  // As torchrun does: ranks must not each start a thread per core.
  if (std::getenv("OMP_NUM_THREADS") == nullptr) common["OMP_NUM_THREADS"] = "1";
  // Open MPI's ranks give their core up while they wait where they are more than the machine's
  // cores: here they share these with what they wait for in any case, and who only spins cannot be
  // told from who works.
  constexpr const char* yield = "OMPI_MCA_mpi_yield_when_idle";
  if (std::getenv(yield) == nullptr) common[yield] = "1";
  return common;
}

/// The process that is a rank in the simulation, and runs its program outside of it.
std::vector<std::string> proxy_of(const RealRank& rank, const std::vector<std::string>& command) {
  std::vector<std::string> all = {hook_directory() / "one_rank" / "proxy"};
  all.insert(all.end(), rank.environment.begin(), rank.environment.end());
  all.emplace_back("--");
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

}  // namespace

Per start_per(const LaunchOptions& options) {
  if (options.per) return *options.per;
  const auto launcher = channel::launcher_of(options.command);
  if (!launcher) return Per::gpu;
  return launcher->all_hosts ? Per::run : Per::host;
}

std::vector<Start> plan_starts(const LaunchOptions& options, const Cluster& cluster,
                               const Meeting& meeting) {
  const Per per = start_per(options);
  const auto common = common_environment(settings_of(options, cluster, meeting));
  std::vector<Start> starts;
  int rank = 0;
  for (std::size_t h = 0; h < cluster.hosts.size(); ++h) {
    const Host& host = cluster.hosts[h];
    const int local = static_cast<int>(host.gpus.size());
    auto environment = common;
    environment[channel::host_variable] = std::to_string(h);
    if (per == Per::run)
      return {{0, static_cast<int>(cluster.gpus.size()), true, environment, options.command}};
    environment["GROUP_RANK"] = std::to_string(h);
    if (per == Per::host) {
      environment["PET_NNODES"] = std::to_string(cluster.hosts.size());
      environment["PET_NPROC_PER_NODE"] = std::to_string(local);
      environment["PET_NODE_RANK"] = std::to_string(h);
      environment["PET_MASTER_ADDR"] = environment["MASTER_ADDR"];
      environment["PET_MASTER_PORT"] = environment["MASTER_PORT"];
      environment["PET_RDZV_BACKEND"] = "static";
      starts.push_back({rank, local, true, environment, options.command});
      rank += local;
      continue;
    }
    environment["WORLD_SIZE"] = std::to_string(cluster.gpus.size());
    environment["LOCAL_WORLD_SIZE"] = std::to_string(local);
    for (int i = 0; i < local; ++i, ++rank) {
      environment["RANK"] = std::to_string(rank);
      environment["LOCAL_RANK"] = std::to_string(i);
      const bool real = options.real_rank && options.real_rank->rank == rank;
      starts.push_back({rank, 1, false, environment,
                        real ? proxy_of(*options.real_rank, options.command) : options.command});
    }
  }
  return starts;
}

std::string name_of(const Start& start) {
  if (!start.parent) return fmt::format("rank {}", start.first_rank);
  if (start.ranks == 1) return fmt::format("the process of rank {}", start.first_rank);
  return fmt::format("the launcher of ranks {}-{}", start.first_rank,
                     start.first_rank + start.ranks - 1);
}

pid_t start_process(const Start& start, const sigset_t& mask, const rlimit& descriptors,
                    const Output::Ends& output) {
  std::vector<char*> arguments;
  for (const std::string& argument : start.command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  const pid_t child = fork();
  if (child < 0) throw Error{std::string{"cannot start a rank: "} + std::strerror(errno)};
  if (child > 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  setrlimit(RLIMIT_NOFILE, &descriptors);
  std::signal(SIGPIPE, SIG_DFL);
  dup2(output.out, STDOUT_FILENO);
  dup2(output.err, STDERR_FILENO);
  // As mpirun does: the first rank reads the input. A terminal's belongs to the foreground group,
  // which the ranks are not in.
  if (start.first_rank != 0 || isatty(STDIN_FILENO) != 0) {
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    dup2(nothing, STDIN_FILENO);
  }
  // What an outer mpirun or a batch job says is of phantora, not of what it starts.
  for (const channel::RankVariables& variables : channel::rank_variables) {
    for (const char* name :
         {variables.rank, variables.ranks, variables.local_rank, variables.local_ranks}) {
      if (name != nullptr) unsetenv(name);
    }
  }
  for (const auto& [name, value] : start.environment) setenv(name.c_str(), value.c_str(), 1);
  execvp(arguments[0], arguments.data());
  std::fprintf(stderr, "phantora: cannot run %s: %s\n", arguments[0], std::strerror(errno));
  _exit(127);
}

std::string library_path(const fs::path& hooks, bool ours_first) {
  std::string path = hooks.string() + ":" + (hooks / "when_asked").string();
  if (const char* users = std::getenv("LD_LIBRARY_PATH")) {
    path = ours_first ? path + ":" + users : std::string{users} + ":" + path;
  }
  // What is better than ours where it is installed, each in a folder of its own: found after the
  // user's paths, and not at all where the loader knows a real one (a wheel's is found earlier, by
  // the RPATH of who needs it).
  for (const auto& folder : fs::directory_iterator{hooks}) {
    if (!folder.path().filename().string().starts_with("unless_real")) continue;
    for (const auto& library : fs::directory_iterator{folder}) {
      if (void* real = dlopen(library.path().filename().c_str(), RTLD_LAZY | RTLD_LOCAL)) {
        dlclose(real);
      } else {
        path += ":" + folder.path().string();
      }
    }
  }
  return path;
}

/// The hooks lie beside the program: bin/phantora and lib/phantora/.
fs::path hook_directory() {
  const fs::path self = fs::read_symlink("/proc/self/exe");
  const fs::path hooks = self.parent_path().parent_path() / "lib" / "phantora";
  if (!fs::exists(hooks / "libphantora_libc.so")) {
    throw ConfigError{"the hooks are missing: expected them in " + hooks.string()};
  }
  return hooks;
}

fs::path check_program(const std::string& program) {
  std::vector<fs::path> candidates;
  if (program.find('/') != program.npos) {
    candidates.emplace_back(program);
  } else {
    const char* variable = std::getenv("PATH");
    std::istringstream folders{variable != nullptr ? variable : "/bin:/usr/bin"};
    for (std::string folder; std::getline(folders, folder, ':');) {
      candidates.push_back(fs::path{folder.empty() ? "." : folder} / program);
    }
  }
  bool found = false;
  for (const fs::path& candidate : candidates) {
    std::error_code error;
    if (!fs::exists(candidate, error)) continue;
    found = true;
    if (!fs::is_directory(candidate, error) && access(candidate.c_str(), X_OK) == 0)
      return candidate;
  }
  if (found) throw CommandError{"cannot run " + program + ": it is not executable", 126};
  std::string text = "cannot run " + program + ": there is no such program";
  text += candidates.size() == 1 && program.find('/') != program.npos ? "" : " in PATH";
  if (fs::path{program}.filename().string().starts_with("python")) {
    text += "; examples/quickstart.sh makes a Python environment with PyTorch in build/venv";
  }
  throw CommandError{text, 127};
}

void become_shell(std::vector<std::string> command) {
  if (command.empty()) {
    const char* shell = std::getenv("SHELL");
    command = {shell != nullptr ? shell : "/bin/sh"};
  }
  check_program(command.front());
  setenv("LD_LIBRARY_PATH", library_path(hook_directory(), false).c_str(), 1);
  std::vector<char*> arguments;
  for (std::string& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  throw CommandError{"cannot run " + command.front() + ": " + std::strerror(errno), 126};
}

}  // namespace phantora::run
