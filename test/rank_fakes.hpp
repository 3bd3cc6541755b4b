#pragma once

#include "rank/memory/data_queue.hpp"
#include "rank/runtime/timeline.hpp"

#include <phantora/kernels/kernel_cost_model.hpp>

#include <map>
#include <string>
#include <vector>

/// The parts of a rank that need an engine, for tests of those that do not.
namespace phantora::rank::fakes {

struct Process {
  std::size_t capacity = std::size_t{1} << 40;
  std::size_t used = 0;
  Duration costs{};  // of host time, by costs_more
  std::map<std::string, std::uint64_t> counters;
  std::vector<KernelQuery> launched;
  std::vector<std::vector<int>> met;
  std::size_t synchronizations = 0;
  std::vector<std::string> warnings;
};
Process& process();

/// The queue of data. An exchange on `stream` comes after what the legacy stream's rule asks for.
DataQueue& data();
void exchange(Stream& stream, DataQueue::Ticket ticket, DataQueue::Operation send,
              DataQueue::Receive receive);

}  // namespace phantora::rank::fakes
