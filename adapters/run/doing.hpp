#pragma once

#include "channel/wire.hpp"

#include <phantora/units.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// What the threads of a rank were seen to do, and how that is said.
namespace phantora::run {

/// A thread that has a part in time, at one look.
struct SeenThread {
  /// A call that the engine has not let return.
  struct Call {
    channel::Op in{};
    Time since{};                   ///< by the thread's clock
    bool answered = false;          ///< it may return, once it is its turn
    bool data_outstanding = false;  ///< of a small collective
  };
  std::optional<Call> call{};
  bool main = false;
  bool background = false;  ///< a poller
  char kernel = '?';        ///< state in /proc; '?': not looked at
  channel::ThreadState state{};
  channel::Wait wait{};
  std::string where{};     ///< the kernel function that it sleeps in
  Time clock{};            ///< its own; of a sleeper, when it wakes
  std::uint64_t cpu_ns{};  ///< since its last call
};
std::string in_words(const SeenThread& thread);

struct SeenProcess {
  bool ended = false;
  bool runs = false;  ///< it has been let in
  std::vector<SeenThread> threads{};
};
std::string in_words(const SeenProcess& process);

}  // namespace phantora::run
