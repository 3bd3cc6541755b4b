#include "measure/results.hpp"
#include "measure/timer.hpp"

#include <phantora/kernels/builtin_cost_model.hpp>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>

#include <cupti.h>
#include <dlfcn.h>

namespace phantora::measure {
namespace {

// Records of older CUPTIs are shorter, but what is read of them lies where it did since CUDA 9.
using Kernel = CUpti_ActivityKernel11;
static_assert(offsetof(Kernel, start) == offsetof(CUpti_ActivityKernel4, start));
static_assert(offsetof(Kernel, end) == offsetof(CUpti_ActivityKernel4, end));
static_assert(offsetof(Kernel, correlationId) == offsetof(CUpti_ActivityKernel4, correlationId));
static_assert(offsetof(Kernel, name) == offsetof(CUpti_ActivityKernel4, name));
using Copy = CUpti_ActivityMemcpy6;
static_assert(offsetof(Copy, start) == offsetof(CUpti_ActivityMemcpy, start));
static_assert(offsetof(Copy, correlationId) == offsetof(CUpti_ActivityMemcpy, correlationId));
using Fill = CUpti_ActivityMemset4;
static_assert(offsetof(Fill, start) == offsetof(CUpti_ActivityMemset, start));
static_assert(offsetof(Fill, correlationId) == offsetof(CUpti_ActivityMemset, correlationId));

struct Functions {
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks;
  decltype(&cuptiActivityEnable) enable;
  decltype(&cuptiActivityFlushAll) flush;
  decltype(&cuptiActivityGetNextRecord) next;
  decltype(&cuptiActivityPushExternalCorrelationId) push;
  decltype(&cuptiActivityPopExternalCorrelationId) pop;
};

/// The library that the program has loaded, or else may load.
void* library() {
  for (const int flags : {RTLD_LAZY | RTLD_NOLOAD, RTLD_LAZY}) {
    for (const char* const name : {"libcupti.so.13", "libcupti.so.12"}) {
      if (void* const handle = dlopen(name, flags)) return handle;
    }
  }
  return nullptr;
}

bool find(Functions& all) {
  void* const handle = library();
  if (handle == nullptr) return false;
  const auto get = [&]<class F>(F& function, const char* name) {
    function = reinterpret_cast<F>(dlsym(handle, name));
    return function != nullptr;
  };
  return get(all.register_callbacks, "cuptiActivityRegisterCallbacks") &&
         get(all.enable, "cuptiActivityEnable") && get(all.flush, "cuptiActivityFlushAll") &&
         get(all.next, "cuptiActivityGetNextRecord") &&
         get(all.push, "cuptiActivityPushExternalCorrelationId") &&
         get(all.pop, "cuptiActivityPopExternalCorrelationId");
}

/// The GPU's work for one call.
struct Work {
  std::uint64_t first_start = ~std::uint64_t{0}, last_end = 0;  ///< ns
  std::uint64_t sum = 0;
  std::uint64_t kernels = 0;
};

/// A call's time is that from its first kernel's start to its last one's end, as the estimates of
/// library calls are: with the gaps between them. What is longer than the gap of kernels that
/// follow one another is the host's, which launches them.
Duration time_of(const Work& work) {
  const Duration span = std::chrono::nanoseconds{work.last_end - work.first_start};
  const Duration sum = std::chrono::nanoseconds{work.sum};
  return std::min(span, sum + static_cast<std::int64_t>(work.kernels - 1) * launch_gap);
}

class CuptiTimer final : public Timer {
 public:
  static CuptiTimer& instance() {
    static auto* const made = new CuptiTimer;
    return *made;
  }

  bool start() {
    if (!find(cupti_)) return false;
    if (cupti_.register_callbacks(give_buffer, take_buffer) != CUPTI_SUCCESS) return false;
    // A call's own record goes before its kernels', and its external id before that.
    for (const CUpti_ActivityKind kind :
         {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
          CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_DRIVER,
          CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION}) {
      if (cupti_.enable(kind) != CUPTI_SUCCESS) return false;
    }
    return true;
  }

  void begin(const Asked& asked) override {
    // The id says the query too: nobody has to look it up.
    const std::uint64_t number = ++last_call_;
    cupti_.push(external_kind, number << 32U | asked.query);
    // CUPTI hands out what is complete when it is asked, and else only when a buffer is full.
    constexpr std::uint64_t calls_between_flushes = 1024;
    if (number % calls_between_flushes == 0) cupti_.flush(0);
  }
  void end(const Asked&) override {
    std::uint64_t id = 0;
    cupti_.pop(external_kind, &id);
  }
  void flush() override {
    cupti_.flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    const std::lock_guard lock{mutex_};
    settle(~std::uint64_t{0});
    for (const auto& [name, time] : keyless_) had_no_key(name, time);
    keyless_.clear();
  }

 private:
  // PyTorch's profiler uses the other two.
  static constexpr auto external_kind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2;

  static void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* records) {
    constexpr std::size_t bytes = std::size_t{4} << 20;
    *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(ACTIVITY_RECORD_ALIGNMENT, bytes));
    *size = *buffer != nullptr ? bytes : 0;
    *records = 0;
  }
  static void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t,
                                   std::size_t valid) {
    CuptiTimer& timer = instance();
    {
      const std::lock_guard lock{timer.mutex_};
      CUpti_Activity* record = nullptr;
      while (timer.cupti_.next(buffer, valid, &record) == CUPTI_SUCCESS) timer.read(record);
      timer.forget_old();
    }
    std::free(buffer);
  }

  void read(const CUpti_Activity* record) {
    switch (record->kind) {
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      case CUPTI_ACTIVITY_KIND_KERNEL: {
        const auto* const kernel = reinterpret_cast<const Kernel*>(record);
        worked(kernel->correlationId, kernel->start, kernel->end, kernel->name);
        return;
      }
      case CUPTI_ACTIVITY_KIND_MEMCPY: {
        const auto* const copy = reinterpret_cast<const Copy*>(record);
        worked(copy->correlationId, copy->start, copy->end, "a copy");
        return;
      }
      case CUPTI_ACTIVITY_KIND_MEMSET: {
        const auto* const fill = reinterpret_cast<const Fill*>(record);
        worked(fill->correlationId, fill->start, fill->end, "a fill");
        return;
      }
      case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
        const auto* const call = reinterpret_cast<const CUpti_ActivityExternalCorrelation*>(record);
        if (call->externalKind != external_kind) return;
        calls_[call->correlationId] = call->externalId;
        const auto early = early_.find(call->correlationId);
        if (early == early_.end()) return;
        join(call->externalId, early->second.work);
        early_.erase(early);
        return;
      }
      default:
        return;
    }
  }

  void worked(std::uint32_t correlation, std::uint64_t start, std::uint64_t end, const char* name) {
    if (end == 0 || end < start) return;  // it was not timed
    const Work work{start, end, end - start, 1};
    const auto call = calls_.find(correlation);
    if (call != calls_.end()) {
      join(call->second, work);
    } else {
      Early& early = early_[correlation];
      if (early.name.empty()) early.name = name != nullptr ? name : "a kernel";
      add(early.work, work);
    }
  }
  static void add(Work& all, const Work& more) {
    all.first_start = std::min(all.first_start, more.first_start);
    all.last_end = std::max(all.last_end, more.last_end);
    all.sum += more.sum;
    all.kernels += more.kernels;
  }
  void join(std::uint64_t id, const Work& work) { add(works_[id], work); }

  /// Calls so far back that all their records have come: what is later is lost with a program that
  /// is killed.
  void forget_old() {
    constexpr std::uint64_t kept = 4096;
    const std::uint64_t last = last_call_;
    if (last > kept) settle((last - kept) << 32U);
  }
  void settle(std::uint64_t before) {
    const auto end = works_.lower_bound(before);
    for (auto work = works_.begin(); work != end; ++work) {
      const auto query = static_cast<std::uint32_t>(work->first);
      if (query == not_the_program) continue;
      if (query == no_query) {
        keyless_["a call of several operations"] += time_of(work->second);
      } else {
        took(query, time_of(work->second));
      }
    }
    works_.erase(works_.begin(), end);
    std::erase_if(calls_, [&](const auto& call) { return call.second < before; });
    if (before != ~std::uint64_t{0}) return;
    for (const auto& [correlation, early] : early_)
      keyless_[early.name] += std::chrono::nanoseconds{early.work.sum};
    early_.clear();
  }

  /// Work whose call is not known (yet).
  struct Early {
    Work work{};
    std::string name{};
  };

  Functions cupti_{};
  std::atomic<std::uint64_t> last_call_{0};
  std::mutex mutex_{};
  std::unordered_map<std::uint32_t, std::uint64_t> calls_{};  ///< external ids, by correlation
  std::unordered_map<std::uint32_t, Early> early_{};          ///< by correlation
  std::map<std::uint64_t, Work> works_{};                     ///< by external id
  std::map<std::string, Duration> keyless_{};
};

}  // namespace

Timer* cupti_timer() {
  static Timer* const started = CuptiTimer::instance().start() ? &CuptiTimer::instance() : nullptr;
  return started;
}

}  // namespace phantora::measure
