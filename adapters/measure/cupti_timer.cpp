#include "measure/other_clock.hpp"
#include "measure/results.hpp"
#include "measure/timer.hpp"

#include <phantora/kernels/builtin_cost_model.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

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
  decltype(&cuptiActivityDisable) disable;
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
         get(all.enable, "cuptiActivityEnable") && get(all.disable, "cuptiActivityDisable") &&
         get(all.flush, "cuptiActivityFlushAll") && get(all.next, "cuptiActivityGetNextRecord") &&
         get(all.push, "cuptiActivityPushExternalCorrelationId") &&
         get(all.pop, "cuptiActivityPopExternalCorrelationId");
}

constexpr CUpti_ActivityKind kinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                        CUPTI_ACTIVITY_KIND_MEMCPY,
                                        CUPTI_ACTIVITY_KIND_MEMSET,
                                        CUPTI_ACTIVITY_KIND_RUNTIME,
                                        CUPTI_ACTIVITY_KIND_DRIVER,
                                        CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION};
// PyTorch's profiler uses the other two.
constexpr auto external_kind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2;

/// A profiler of the program's own. CUPTI has one client in a process, which is ours: this one gets
/// copies of the records that it asked for.
class OtherClient {
 public:
  void registers(CUpti_BuffersCallbackRequestFunc request,
                 CUpti_BuffersCallbackCompleteFunc complete) {
    const std::lock_guard lock{mutex_};
    if (request != request_) buffer_ = nullptr;  // it is another's
    request_ = request;
    complete_ = complete;
  }
  void enables(CUpti_ActivityKind kind) {
    const std::lock_guard lock{mutex_};
    kinds_.insert(kind);
    since_flush_.insert(kind);
    // Kineto asks for records only if a buffer is with CUPTI.
    have_buffer();
  }
  void disables(CUpti_ActivityKind kind) {
    const std::lock_guard lock{mutex_};
    kinds_.erase(kind);
  }
  /// What was disabled before it asked for all records has been given.
  void flushed() {
    const std::lock_guard lock{mutex_};
    since_flush_ = kinds_;
  }
  /// @param valid  bytes of `buffer` that records fill.
  void give(const Functions& cupti, CUcontext context, std::uint32_t stream, std::uint8_t* buffer,
            std::size_t valid) {
    std::unique_lock lock{mutex_};
    if (complete_ == nullptr || since_flush_.empty()) return;
    struct Filled {
      std::uint8_t* buffer;
      std::size_t size, used;
    };
    std::vector<Filled> filled;
    for (const std::span<const std::uint8_t> record : records_in(cupti, buffer, valid)) {
      if (!wants(record.data())) continue;
      if (filled.empty() || filled.back().used + record.size() > filled.back().size) {
        have_buffer();
        if (buffer_ == nullptr || record.size() > size_) break;
        filled.push_back({std::exchange(buffer_, nullptr), size_, 0});
      }
      Filled& last = filled.back();
      std::memcpy(last.buffer + last.used, record.data(), record.size());
      last.used += record.size();
    }
    have_buffer();
    const CUpti_BuffersCallbackCompleteFunc complete = complete_;
    lock.unlock();
    for (const Filled& one : filled) complete(context, stream, one.buffer, one.size, one.used);
  }

 private:
  static std::vector<std::span<const std::uint8_t>> records_in(const Functions& cupti,
                                                               std::uint8_t* buffer,
                                                               std::size_t valid) {
    std::vector<const std::uint8_t*> begins;
    CUpti_Activity* record = nullptr;
    while (cupti.next(buffer, valid, &record) == CUPTI_SUCCESS)
      begins.push_back(reinterpret_cast<const std::uint8_t*>(record));
    begins.push_back(buffer + valid);
    std::vector<std::span<const std::uint8_t>> records;
    for (std::size_t i = 0; i + 1 < begins.size(); ++i)
      records.emplace_back(begins[i], begins[i + 1]);
    return records;
  }
  /// Under the lock.
  [[nodiscard]] bool wants(const std::uint8_t* at) const {
    const auto* const record = reinterpret_cast<const CUpti_Activity*>(at);
    if (!since_flush_.contains(record->kind)) return false;
    if (record->kind != CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) return true;
    const auto* const call = reinterpret_cast<const CUpti_ActivityExternalCorrelation*>(record);
    return call->externalKind != external_kind;
  }
  /// Under the lock.
  void have_buffer() {
    std::size_t most = 0;
    if (buffer_ == nullptr && request_ != nullptr) request_(&buffer_, &size_, &most);
  }

  std::mutex mutex_;
  std::uint8_t* buffer_ = nullptr;  ///< of the client's, not yet filled
  std::size_t size_ = 0;
  CUpti_BuffersCallbackRequestFunc request_ = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete_ = nullptr;
  std::set<CUpti_ActivityKind> kinds_;
  std::set<CUpti_ActivityKind> since_flush_;  ///< enabled then or later
};

/// The GPU's work for one call.
struct Work {
  std::uint64_t first_start = ~std::uint64_t{0}, last_end = 0;  ///< ns
  std::uint64_t sum = 0;
  std::uint64_t kernels = 0;
};

/// A call's time is that from its first kernel's start to its last one's end, as the estimates of
/// library calls are: with the gaps between them. What is longer than the gap of kernels that
/// follow one another is the host's, which launches them.
Duration time_of(const Work& work, OtherClock& clock) {
  const Duration span =
      std::chrono::nanoseconds{clock.nanoseconds(work.first_start, work.last_end)};
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
    for (const CUpti_ActivityKind kind : kinds) {
      if (cupti_.enable(kind) != CUPTI_SUCCESS) return false;
    }
    started_ = true;
    return true;
  }
  /// Whether this is CUPTI's client.
  [[nodiscard]] bool started() const { return started_; }
  OtherClient& other() { return other_; }
  OtherClock& clock() { return clock_; }

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
  static void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* records) {
    constexpr std::size_t bytes = std::size_t{4} << 20;
    *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(ACTIVITY_RECORD_ALIGNMENT, bytes));
    *size = *buffer != nullptr ? bytes : 0;
    *records = 0;
  }
  static void CUPTIAPI take_buffer(CUcontext context, std::uint32_t stream, std::uint8_t* buffer,
                                   std::size_t, std::size_t valid) {
    CuptiTimer& timer = instance();
    {
      const std::lock_guard lock{timer.mutex_};
      CUpti_Activity* record = nullptr;
      while (timer.cupti_.next(buffer, valid, &record) == CUPTI_SUCCESS) timer.read(record);
      timer.forget_old();
    }
    timer.other_.give(timer.cupti_, context, stream, buffer, valid);
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
    const Work work{start, end, clock_.nanoseconds(start, end), 1};
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
        keyless_["a call of several operations"] += time_of(work->second, clock_);
      } else {
        took(query, time_of(work->second, clock_));
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
  std::atomic<bool> started_{false};
  OtherClient other_;
  OtherClock clock_;
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

// A profiler of the program's own (PyTorch's) would end ours: CUPTI forgets the callbacks of
// before, and what one client disables is disabled for all.
namespace {

using phantora::measure::CuptiTimer;

/// What CUPTI makes of the call where nobody else is its client.
template <class F, class... A>
CUptiResult really(const char* name, F*, A... arguments) {
  void* const handle = phantora::measure::library();
  auto* const function = handle != nullptr ? reinterpret_cast<F*>(dlsym(handle, name)) : nullptr;
  return function != nullptr ? function(arguments...) : CUPTI_ERROR_NOT_INITIALIZED;
}
bool is_ours(CUpti_ActivityKind kind) {
  return std::ranges::find(phantora::measure::kinds, kind) != std::end(phantora::measure::kinds);
}

}  // namespace

#define PHANTORA_CUPTI extern "C" __attribute__((visibility("default"))) CUptiResult CUPTIAPI

PHANTORA_CUPTI cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                              CUpti_BuffersCallbackCompleteFunc complete) {
  CuptiTimer& timer = CuptiTimer::instance();
  timer.other().registers(request, complete);
  if (timer.started()) return CUPTI_SUCCESS;
  return really("cuptiActivityRegisterCallbacks", &cuptiActivityRegisterCallbacks, request,
                complete);
}

PHANTORA_CUPTI cuptiActivityEnable(CUpti_ActivityKind kind) {
  CuptiTimer& timer = CuptiTimer::instance();
  timer.other().enables(kind);
  return really("cuptiActivityEnable", &cuptiActivityEnable, kind);
}

PHANTORA_CUPTI cuptiActivityDisable(CUpti_ActivityKind kind) {
  CuptiTimer& timer = CuptiTimer::instance();
  timer.other().disables(kind);
  if (timer.started() && is_ours(kind)) return CUPTI_SUCCESS;
  return really("cuptiActivityDisable", &cuptiActivityDisable, kind);
}

PHANTORA_CUPTI cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc now) {
  const CUptiResult result = really("cuptiActivityRegisterTimestampCallback",
                                    &cuptiActivityRegisterTimestampCallback, now);
  if (result == CUPTI_SUCCESS) CuptiTimer::instance().clock().use(now);
  return result;
}

PHANTORA_CUPTI cuptiActivityFlushAll(std::uint32_t flag) {
  const CUptiResult result = really("cuptiActivityFlushAll", &cuptiActivityFlushAll, flag);
  CuptiTimer::instance().other().flushed();
  return result;
}

PHANTORA_CUPTI cuptiFinalize() {
  if (CuptiTimer::instance().started()) return CUPTI_SUCCESS;
  return really("cuptiFinalize", &cuptiFinalize);
}
