#include <phantora/simulation/standstill.hpp>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <utility>

namespace phantora {
namespace {

const char* wait(const std::set<int>& ranks) { return ranks.size() == 1 ? " waits" : " wait"; }

std::string not_called(const std::vector<Standstill::Missing>& missing) {
  std::string text;
  for (const auto& [name, does] : missing) text += "; " + name + " has not called it and " + does;
  return text;
}

}  // namespace

std::string rank_list(const std::set<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  const char* separator = " ";
  for (auto first = ranks.begin(); first != ranks.end();) {
    auto last = first, next = std::next(first);
    while (next != ranks.end() && *next == *last + 1) last = next++;
    if (*last - *first < 2) last = first;
    text.append(separator).append(std::to_string(*first));
    if (last != first) text.append("-").append(std::to_string(*last));
    separator = ", ";
    first = std::next(last);
  }
  return text;
}

std::string seconds_in_words(Time time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6f s", to_seconds(time.time_since_epoch()));
  return text;
}

std::string open_operations(const Standstill& seen) {
  std::string text;
  for (const Standstill::Operation& open : seen.operations) {
    text += "\n  " + open.what + " on the communicator of " + rank_list(open.group) + ": " +
            rank_list(open.waiting) + wait(open.waiting) + " since " +
            seconds_in_words(open.since) + not_called(open.missing);
  }
  for (const std::string& line : seen.obstacles) text += "\n  " + line;
  for (const Standstill::Joining& open : seen.joining) {
    text += "\n  " + open.call + ": " + rank_list(open.waiting) + wait(open.waiting);
    const char* separator = "; nobody has called it as rank ";
    for (const int place : open.free_places) {
      text += separator + std::to_string(place);
      separator = ", ";
    }
    text += not_called(open.missing);
  }
  return text;
}

std::string what_ranks_do(const Standstill& seen) {
  std::vector<std::pair<std::string, std::set<int>>> groups;  // as they come
  for (const auto& [rank, what] : seen.ranks) {
    const auto found =
        std::find_if(groups.begin(), groups.end(),
                     [&does = what](const auto& group) { return group.first == does; });
    if (found != groups.end()) {
      found->second.insert(rank);
    } else {
      groups.emplace_back(what, std::set<int>{rank});
    }
  }
  std::string text;
  for (const auto& [what, ranks] : groups) text += "\n  " + rank_list(ranks) + ": " + what;
  if (!seen.ended.empty()) text += "\n  " + rank_list(seen.ended) + ": ended";
  return text;
}

std::string stall_in_words(const Standstill& seen) {
  // Where a link is down the program is not to blame.
  const char* const advice = seen.obstacles.empty()
                                 ? "\n  Every rank of a communicator has to call the same "
                                   "operations in the same order."
                                 : "";
  return "the run is stalled: ranks wait for what does not come." + open_operations(seen) +
         what_ranks_do(seen) + advice;
}

}  // namespace phantora
