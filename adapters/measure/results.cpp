#include "measure/results.hpp"

#include "measure/inside.hpp"
#include "measure/libraries.hpp"
#include "measure/timer.hpp"

#include <phantora/kernels/kernel_database.hpp>
#include <phantora/kernels/query_text.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <dlfcn.h>
#include <library_types.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace phantora::measure {
namespace {

using std::chrono::steady_clock;
/// How much may be lost if the program is killed.
constexpr std::chrono::seconds between_writes{2};

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

/// What a library that is loaded says of its version, by "getProperty(MAJOR...)".
std::string version_of(const char* name, const std::vector<const char*>& sonames,
                       const char* function) {
  for (const char* const soname : sonames) {
    void* const handle = dlopen(soname, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) continue;
    auto* const ask = reinterpret_cast<int (*)(libraryPropertyType, int*)>(dlsym(handle, function));
    int parts[3] = {};
    for (const libraryPropertyType part : {MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL})
      if (ask != nullptr) ask(part, &parts[part]);
    std::string text = name;
    for (int i = 0; i < 3; ++i) text += (i == 0 ? " " : ".") + std::to_string(parts[i]);
    return text;
  }
  return {};
}

std::string libraries() {
  std::string text;
  for (const std::string& one :
       {version_of("cublas", {"libcublas.so.13", "libcublas.so.12"}, "cublasGetProperty"),
        version_of("cudnn", {"libcudnn.so.9"}, "cudnnGetProperty")}) {
    if (!one.empty()) text += (text.empty() ? "" : ", ") + one;
  }
  return text;
}

std::string driver_version() {
  std::ifstream file{"/sys/module/nvidia/version"};
  std::string version;
  std::getline(file, version);
  return version;
}

std::string now() {
  const std::time_t seconds = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

[[noreturn]] void end_process(int status) {
  for (;;) syscall(SYS_exit_group, status);
}

class Results {
 public:
  Results() {
    std::random_device random;
    char id[40];
    std::snprintf(id, sizeof id, "%08x%08x-%d", random(), random(), static_cast<int>(process_));
    source_.id = id;
    source_.gpu = machine().gpu_name;
    source_.driver = driver_version();
    source_.libraries = libraries();
    source_.command = variable("PHANTORA_MEASURE_COMMAND");
    source_.date = now();
    // CUDA has been used, so that its own handlers at exit come after this one.
    std::atexit(write_results);
    made() = this;
  }
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;
  ~Results() = default;

  static Results& the_results() {
    static auto* const instance = new Results;
    return *instance;
  }
  /// nullptr where nothing is measured.
  static std::atomic<Results*>& made() {
    static std::atomic<Results*> instance{nullptr};
    return instance;
  }

  void end() {
    // Children that were forked, and those that share its memory until they are another program,
    // measure nothing.
    if (getpid() != process_ || ended_.exchange(true)) return;
    timer().flush();
    const std::lock_guard lock{mutex_};
    write();
    database_.reset();  // the last to close it leaves one file
    tell();
  }

  void took(std::uint32_t query, Duration time) {
    const std::lock_guard lock{mutex_};
    ++unwritten_[query][time];
    ++count_;
    total_ += time;
    if (steady_clock::now() - written_ > between_writes) write();
  }
  void had_no_key(std::string_view what, Duration time) {
    const std::lock_guard lock{mutex_};
    const auto found = keyless_.find(what);
    (found != keyless_.end() ? found->second : keyless_[std::string{what}]) += time;
    without_key_ += time;
  }

 private:
  /// Under the lock.
  void write() {
    written_ = steady_clock::now();
    const std::string path = variable("PHANTORA_MEASURE_FILE");
    if (unwritten_.empty() || path.empty() || getpid() != process_) return;
    std::vector<MeasuredKernel> kernels;
    for (auto& [query, durations] : unwritten_)
      kernels.push_back({query_from_text(keys()->text_of(query)), std::move(durations)});
    try {
      if (!database_) database_.emplace(path, KernelDatabase::Access::write);
      database_->add(source_, kernels);
      for (const auto& [query, durations] : unwritten_) known_.insert(query);
      unwritten_.clear();
    } catch (const std::exception& problem) {
      std::fprintf(stderr, "phantora: %s\n", problem.what());
      end_process(70);  // a run that is not kept is of no use
    }
  }
  void tell() const {
    const double whole = to_seconds(total_ + without_key_);
    std::fprintf(stderr,
                 "phantora: measured %llu kernels, copies and library calls of %zu kinds; %.2f %% "
                 "of the GPU's time has no key\n",
                 static_cast<unsigned long long>(count_), known_.size(),
                 whole > 0 ? 100 * to_seconds(without_key_) / whole : 0.0);
    std::vector<std::pair<std::string, Duration>> longest{keyless_.begin(), keyless_.end()};
    std::sort(longest.begin(), longest.end(),
              [](const auto& a, const auto& b) { return a.second > b.second; });
    constexpr std::size_t most = 5;
    for (std::size_t i = 0; i < std::min(most, longest.size()); ++i)
      std::fprintf(stderr, "phantora:   %.3f ms %.100s\n", 1e3 * to_seconds(longest[i].second),
                   longest[i].first.c_str());
  }

  const pid_t process_ = getpid();
  std::atomic<bool> ended_{false};
  KernelSource source_{};
  std::mutex mutex_{};
  std::map<std::uint32_t, DurationCounts> unwritten_{};
  std::set<std::uint32_t> known_{};
  std::map<std::string, Duration, std::less<>> keyless_{};
  std::uint64_t count_ = 0;
  Duration total_{}, without_key_{};
  steady_clock::time_point written_ = steady_clock::now();
  std::optional<KernelDatabase> database_{};
};

}  // namespace

void expect_results() { Results::the_results(); }
void write_results() {
  if (Results* const results = Results::made()) results->end();
}
void took(std::uint32_t query, Duration time) { Results::the_results().took(query, time); }
void had_no_key(std::string_view what, Duration time) {
  Results::the_results().had_no_key(what, time);
}

}  // namespace phantora::measure

// Programs that end without their handlers at exit (os._exit() of Python) have measured, too.
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" [[noreturn]] __attribute__((visibility("default"))) void _exit(int status) {
  // A signal's handler may end the program amid a call, which holds locks of ours.
  if (phantora::measure::depth == 0) phantora::measure::write_results();
  phantora::measure::end_process(status);
}
extern "C" [[noreturn]] __attribute__((visibility("default"))) void _Exit(int status) noexcept {
  _exit(status);
}
// NOLINTEND(bugprone-reserved-identifier)
