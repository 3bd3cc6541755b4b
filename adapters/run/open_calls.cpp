#include "run/open_calls.hpp"

#include <phantora/error.hpp>

#include <algorithm>

namespace phantora::run {
namespace {

std::string text_of(const OperationCall& call) {
  return call.name + " of " + std::to_string(call.size.count()) + " bytes";
}

}  // namespace

void OpenCalls::collective(int rank, const OperationCall& call,
                           const std::function<std::string(int)>& process) {
  const std::uint64_t number = called_.at(static_cast<std::size_t>(rank))++;
  const auto [found, first] = collectives_.try_emplace(number, Collective{call, {}});
  Collective& open = found->second;
  if (!first &&
      (open.call.name != call.name || open.call.size != call.size || open.call.root != call.root)) {
    const auto said = [&](int who, const OperationCall& what) {
      return process(who) + " calls " + text_of(what) + " (root " + std::to_string(what.root) + ")";
    };
    // The lower rank first, whichever was heard first.
    std::string one = said(*open.ranks.begin(), open.call), other = said(rank, call);
    if (rank < *open.ranks.begin()) std::swap(one, other);
    throw Error{"the ranks of a communicator do not agree on its collective number " +
                std::to_string(number + 1) + ": " + one + ", " + other +
                ". All ranks must call the same operations in the same order."};
  }
  open.call.at = std::min(open.call.at, call.at);
  open.ranks.insert(rank);
  if (open.ranks.size() == called_.size()) collectives_.erase(found);
}

void OpenCalls::message(int from, int to, bool sends, const OperationCall& call) {
  Channel& channel = channels_[{from, to}];
  auto& theirs = sends ? channel.receives : channel.sends;
  if (theirs.empty()) {
    (sends ? channel.sends : channel.receives).push_back(call);
  } else {
    theirs.pop_front();
  }
}

std::vector<OpenCalls::Open> OpenCalls::all() const {
  std::vector<Open> open;
  for (const auto& [number, collective] : collectives_) {
    Open one{text_of(collective.call), {}, {}, collective.call.at};
    for (int rank = 0; rank < static_cast<int>(called_.size()); ++rank) {
      (collective.ranks.contains(rank) ? one.waiting : one.missing).push_back(rank);
    }
    open.push_back(std::move(one));
  }
  for (const auto& [pair, channel] : channels_) {
    const auto add = [&](const OperationCall& call, int caller, int peer) {
      open.push_back({text_of(call), {caller}, {peer}, call.at});
    };
    for (const OperationCall& call : channel.sends) add(call, pair.first, pair.second);
    for (const OperationCall& call : channel.receives) add(call, pair.second, pair.first);
  }
  std::stable_sort(open.begin(), open.end(),
                   [](const Open& a, const Open& b) { return a.since < b.since; });
  return open;
}

}  // namespace phantora::run
