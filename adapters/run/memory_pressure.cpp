#include "run/memory_pressure.hpp"

#include <algorithm>
#include <fstream>
#include <string>

namespace phantora::run {
namespace {

/// The number after "oom_kill " in /proc/vmstat or a group's memory.events.
std::uint64_t count_in(const std::string& path) {
  std::ifstream file{path};
  std::string name;
  std::uint64_t count = 0;
  while (file >> name >> count) {
    if (name == "oom_kill") return count;
  }
  return 0;
}

/// Of version 2 of control groups: "0::/path".
std::string own_group() {
  std::ifstream file{"/proc/self/cgroup"};
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::")) return line.substr(3);
  }
  return {};
}

}  // namespace

std::uint64_t killed_for_memory() {
  return std::max(count_in("/proc/vmstat"),
                  count_in("/sys/fs/cgroup" + own_group() + "/memory.events"));
}

}  // namespace phantora::run
