#include "rank/runtime/standing.hpp"

#include "channel/rank_variables.hpp"
#include "channel/wire.hpp"
#include "rank/runtime/rank.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>

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

/// A process above this one has connected and may have been the rank that the environment names.
bool descends_from_connected() {
  const char* connected = std::getenv(channel::connected_variable);
  return connected != nullptr && std::strtol(connected, nullptr, 10) != static_cast<long>(getpid());
}

const channel::RankVariables* variables_of_launcher() {
  for (const channel::RankVariables& variables : channel::rank_variables) {
    if (number(variables.rank)) return &variables;
  }
  return nullptr;
}

/// Takes off the front of `list` what stands before the next `separator`, and that.
std::string next_of(std::string& list, char separator) {
  const std::size_t end = std::min(list.find(separator), list.size());
  std::string first = list.substr(0, end);
  list.erase(0, end + 1);
  return first;
}

/// With `--per run`, the ranks of all hosts have one parent: each goes to its own host before it
/// looks at anything. What its launcher says of the ranks beside it becomes true of that host.
[[gnu::constructor]] void go_to_own_host() {
  const char* const all_gpus = std::getenv(channel::host_gpus_variable);
  const char* const all_names = std::getenv(channel::host_names_variable);
  const channel::RankVariables* const told = variables_of_launcher();
  if (all_gpus == nullptr || all_names == nullptr || told == nullptr || descends_from_connected())
    return;
  std::string names = all_names, hosts_gpus = all_gpus;
  int local = *number(told->rank);
  // More ranks than GPUs: CUDA will say so.
  for (int host = 0; !hosts_gpus.empty(); ++host) {
    std::string gpus_here = next_of(hosts_gpus, ',');
    const std::string name = next_of(names, ','), count = next_of(gpus_here, ':'),
                      model = next_of(gpus_here, ':');
    const int gpus = static_cast<int>(std::strtol(count.c_str(), nullptr, 10));
    if (local < gpus) {
      setenv(channel::host_variable, std::to_string(host).c_str(), 1);
      setenv(channel::host_name_variable, name.c_str(), 1);
      setenv(channel::gpus_variable, count.c_str(), 1);
      setenv(channel::gpu_model_variable, model.c_str(), 1);
      setenv(channel::gpu_memory_variable, gpus_here.c_str(), 1);
      const auto ranks = number(told->ranks);
      const int first = *number(told->rank) - local;
      if (number(told->local_rank)) setenv(told->local_rank, std::to_string(local).c_str(), 1);
      if (ranks && number(told->local_ranks)) {
        const int here = *ranks - first < gpus ? *ranks - first : gpus;
        setenv(told->local_ranks, std::to_string(here).c_str(), 1);
      }
      return;
    }
    local -= gpus;
  }
}

}  // namespace

Standing standing() noexcept { return this_rank().standing.load(std::memory_order_relaxed); }

std::optional<int> rank_number() noexcept {
  if (descends_from_connected()) return std::nullopt;
  const channel::RankVariables* const told = variables_of_launcher();
  return told == nullptr ? std::nullopt : number(told->rank);
}

}  // namespace phantora::rank
