#include "nccl/group.hpp"

#include <exception>
#include <thread>
#include <utility>
#include <vector>

namespace phantora::nccl {
namespace {

struct Group {
  int depth = 0;
  std::vector<rank::CollectiveCall> calls{};
  std::vector<std::function<void()>> initialisations{};
};
thread_local Group group;

/// Runs them all at the same time; the first failure is thrown again.
void run_together(const std::vector<std::function<void()>>& functions) {
  if (functions.size() == 1) return functions.front()();
  std::vector<std::exception_ptr> failures(functions.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < functions.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        functions[i]();
      } catch (...) {
        failures[i] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace

bool in_group() noexcept { return group.depth > 0; }

void begin_group() noexcept { ++group.depth; }

ncclResult_t end_group() {
  if (group.depth == 0) return ncclInvalidUsage;
  if (--group.depth > 0) return ncclSuccess;
  const auto initialisations = std::exchange(group.initialisations, {});
  const auto calls = std::exchange(group.calls, {});
  if (!initialisations.empty()) run_together(initialisations);
  if (!calls.empty()) rank::enqueue_collectives(calls);
  return ncclSuccess;
}

void add(const rank::CollectiveCall& call) {
  if (in_group()) {
    group.calls.push_back(call);
  } else {
    rank::enqueue_collectives({&call, 1});
  }
}

ncclResult_t add_initialisation(std::function<void()> join) {
  if (in_group()) {
    group.initialisations.push_back(std::move(join));
  } else {
    join();
  }
  return ncclSuccess;
}

}  // namespace phantora::nccl
