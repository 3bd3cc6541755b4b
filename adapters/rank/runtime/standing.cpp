#include "rank/runtime/standing.hpp"

#include "channel/launchers.hpp"
#include "channel/rank_variables.hpp"
#include "channel/wire.hpp"
#include "rank/runtime/process.hpp"
#include "rank/runtime/rank.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <unistd.h>

namespace phantora::rank {
namespace {

std::optional<int> number(const char* variable) {
  const char* text = variable != nullptr ? std::getenv(variable) : nullptr;
  if (text == nullptr) return std::nullopt;
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (end == text || value < 0) return std::nullopt;
  return static_cast<int>(value);
}

const channel::RankVariables* variables_of_launcher() {
  for (const channel::RankVariables& variables : channel::rank_variables) {
    if (number(variables.rank)) return &variables;
  }
  return nullptr;
}

/// setenv() of the C library. Bash has one of its own by that name, which needs a shell that has
/// begun.
void set_variable(const char* name, std::size_t value) {
  static auto* const set = reinterpret_cast<decltype(&setenv)>(
      dlsym(dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), "setenv"));
  set(name, std::to_string(value).c_str(), 1);
}

/// Where one process started the ranks of all hosts, what its launcher says of the ranks beside
/// this one becomes true of its host, before the program looks.
[[gnu::constructor]] void go_to_own_host() {
  const Rank& rank = this_rank();
  const auto number_of_all = rank_number();
  if (!rank.settings || !rank.settings->host_by_rank || !number_of_all) return;
  const auto seat = channel::seat_of_rank(*rank.settings, *number_of_all);
  if (!seat) return;  // more ranks than GPUs: CUDA will say so
  set_variable(channel::host_variable, seat->host);
  const channel::RankVariables& told = *variables_of_launcher();
  if (number(told.local_rank)) set_variable(told.local_rank, static_cast<std::size_t>(seat->gpu));
  const auto ranks = number(told.ranks);
  if (!ranks || !number(told.local_ranks)) return;
  const int first = *number_of_all - seat->gpu;
  const int here = std::min(*ranks - first, rank.settings->hosts[seat->host].gpus);
  set_variable(told.local_ranks, static_cast<std::size_t>(here));
}

/// The words of this process's command.
std::vector<std::string> own_command() {
  std::ifstream file{"/proc/self/cmdline"};
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

/// A script that starts torchrun, and was itself started for each GPU, starts all ranks several
/// times: their ports and names collide, which says nothing of the cause.
[[gnu::constructor]] void tell_of_launcher_in_rank() {
  const Rank& rank = this_rank();
  const channel::RankVariables* const told = variables_of_launcher();
  if (!rank.settings || rank.settings->host_by_rank || told == nullptr) return;
  const auto ranks = number(told->ranks);
  if (number(told->rank) != 0 || !ranks || *ranks < 2 || descends_from_rank()) return;
  const auto launcher = channel::launcher_of(own_command());
  if (!launcher) return;
  const std::string once =
      launcher->all_hosts ? "run starts COMMAND once" : "host starts COMMAND once for each host";
  warn_once("launcher in a rank",
            "rank 0 starts " + std::string{launcher->name} +
                ", which starts ranks itself, and so does every other of the " +
                std::to_string(*ranks) + " ranks: --per " + once);
}

}  // namespace

// A process that has connected names itself to its children. The environment of such a child may
// tell the rank of its parent.
bool descends_from_rank() noexcept {
  const char* connected = std::getenv(channel::connected_variable);
  return connected != nullptr && std::strtol(connected, nullptr, 10) != static_cast<long>(getpid());
}

Standing standing() noexcept { return this_rank().standing.load(std::memory_order_relaxed); }

std::optional<int> rank_number() noexcept {
  if (descends_from_rank()) return std::nullopt;
  const channel::RankVariables* const told = variables_of_launcher();
  return told == nullptr ? std::nullopt : number(told->rank);
}

}  // namespace phantora::rank
