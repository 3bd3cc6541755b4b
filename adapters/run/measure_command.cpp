#include "run/measure_command.hpp"

#include "channel/launchers.hpp"
#include "channel/settings.hpp"
#include "run/cluster_choice.hpp"
#include "run/launcher.hpp"
#include "run/starts.hpp"

#include <phantora/cluster/cluster.hpp>
#include <phantora/kernels/kernel_database.hpp>

#include <CLI/CLI.hpp>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/wait.h>
#include <unistd.h>

namespace phantora::run {
namespace {

namespace fs = std::filesystem;

/// What the program finds in its environment, beside what is there: NAME=VALUE.
std::vector<std::string> environment(const MeasureOptions& options, const std::string& preload,
                                     const fs::path& database) {
  // Before all others: also before the stand-ins of a simulated run that this is a part of.
  const char* const already = std::getenv("LD_PRELOAD");
  const bool others = already != nullptr && *already != '\0';
  std::vector<std::string> all = {
      "LD_PRELOAD=" + preload + (others ? std::string{":"} + already : ""),
      "PHANTORA_MEASURE_FILE=" + database.string(),
      fmt::format("PHANTORA_MEASURE_COMMAND={}", fmt::join(options.command, " "))};
  if (!options.timer.empty()) all.push_back("PHANTORA_MEASURE_TIMER=" + options.timer);
  if (options.gpu_memory)
    all.push_back(
        fmt::format("PHANTORA_MEASURE_MEMORY={}", parse_gpu_memory(*options.gpu_memory).count()));
  return all;
}

[[noreturn]] void become(const std::vector<std::string>& command,
                         const std::vector<std::string>& environment) {
  for (const std::string& variable : environment)
    putenv(const_cast<char*>(variable.c_str()));  // which lives as long as this process
  std::vector<char*> arguments;
  for (const std::string& argument : command)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  std::fprintf(stderr, "phantora: cannot run %s: %s\n", arguments[0], std::strerror(errno));
  _exit(127);
}

/// The program alone. @return as wait() has it.
int run_alone(const MeasureOptions& options, const std::vector<std::string>& environment) {
  const pid_t child = fork();
  if (child < 0) throw Error{std::string{"cannot start the program: "} + std::strerror(errno)};
  if (child == 0) become(options.command, environment);
  // The terminal sends an interrupt to both: the program decides what it does.
  std::signal(SIGINT, SIG_IGN);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/// The program as one of many ranks, of which the others are simulated.
int run_among_others(const MeasureOptions& options, std::vector<std::string> environment) {
  const Cluster cluster = cluster_of(options.cluster, options.gpu_memory);
  const int ranks = static_cast<int>(cluster.gpus.size());
  if (options.rank < 0 || options.rank >= ranks)
    throw ConfigError{
        fmt::format("--rank {}: {} has ranks 0 to {}", options.rank, options.cluster, ranks - 1)};
  if (channel::launcher_of(options.command))
    throw ConfigError{options.command.front() +
                      " starts ranks itself; with --cluster, name the program that it starts: it "
                      "is started once per GPU"};
  // What simulated ranks are told, and this one is not. It has one GPU, whatever its place.
  for (const char* const name : {"LD_LIBRARY_PATH", "TRITON_LIBCUDA_PATH"}) {
    const char* const value = std::getenv(name);
    environment.push_back(value != nullptr ? std::string{name} + "=" + value : name);
  }
  environment.emplace_back(channel::settings_variable);
  environment.emplace_back(channel::host_variable);
  environment.emplace_back("LOCAL_RANK=0");
  LaunchOptions launched{.cluster = options.cluster,
                         .per = Per::gpu,
                         .stall_timeout_s = options.stall_timeout_s,
                         .command = options.command,
                         .real_rank = RealRank{options.rank, std::move(environment)}};
  launched.host_time.kind = HostTime::off;
  return launch(cluster, launched);
}

std::uint64_t counted(const std::vector<MeasuredKernel>& kernels) {
  std::uint64_t sum = 0;
  for (const MeasuredKernel& kernel : kernels) sum += kernel.count();
  return sum;
}

}  // namespace

void add_options(CLI::App& command, MeasureOptions& options) {
  command.add_option("--kernels", options.kernels, "the database, which is made if there is none")
      ->required();
  command
      .add_option("--timer", options.timer,
                  "cupti: as the GPU's own clock has it (default, where there is CUPTI); events: "
                  "by pairs of them, right to some microseconds")
      ->check(CLI::IsMember({"cupti", "events"}));
  command.add_option("--gpu-memory", options.gpu_memory,
                     "tell COMMAND that the GPU has so much memory, as in 640GB; what the GPU has "
                     "no room for shares a part\n"
                     "of it, so that numbers become nonsense, and times that hang on them too");
  CLI::Option* const cluster = command.add_option(
      "--cluster", options.cluster,
      "run COMMAND as one rank of a job on this cluster, as phantora run would start it;\n"
      "the other ranks, and what they send, are simulated");
  command.add_option("--rank", options.rank, "which rank runs on this machine's GPU")
      ->needs(cluster)
      ->capture_default_str();
  command
      .add_option("--stall-timeout", options.stall_timeout_s,
                  "seconds without progress after which such a run is ended")
      ->needs(cluster)
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command.add_option("command", options.command, "-- COMMAND...")->required();
  command.positionals_at_end();
}

int measure(const MeasureOptions& options) {
  const fs::path library = hook_directory() / "libphantora_measure.so";
  check_program(options.command.front());
  const fs::path database = fs::absolute(options.kernels);  // COMMAND may go elsewhere
  std::uint64_t before = 0;
  {
    const KernelDatabase made{database, KernelDatabase::Access::write};
    before = counted(made.kernels());
  }
  std::string preload = library;
  if (!options.cluster.empty())
    preload += ":" + (hook_directory() / "one_rank" / "libnccl.so.2").string();
  const std::vector<std::string> variables = environment(options, preload, database);
  const int status = options.cluster.empty() ? run_alone(options, variables)
                                             : run_among_others(options, variables);
  const KernelDatabase filled{database};
  const std::vector<MeasuredKernel> kernels = filled.kernels();
  const std::uint64_t added = counted(kernels) - before;
  std::cout << fmt::format(
      "phantora: {} has {} kinds of kernels, copies and library calls; {} "
      "were timed now\n",
      options.kernels, kernels.size(), added);
  if (added == 0)
    std::cerr
        << "phantora: the program used no GPU by the shared CUDA libraries, or there is none\n";
  return status;
}

}  // namespace phantora::run
