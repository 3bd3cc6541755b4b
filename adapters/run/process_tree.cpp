#include "run/process_tree.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace phantora::run {
namespace {

/// The beginning of a file of /proc; empty if it is gone.
std::string beginning_of(const std::string& path) {
  std::array<char, 512> text{};
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return {};
  const ssize_t got = read(descriptor, text.data(), text.size());
  close(descriptor);
  return got > 0 ? std::string{text.data(), static_cast<std::size_t>(got)} : std::string{};
}

/// Field 4 of /proc/PID/stat, which follows the command in parentheses.
pid_t parent_of(pid_t process) {
  const std::string text = beginning_of("/proc/" + std::to_string(process) + "/stat");
  const std::size_t end = text.rfind(") ");
  if (end == std::string::npos || text.size() < end + 4) return 0;
  pid_t parent = 0;
  std::from_chars(text.data() + end + 4, text.data() + text.size(), parent);
  return parent;
}

std::string task(pid_t process, pid_t thread) {
  return "/proc/" + std::to_string(process) + "/task/" + std::to_string(thread);
}

/// The system calls in which threads of programs wait, with those whose first argument is a
/// descriptor told apart.
struct SystemCall {
  long number;
  const char* name;
  bool of_descriptor;
};
constexpr std::array<SystemCall, 24> waits = {{{SYS_read, "read", true},
                                               {SYS_readv, "readv", true},
                                               {SYS_write, "write", true},
                                               {SYS_writev, "writev", true},
                                               {SYS_recvfrom, "recvfrom", true},
                                               {SYS_recvmsg, "recvmsg", true},
                                               {SYS_sendto, "sendto", true},
                                               {SYS_sendmsg, "sendmsg", true},
                                               {SYS_accept, "accept", true},
                                               {SYS_accept4, "accept4", true},
                                               {SYS_connect, "connect", true},
                                               {SYS_flock, "flock", true},
                                               {SYS_fcntl, "fcntl", true},
                                               {SYS_epoll_wait, "epoll_wait", true},
                                               {SYS_epoll_pwait, "epoll_pwait", true},
                                               {SYS_poll, "poll", false},
                                               {SYS_ppoll, "ppoll", false},
                                               {SYS_select, "select", false},
                                               {SYS_pselect6, "pselect", false},
                                               {SYS_wait4, "wait4", false},
                                               {SYS_waitid, "waitid", false},
                                               {SYS_nanosleep, "nanosleep", false},
                                               {SYS_clock_nanosleep, "clock_nanosleep", false},
                                               {SYS_futex, "futex", false}}};

}  // namespace

ProcessTree::ProcessTree() {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator{"/proc", error}) {
    const std::string name = entry.path().filename();
    pid_t process = 0;
    const auto [rest, problem] = std::from_chars(name.data(), name.data() + name.size(), process);
    if (problem != std::errc{} || rest != name.data() + name.size()) continue;
    children_[parent_of(process)].push_back(process);
  }
}

std::vector<pid_t> ProcessTree::descendants(pid_t root) const {
  std::vector<pid_t> all;
  const auto add = [&](pid_t parent) {
    const auto found = children_.find(parent);
    if (found != children_.end()) all.insert(all.end(), found->second.begin(), found->second.end());
  };
  add(root);
  for (std::size_t i = 0; i < all.size(); ++i) add(pid_t{all[i]});
  return all;
}

std::vector<pid_t> threads_of(pid_t process) {
  std::vector<pid_t> threads;
  std::error_code error;
  const std::string tasks = "/proc/" + std::to_string(process) + "/task";
  for (const auto& entry : std::filesystem::directory_iterator{tasks, error}) {
    const std::string name = entry.path().filename();
    pid_t thread = 0;
    std::from_chars(name.data(), name.data() + name.size(), thread);
    threads.push_back(thread);
  }
  return threads;
}

bool shares_memory(pid_t process) {
  // 7f81-7f82 rw-s 00000000 00:01 20743      /memfd:phantora-run (deleted)
  std::ifstream maps{"/proc/" + std::to_string(process) + "/maps"};
  for (std::string line; std::getline(maps, line);) {
    const std::size_t permissions = line.find(' ');
    if (permissions == std::string::npos || line.size() < permissions + 5) continue;
    const bool writes = line[permissions + 2] == 'w', shared = line[permissions + 4] == 's';
    if (!shared || line.find("/memfd:phantora-run") != std::string::npos) continue;
    // Files that are only read, as the C library's tables are, do not change.
    const auto named = [&](const char* part) { return line.find(part) != std::string::npos; };
    if (writes || named("/dev/shm/") || named("/memfd:") || named("/SYSV")) return true;
  }
  return false;
}

std::optional<ThreadLook> look_at(pid_t process, pid_t thread) {
  const std::string folder = task(process, thread);
  // Before the state: a thread that runs between the two is seen to have run at the next look.
  const std::string times = beginning_of(folder + "/schedstat");
  const std::string stat = beginning_of(folder + "/stat");
  const std::size_t end = stat.rfind(") ");
  if (times.empty() || end == std::string::npos || stat.size() < end + 3) return std::nullopt;
  ThreadLook look{.state = stat[end + 2]};
  // schedstat: time on a core, time waiting for one (both in nanoseconds), times it got one.
  std::istringstream numbers{times};
  std::uint64_t waited = 0;
  numbers >> look.cpu_ns >> waited >> look.runs;
  // Fields 10 and 15; the state is field 3.
  std::istringstream fields{stat.substr(end + 4)};
  std::string field;
  for (int i = 4; i <= 15 && fields >> field; ++i) {
    if (i == 10) look.faults = std::strtoull(field.c_str(), nullptr, 10);
    if (i == 15) look.system_ticks = std::strtoull(field.c_str(), nullptr, 10);
  }
  return look;
}

std::string sleeps_in(pid_t process, pid_t thread) {
  std::istringstream text{beginning_of(task(process, thread) + "/syscall")};
  long number = -1;
  if (!(text >> number)) return {};
  const auto* const call = std::find_if(
      waits.begin(), waits.end(), [&](const SystemCall& known) { return known.number == number; });
  if (call == waits.end()) return {};
  std::string said = call->name;
  std::string argument;
  if (call->of_descriptor && text >> argument) {
    std::array<char, 256> target{};
    const std::string link = "/proc/" + std::to_string(process) + "/fd/" +
                             std::to_string(std::strtol(argument.c_str(), nullptr, 16));
    const ssize_t length = readlink(link.c_str(), target.data(), target.size());
    if (length > 0) said += " of " + std::string{target.data(), static_cast<std::size_t>(length)};
  }
  return said;
}

void kill_descendants() {
  while (true) {
    const std::vector<pid_t> all = ProcessTree{}.descendants(getpid());
    if (all.empty()) return;
    for (const pid_t process : all) kill(process, SIGKILL);
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    usleep(2000);
  }
}

}  // namespace phantora::run
