#pragma once

#include <phantora/simulation/host_cost.hpp>

#include <chrono>
#include <cstdint>

/// Marks the extent of one intercepted call, so that the thread's clock is charged what the real
/// call costs and never what interception costs (design section 4, rule 1).
namespace phantora::rank {

struct HostThread;

using Api = HostCall;

/// What a program calls through; a library of NVIDIA's calls the driver itself.
enum class Interface : std::uint8_t { library, runtime, driver };
struct CalledFunction {
  Interface interface = Interface::library;
  const char* name = nullptr;  ///< as it is exported, of `runtime` and `driver`
};

/// What a call costs, and the name of the function in which this was written down.
struct NamedApi {
  NamedApi(Api its_api, const char* its_name = __builtin_FUNCTION()) noexcept  // NOLINT
      : api{its_api}, name{its_name} {}
  Api api;
  const char* name;
};

/// Everything between construction and destruction is not charged as host CPU time; the modelled
/// cost of `api` is charged instead. Nested calls (a library that calls another) charge once, as
/// the outermost.
class ApiCall {
 public:
  explicit ApiCall(Api api, CalledFunction function = {}) noexcept;
  ~ApiCall();
  ApiCall(const ApiCall&) = delete;
  ApiCall& operator=(const ApiCall&) = delete;

 private:
  HostThread* thread_ = nullptr;  ///< nothing where the process has no part in time
  bool stops_clock_ = false;
  bool noted_ = false;  ///< a profiler is told of it
};

/// Within a call: it costs this much more than calls of its kind do, in `measured` host time.
void costs_more(Duration by) noexcept;

}  // namespace phantora::rank
