#include "run/process_tree.hpp"

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <string>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace phantora::run {
namespace {

/// Field 4 of /proc/PID/stat, which follows the command in parentheses.
pid_t parent_of(pid_t process) {
  std::ifstream file{"/proc/" + std::to_string(process) + "/stat"};
  std::string text;
  std::getline(file, text);
  const std::size_t end = text.rfind(") ");
  if (end == std::string::npos || text.size() < end + 4) return 0;
  pid_t parent = 0;
  std::from_chars(text.data() + end + 4, text.data() + text.size(), parent);
  return parent;
}

/// The first field of schedstat is time on a CPU in nanoseconds.
std::uint64_t cpu_time(pid_t process) {
  std::uint64_t total = 0;
  std::error_code error;
  const std::string tasks = "/proc/" + std::to_string(process) + "/task";
  for (const auto& task : std::filesystem::directory_iterator{tasks, error}) {
    std::ifstream file{task.path() / "schedstat"};
    std::uint64_t on_cpu = 0;
    if (file >> on_cpu) total += on_cpu;
  }
  return total;
}

}  // namespace

ProcessTimes::ProcessTimes() {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator{"/proc", error}) {
    const std::string name = entry.path().filename();
    pid_t process = 0;
    const auto [rest, problem] = std::from_chars(name.data(), name.data() + name.size(), process);
    if (problem != std::errc{} || rest != name.data() + name.size()) continue;
    children_[parent_of(process)].push_back(process);
  }
}

std::vector<pid_t> ProcessTimes::descendants(pid_t root) const {
  std::vector<pid_t> all;
  const auto add = [&](pid_t parent) {
    const auto found = children_.find(parent);
    if (found != children_.end()) all.insert(all.end(), found->second.begin(), found->second.end());
  };
  add(root);
  for (std::size_t i = 0; i < all.size(); ++i) add(pid_t{all[i]});
  return all;
}

std::uint64_t ProcessTimes::of_tree(pid_t root) const {
  std::uint64_t total = cpu_time(root);
  for (const pid_t process : descendants(root)) total += cpu_time(process);
  return total;
}

void kill_descendants() {
  while (true) {
    const std::vector<pid_t> all = ProcessTimes{}.descendants(getpid());
    if (all.empty()) return;
    for (const pid_t process : all) kill(process, SIGKILL);
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    usleep(2000);
  }
}

}  // namespace phantora::run
