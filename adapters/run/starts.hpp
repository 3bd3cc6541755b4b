#pragma once

#include "run/launcher.hpp"
#include "run/output.hpp"

#include <phantora/cluster/cluster.hpp>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

/// How COMMAND is started, and what its processes find in their environment.
namespace phantora::run {

/// What was asked for, else what is known of the command.
Per start_per(const LaunchOptions& options);

/// One process to start: a rank, or the parent of several.
struct Start {
  int first_rank = 0;
  int ranks = 1;  ///< at most: a parent may start fewer
  bool parent = false;
  std::map<std::string, std::string> environment{};
  std::vector<std::string> command{};
};
/// Where processes find the engine.
struct Meeting {
  std::string socket_name{};
  std::string run_memory{};  ///< a path
};
/// @throws ConfigError if the processes cannot be told what they have to know.
std::vector<Start> plan_starts(const LaunchOptions& options, const Cluster& cluster,
                               const Meeting& meeting);
std::string name_of(const Start& start);

/// Starts the process, which dies with the caller, with these signals blocked, this limit of
/// descriptors, and what it prints going to `output`. @throws Error if that cannot be done.
pid_t start_process(const Start& start, const sigset_t& mask, const rlimit& descriptors,
                    const Output::Ends& output);

/// Where the hooks lie. @throws ConfigError if they do not.
std::filesystem::path hook_directory();

/// Where the loader looks for libraries, before the places that it knows by itself.
/// @param ours_first  the stand-ins come before what the user has there.
std::string library_path(const std::filesystem::path& hooks, bool ours_first);

/// Where execvp will find `program`; a failure is said before 16 ranks say it.
/// @throws CommandError if nothing can be run by this name.
std::filesystem::path check_program(const std::string& program);

/// `phantora shell`: becomes `command` (empty: the user's shell) with the stand-ins where the
/// loader finds them and no simulated GPU. @throws CommandError if it cannot be run.
[[noreturn]] void become_shell(std::vector<std::string> command);

}  // namespace phantora::run
