#include "run/measure_command.hpp"

#include "run/launcher.hpp"
#include "run/starts.hpp"

#include <phantora/kernels/kernel_database.hpp>

#include <CLI/CLI.hpp>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/wait.h>
#include <unistd.h>

namespace phantora::run {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void become(const MeasureOptions& options, const fs::path& library,
                         const fs::path& database) {
  std::string preload = library;
  // Before all others: also before the stand-ins of a simulated run that this is a part of.
  if (const char* const already = std::getenv("LD_PRELOAD"); already != nullptr && *already != '\0')
    preload += std::string{":"} + already;
  setenv("LD_PRELOAD", preload.c_str(), 1);
  setenv("PHANTORA_MEASURE_FILE", database.c_str(), 1);
  setenv("PHANTORA_MEASURE_COMMAND", fmt::format("{}", fmt::join(options.command, " ")).c_str(), 1);
  if (!options.timer.empty()) setenv("PHANTORA_MEASURE_TIMER", options.timer.c_str(), 1);
  std::vector<char*> arguments;
  for (const std::string& argument : options.command)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  std::fprintf(stderr, "phantora: cannot run %s: %s\n", arguments[0], std::strerror(errno));
  _exit(127);
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
  const pid_t child = fork();
  if (child < 0) throw Error{std::string{"cannot start the program: "} + std::strerror(errno)};
  if (child == 0) become(options, library, database);
  // The terminal sends an interrupt to both: the program decides what it does.
  std::signal(SIGINT, SIG_IGN);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
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
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace phantora::run
