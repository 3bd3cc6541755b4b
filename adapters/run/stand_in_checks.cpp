#include "run/stand_in_checks.hpp"

#include "run/child_output.hpp"
#include "run/starts.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace phantora::run {
namespace {

namespace fs = std::filesystem;

/// What the build makes, as paths from the folder of the hooks.
constexpr std::array stand_in_files = {
#include "stand_in_files.inc"
};
/// What those and the ranks need.
constexpr std::array own_files = {"libphantora_libc.so", "libphantora_static_runtime.so",
                                  "libphantora_rank.so", "libphantora_driver.so"};

constexpr std::string_view again =
    "build the target all again (cmake --build --preset release), or install Phantora again";

/// Loads each in a process of its own, since what is loaded may do anything.
/// @return why some cannot be loaded.
std::vector<std::string> failures_to_load(const std::vector<fs::path>& libraries) {
  const auto load_all = [&](int out) {
    for (const fs::path& library : libraries) {
      // What is being loaded stands last, should that end the process.
      const auto tell = [&](const std::string& line) {
        if (write(out, line.data(), line.size()) < 0) _exit(1);
      };
      tell(library.string() + ": ");
      const void* const loaded = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
      tell(loaded != nullptr ? "\n" : std::string{dlerror()} + "\n");
    }
  };
  constexpr int long_enough_s = 60;
  const ChildOutput output = output_of(load_all, long_enough_s);
  const std::string& told = output.text;
  const int status = output.status;
  std::vector<std::string> failures;
  for (std::size_t at = 0; at < told.size();) {
    const std::size_t end = std::min(told.find('\n', at), told.size());
    std::string line = told.substr(at, end - at);
    at = end + 1;
    if (line.ends_with(": ") && end < told.size()) continue;
    if (end == told.size() && WIFSIGNALED(status))
      line += fmt::format("loading it was ended by signal {} ({})", WTERMSIG(status),
                          sigdescr_np(WTERMSIG(status)));
    failures.push_back(std::move(line));
  }
  return failures;
}

}  // namespace

bool has_stand_in(std::string_view name) {
  return std::ranges::any_of(stand_in_files, [&](std::string_view file) {
    return file.substr(file.find('/') + 1) == name;  // 0 where there is no folder
  });
}

Findings check_stand_ins() {
  fs::path hooks;
  try {
    hooks = hook_directory();
  } catch (const ConfigError& problem) {
    return {{Finding::Status::missing, "stand-ins", problem.what(), std::string{again}}};
  }
  std::vector<fs::path> there;
  std::vector<std::string> absent;
  const auto look_for = [&](const auto& files) {
    for (const char* const file : files) {
      if (fs::exists(hooks / file)) {
        there.push_back(hooks / file);
      } else {
        absent.emplace_back(file);
      }
    }
  };
  look_for(own_files);
  look_for(stand_in_files);
  Findings findings;
  if (!absent.empty())
    findings.push_back({Finding::Status::missing, "stand-ins",
                        fmt::format("not in {}: {}", hooks.string(), fmt::join(absent, ", ")),
                        std::string{again}});
  const std::vector<std::string> failures = failures_to_load(there);
  for (const std::string& failure : failures)
    findings.push_back({Finding::Status::missing, "stand-ins", failure, std::string{again}});
  if (findings.empty())
    findings.push_back({Finding::Status::ok, "stand-ins",
                        fmt::format("{} libraries in {}", there.size(), hooks.string())});
  return findings;
}

}  // namespace phantora::run
