#include "run/doing.hpp"

#include <phantora/simulation/standstill.hpp>

#include <algorithm>
#include <vector>

#include <fmt/format.h>

namespace phantora::run {
namespace {

using channel::Op;
using channel::ThreadState;
using channel::Wait;

std::string waits_in_words(Wait wait) {
  switch (wait) {
    case Wait::none:
      break;
    case Wait::condition:
      return "waits for a condition variable";
    case Wait::semaphore:
      return "waits for a semaphore";
    case Wait::lock:
      return "waits for a lock";
    case Wait::interpreter:
      return "waits for Python's interpreter lock";
    case Wait::thread:
      return "waits for the end of another thread";
    case Wait::futex:
      return "waits for a future or an atomic";
    case Wait::descriptor:
      return "waits for data";
    case Wait::process:
      return "waits for the end of another process";
    case Wait::memory:
      return "looks at memory until another changes it";
  }
  return "waits";
}

std::string call_in_words(Op op) {
  switch (op) {
    case Op::synchronize:
      return "waits for its GPU (a synchronisation or a copy)";
    case Op::query:
      return "asks whether its GPU is done (an event or stream query)";
    case Op::join_communicator:
      return "is in ncclCommInitRank";
    case Op::split_communicator:
      return "is in ncclCommSplit";
    default:
      return "waits for the engine";
  }
}

/// What is told first: who waits for the GPU or for others says more of a standstill than who
/// sleeps until some time.
int place_in_the_tale(const SeenThread& thread) {
  if (thread.main) return 0;
  if (thread.call || thread.kernel == 'T' || thread.kernel == 't') return 1;
  if (thread.state == ThreadState::waiting) return 2;
  return thread.state == ThreadState::sleeping ? 4 : 3;
}

}  // namespace

std::string in_words(const SeenThread& thread) {
  if (const auto& call = thread.call) {
    if (!call->answered) return call_in_words(call->in) + " since " + seconds_in_words(call->since);
    return call->data_outstanding ? "waits for the data of a small collective"
                                  : "may go on, and waits for its turn to run";
  }
  if (thread.kernel == 'T' || thread.kernel == 't') {
    return "was stopped by a signal or a debugger";
  }
  const std::string in = thread.where.empty() ? "" : " (in " + thread.where + ")";
  if (thread.state == ThreadState::waiting) return waits_in_words(thread.wait) + in;
  if (thread.state == ThreadState::sleeping) {
    return "sleeps until " + seconds_in_words(thread.clock);
  }
  if (thread.kernel == 'R' || thread.kernel == '?') {
    return fmt::format("runs host code, {:.0f} s on a core since its last call",
                       static_cast<double>(thread.cpu_ns) / 1e9);
  }
  return (thread.kernel == 'D' ? "waits for a disk" : "sleeps in host code") + in;
}

std::string in_words(const SeenProcess& process) {
  if (process.ended) return "has ended";
  if (!process.runs) return "waits for its turn to run";
  constexpr std::size_t shown = 4;
  std::vector<SeenThread> threads = process.threads;
  std::ranges::stable_sort(threads, {}, place_in_the_tale);
  std::string text;
  std::size_t told = 0;
  for (const SeenThread& thread : threads) {
    if (told++ >= shown) continue;
    if (!text.empty()) text += "; ";
    if (!thread.main) text += thread.background ? "a background thread " : "another thread ";
    text += in_words(thread);
  }
  if (told > shown) text += fmt::format("; and {} more threads", told - shown);
  return text.empty() ? "runs host code, without a GPU so far" : text;
}

}  // namespace phantora::run
