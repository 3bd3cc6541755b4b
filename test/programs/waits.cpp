// Waits of the C++ library under virtual time: each returns, and shows that its time has passed.

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

#include <dlfcn.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

void expect(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "failed: %s\n", what);
  std::exit(1);
}

/// `wait` takes at least `length` by the program's clock.
void expect_length(const char* what, Clock::duration length, const std::function<void()>& wait) {
  const auto before = Clock::now();
  wait();
  expect(Clock::now() - before >= length, what);
}

/// Waits so long for a word that nobody changes, as Abseil does.
void wait_in_vain(std::chrono::milliseconds length) {
  static std::uint32_t word = 0;
  const timespec timeout{0, std::chrono::nanoseconds{length}.count()};
  expect(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &timeout, nullptr, 0) == -1 &&
             errno == ETIMEDOUT,
         "FUTEX_WAIT times out");
}

/// The main thread becomes one that uses the GPU.
void use_gpu() {
  void* cudart = dlopen("libcudart.so.13", RTLD_NOW);
  expect(cudart != nullptr, "dlopen of the CUDA runtime");
  auto* set_device = reinterpret_cast<int (*)(int)>(dlsym(cudart, "cudaSetDevice"));
  expect(set_device != nullptr && set_device(0) == 0, "cudaSetDevice");
}

}  // namespace

/// With an argument the process uses no GPU.
int main(int count, char**) {
  if (count == 1) use_gpu();

  expect_length("sleep_for", 50ms, [] { std::this_thread::sleep_for(50ms); });
  expect_length("sleep_until", 50ms, [] { std::this_thread::sleep_until(Clock::now() + 50ms); });

  std::mutex mutex;
  std::condition_variable condition;
  std::unique_lock lock{mutex};
  expect_length("condition_variable::wait_for", 50ms, [&] {
    expect(!condition.wait_for(lock, 50ms, [] { return false; }), "wait_for without a cause");
  });
  expect_length("condition_variable::wait_until the wall clock", 50ms, [&] {
    condition.wait_until(lock, std::chrono::system_clock::now() + 50ms, [] { return false; });
  });
  bool ready = false;
  std::thread notifier{[&] {
    const std::lock_guard inner{mutex};
    ready = true;
    condition.notify_one();
  }};
  condition.wait(lock, [&] { return ready; });
  notifier.join();
  lock.unlock();

  std::promise<int> never_kept;
  auto future = never_kept.get_future();
  expect_length("future::wait_for", 50ms, [&] {
    expect(future.wait_for(50ms) == std::future_status::timeout, "an unkept promise");
  });
  expect_length("future::wait_until", 50ms, [&] {
    expect(future.wait_until(Clock::now() + 50ms) == std::future_status::timeout, "the same");
  });
  auto kept = std::async(std::launch::async, [] { return 42; });
  expect(kept.get() == 42, "a kept promise");

  expect_length("FUTEX_WAIT", 50ms, [] { wait_in_vain(50ms); });
  const auto wait_in_vain_three_times = [] {
    const auto end = Clock::now() + 1200ms;
    while (Clock::now() < end) wait_in_vain(400ms);
  };
  wait_in_vain_three_times();
  // A timer's thread, as gRPC has: while all others wait, real time passes for it.
  std::thread timer{wait_in_vain_three_times};
  timer.join();

  std::timed_mutex timed;
  timed.lock();
  std::thread contender{[&] { expect(!timed.try_lock_for(50ms), "a lock that is held"); }};
  contender.join();

  std::atomic<int> word{0};
  std::thread waker{[&] {
    word = 1;
    word.notify_all();
  }};
  word.wait(0);
  waker.join();
  std::puts("waits return");
}
