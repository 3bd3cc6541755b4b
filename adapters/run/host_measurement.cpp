#include "run/host_measurement.hpp"

#include "rank/runtime/cpu_clock.hpp"
#include "rank/runtime/host_speed.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <fstream>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include <dlfcn.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

namespace phantora::run {
namespace {

using std::chrono::nanoseconds;

/// Blocks of 16 B to 256 KiB, as a program keeps some hundreds of: one goes, another comes.
class Allocations {
 public:
  void operator()() {
    for (int i = 0; i < 200; ++i) {
      random_ = random_ * 1664525U + 1013904223U;
      // As many small blocks as large ones by the logarithm of their size.
      const std::size_t size = std::size_t{16} << (random_ >> 28U);
      auto& block = blocks_[(random_ >> 8U) % blocks_.size()];
      block = std::make_unique_for_overwrite<unsigned char[]>(std::min(size, largest));
      // What is new is written to at both ends, as headers and last elements are.
      block[0] = static_cast<unsigned char>(i);
      block[std::min(size, largest) - 1] = block[0];
    }
  }

 private:
  static constexpr std::size_t largest = 256 << 10;
  std::uint32_t random_ = 1;
  std::vector<std::unique_ptr<unsigned char[]>> blocks_ =
      std::vector<std::unique_ptr<unsigned char[]>>(400);
};

/// Loads, each of where the next one is, from 64 MiB: more than a core's share of any cache.
class Loads {
 public:
  Loads() {
    constexpr std::size_t lines = (64U << 20U) / sizeof(Line);
    std::vector<std::uint32_t> order(lines);
    std::iota(order.begin(), order.end(), 0U);
    std::shuffle(order.begin(), order.end(), std::mt19937{1});
    lines_.resize(lines);
    for (std::size_t i = 0; i < lines; ++i) lines_[order[i]].next = order[(i + 1) % lines];
  }
  void operator()() {
    for (int i = 0; i < 500; ++i) at_ = lines_[at_].next;
    // As the compiler cannot know that nobody looks.
    [[maybe_unused]] static volatile std::uint32_t result;
    result = at_;
  }

 private:
  struct alignas(64) Line {
    std::uint32_t next = 0;
  };
  std::vector<Line> lines_{};
  std::uint32_t at_ = 0;
};

/// Calls of CUDA's driver on a real GPU.
class DriverCalls {
 public:
  DriverCalls() : driver_{dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)} {
    if (driver_ == nullptr) return;
    int device = 0;
    void* context = nullptr;
    void* module = nullptr;
    ready_ = call("cuInit", 0U) && call("cuDeviceGet", &device, 0) &&
             call("cuDevicePrimaryCtxRetain", &context, device) &&
             call("cuCtxSetCurrent", context) && call("cuModuleLoadData", &module, nothing) &&
             call("cuModuleGetFunction", &kernel_, module, "nothing") &&
             call("cuStreamCreate", &stream_, 1U) && call("cuEventCreate", &event_, 2U) &&
             call("cuMemAlloc_v2", &memory_, std::size_t{4096});
    launch_ = find<Launch>("cuLaunchKernel");
    record_ = find<Record>("cuEventRecord");
    query_ = find<Query>("cuEventQuery");
    wait_ = find<Wait>("cuStreamWaitEvent");
    fill_ = find<Fill>("cuMemsetD8Async");
    ready_ = ready_ && launch_ != nullptr && record_ != nullptr && query_ != nullptr &&
             wait_ != nullptr && fill_ != nullptr;
  }
  [[nodiscard]] bool ready() const { return ready_; }
  /// So few that the GPU's queue does not fill.
  void operator()() {
    for (int i = 0; i < 50; ++i) {
      launch_(kernel_, 1, 1, 1, 1, 1, 1, 0, stream_, nullptr, nullptr);
      fill_(memory_, 0, 1024, stream_);
      record_(event_, stream_);
      wait_(stream_, event_, 0);
      query_(event_);
    }
  }
  /// Between two measurements: what was launched ends.
  void rest() { call("cuStreamSynchronize", stream_); }

 private:
  using Launch = int (*)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                         unsigned, void*, void**, void**);
  using Record = int (*)(void*, void*);
  using Query = int (*)(void*);
  using Wait = int (*)(void*, void*, unsigned);
  using Fill = int (*)(std::uint64_t, unsigned char, std::size_t, void*);
  static constexpr const char* nothing =
      ".version 6.4\n.target sm_75\n.address_size 64\n.visible .entry nothing() { ret; }\n";

  template <class Function>
  Function find(const char* name) {
    return reinterpret_cast<Function>(dlsym(driver_, name));
  }
  template <class... Arguments>
  bool call(const char* name, Arguments... arguments) {
    auto* const function = find<int (*)(Arguments...)>(name);
    return function != nullptr && function(arguments...) == 0;
  }

  void* driver_ = nullptr;  // stays loaded: a driver does not unload
  bool ready_ = false;
  void* kernel_ = nullptr;
  void* stream_ = nullptr;
  void* event_ = nullptr;
  std::uint64_t memory_ = 0;
  Launch launch_ = nullptr;
  Record record_ = nullptr;
  Query query_ = nullptr;
  Wait wait_ = nullptr;
  Fill fill_ = nullptr;
};

/// CPU time of one round of a kind of work, again and again.
class Timed {
 public:
  template <class Work>
  void time(Work&& work, int rounds) {
    const nanoseconds took = rank::cpu_time_of([&] {
      for (int i = 0; i < rounds; ++i) work();
    });
    each_.push_back(static_cast<double>(took.count()) / rounds);
  }
  /// That which a half of the rounds is below: of a machine that neighbours keep busy now and then,
  /// what a program meets as often as not.
  [[nodiscard]] double median() { return quantile(2); }
  /// How much longer that is than what a tenth of the rounds is below.
  [[nodiscard]] double disturbance() { return median() / quantile(10); }

 private:
  /// That which the first of `parts` equal parts of the rounds, shortest first, is below.
  double quantile(std::size_t parts) {
    const auto at = each_.begin() + static_cast<std::ptrdiff_t>(each_.size() / parts);
    std::nth_element(each_.begin(), at, each_.end());
    return *at;
  }

  std::vector<double> each_{};
};

/// The cores that this thread may run on, which it goes through: each has a neighbour of its own on
/// the machine beneath a virtual one. Gives back the thread's choice at the end.
class Cores {
 public:
  Cores() {
    if (sched_getaffinity(0, sizeof allowed_, &allowed_) != 0) return;
    for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &allowed_)) cores_.push_back(core);
    }
  }
  ~Cores() {
    if (!cores_.empty()) sched_setaffinity(0, sizeof allowed_, &allowed_);
  }
  Cores(const Cores&) = delete;
  Cores& operator=(const Cores&) = delete;

  /// Goes to the next one; stays where the system forbids that.
  void next() {
    if (cores_.empty()) return;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cores_[at_++ % cores_.size()], &one);
    sched_setaffinity(0, sizeof one, &one);
  }

 private:
  cpu_set_t allowed_{};
  std::vector<std::size_t> cores_{};
  std::size_t at_ = 0;
};

/// The fields of /proc/cpuinfo that describe the machine.
void describe_processor(HostProfile& host) {
  std::ifstream file{"/proc/cpuinfo"};
  std::set<std::string> sockets;
  std::set<std::pair<std::string, std::string>> cores;
  std::string socket = "0", line;
  unsigned threads = 0;
  while (std::getline(file, line)) {
    const std::size_t colon = line.find(':');
    if (colon == line.npos) continue;
    const std::string value = line.substr(std::min(colon + 2, line.size()));
    if (line.starts_with("processor")) ++threads;
    if (line.starts_with("model name")) host.processor = value;
    if (line.starts_with("physical id")) sockets.insert(socket = value);
    if (line.starts_with("core id")) cores.insert({socket, value});
  }
  host.threads = std::max(1U, threads);
  // Some hypervisors and processors say neither.
  host.sockets = std::max(1U, static_cast<unsigned>(sockets.size()));
  host.cores = cores.empty() ? host.threads : static_cast<unsigned>(cores.size());
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm day{};
  std::array<char, 16> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d", gmtime_r(&now, &day))};
}

}  // namespace

HostProfile measure_host(const std::string& name) {
  HostProfile host{.name = name};
  describe_processor(host);
  Allocations allocations;
  Loads loads;
  DriverCalls calls;
  [[maybe_unused]] static volatile unsigned result;
  const auto interpreter = [] { result = rank::reference_work(); };
  // In turn, so that what disturbs for a while disturbs all of them, and on all cores; long enough
  // to meet what comes and goes.
  constexpr int rounds = 6000, on_a_core = 20;
  Cores cores;
  Timed interpreter_time, allocation_time, memory_time, call_time;
  for (int i = 0; i < rounds; ++i) {
    if (i % on_a_core == 0) cores.next();
    interpreter();  // as it is found while a program runs: in the caches
    interpreter_time.time(interpreter, 5);
    allocations();
    allocation_time.time(allocations, 5);
    memory_time.time(loads, 5);
    if (!calls.ready() || i % 10 != 0) continue;
    calls.rest();
    calls();
    calls.rest();
    call_time.time(calls, 1);
  }
  host.interpreter_ns = interpreter_time.median();
  host.allocation_ns = allocation_time.median();
  host.memory_ns = memory_time.median();
  if (calls.ready()) host.calls_ns = call_time.median();
  host.measured = fmt::format(
      "by phantora host on {}; half of the interpreter-like rounds took {:.2f} times as long as a "
      "tenth or more",
      today(), interpreter_time.disturbance());
  return host;
}

}  // namespace phantora::run
