#include "measure/libraries.hpp"
#include "measure/results.hpp"
#include "measure/timer.hpp"

#include <phantora/kernels/builtin_cost_model.hpp>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

#include <cuda.h>

namespace phantora::measure {
namespace {

/// Functions of the driver.
template <class F>
F* function(const char* name) {
  return reinterpret_cast<F*>(driver_function(name));
}

class EventTimer final : public Timer {
 public:
  void begin(const Asked& asked) override {
    if (capturing(asked)) return;
    const CUevent event = take_event();
    record_(event, stream_of(asked));
    begun_.push_back(event);
  }
  void end(const Asked& asked) override {
    if (begun_.empty()) return;
    const CUevent first = begun_.back();
    begun_.pop_back();
    const CUevent last = take_event();
    record_(last, stream_of(asked));
    const std::lock_guard lock{mutex_};
    pairs_.push_back({first, last, asked.query});
    // So many events may be open; the older ones are over by then, or nearly.
    constexpr std::size_t open = 1024;
    while (pairs_.size() > open) harvest();
  }
  void flush() override {
    const std::lock_guard lock{mutex_};
    while (!pairs_.empty()) harvest();
  }

 private:
  struct Pair {
    CUevent first, last;
    std::uint32_t query;
  };
  static CUstream stream_of(const Asked& asked) {
    return static_cast<CUstream>(const_cast<void*>(asked.stream));
  }
  /// What a stream captures runs later, and elsewhere.
  bool capturing(const Asked& asked) const {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return is_capturing_(stream_of(asked), &status) == CUDA_SUCCESS &&
           status != CU_STREAM_CAPTURE_STATUS_NONE;
  }
  CUevent take_event() {
    const std::lock_guard lock{mutex_};
    if (free_.empty()) {
      CUevent made = nullptr;
      create_(&made, CU_EVENT_DEFAULT);
      return made;
    }
    const CUevent event = free_.back();
    free_.pop_back();
    return event;
  }
  void harvest() {
    const Pair pair = pairs_.front();
    pairs_.pop_front();
    float milliseconds = 0;
    synchronize_(pair.last);
    if (elapsed_(&milliseconds, pair.first, pair.last) == CUDA_SUCCESS) {
      // Between the first event and the work lies the gap of kernels that follow one another.
      const Duration passed{std::llround(static_cast<double>(milliseconds) * 1e9)};
      const Duration time = std::max(Duration{}, passed - launch_gap);
      if (pair.query == no_query) {
        had_no_key("a call of several operations", time);
      } else {
        took(pair.query, time);
      }
    }
    free_.push_back(pair.first);
    free_.push_back(pair.last);
  }

  decltype(&cuEventCreate) create_ = function<decltype(cuEventCreate)>("cuEventCreate");
  decltype(&cuEventRecord) record_ = function<decltype(cuEventRecord)>("cuEventRecord");
  decltype(&cuEventSynchronize) synchronize_ =
      function<decltype(cuEventSynchronize)>("cuEventSynchronize");
  decltype(&cuEventElapsedTime) elapsed_ =
      function<decltype(cuEventElapsedTime)>("cuEventElapsedTime_v2");
  decltype(&cuStreamIsCapturing) is_capturing_ =
      function<decltype(cuStreamIsCapturing)>("cuStreamIsCapturing");
  static thread_local std::vector<CUevent> begun_;
  std::mutex mutex_{};
  std::vector<CUevent> free_{};
  std::deque<Pair> pairs_{};
};
thread_local std::vector<CUevent> EventTimer::begun_;

}  // namespace

Timer& event_timer() {
  static auto* const instance = new EventTimer;
  return *instance;
}

}  // namespace phantora::measure
