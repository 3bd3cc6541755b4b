#pragma once

#include <phantora/simulation/host_cost.hpp>

#include <chrono>

/// Marks the extent of one intercepted call, so that the thread's clock is charged what the real
/// call costs and never what interception costs (design section 4, rule 1).
namespace phantora::rank {

struct HostThread;

using Api = HostCall;

/// Everything between construction and destruction is not charged as host CPU time; the modelled
/// cost of `api` is charged instead. Nested calls (a library that calls another) charge once, as
/// the outermost.
class ApiCall {
 public:
  explicit ApiCall(Api api) noexcept;
  ~ApiCall();
  ApiCall(const ApiCall&) = delete;
  ApiCall& operator=(const ApiCall&) = delete;

 private:
  HostThread* thread_ = nullptr;  ///< nothing where the process has no part in time
  bool stops_clock_ = false;
};

/// Within a call: it costs this much more than calls of its kind do, in `measured` host time.
void costs_more(std::chrono::nanoseconds by) noexcept;

}  // namespace phantora::rank
