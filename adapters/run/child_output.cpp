#include "run/child_output.hpp"

#include "run/unique_fd.hpp"

#include <phantora/error.hpp>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace phantora::run {

ChildOutput output_of(std::vector<std::string> command,
                      const std::map<std::string, std::string>& environment, int seconds) {
  std::vector<char*> arguments;
  for (std::string& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  const auto become = [&](int out) {
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    dup2(nothing, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    execvp(arguments[0], arguments.data());
    _exit(127);
  };
  return output_of(become, seconds);
}

ChildOutput output_of(const std::function<void(int out)>& body, int seconds) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    throw Error{std::string{"cannot make a pipe: "} + std::strerror(errno)};
  UniqueFd reads{ends[0]}, writes{ends[1]};
  const pid_t child = fork();
  if (child < 0) throw Error{std::string{"cannot fork: "} + std::strerror(errno)};
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    body(writes.get());
    _exit(0);
  }
  writes = UniqueFd{};  // so that its end is seen
  ChildOutput output;
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::seconds{seconds};
  std::array<char, 4096> part{};
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd readable{.fd = reads.get(), .events = POLLIN, .revents = 0};
    if (left <= 0 || poll(&readable, 1, static_cast<int>(left)) == 0) {
      output.in_time = false;
      kill(child, SIGKILL);
      break;
    }
    const ssize_t got = read(reads.get(), part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    output.text.append(part.data(), static_cast<std::size_t>(got));
  }
  while (waitpid(child, &output.status, 0) < 0 && errno == EINTR) {
  }
  return output;
}

}  // namespace phantora::run
