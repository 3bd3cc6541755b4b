// Two ranks take turns through memory that they share, as TensorPipe's RPC does: the main thread of
// each waits for a condition, and a thread beside it looks at the memory again and again, giving
// its core up in between. A third process, which uses no GPU, looks for ever.

#include "gpu_calls.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using Clock = std::chrono::steady_clock;
using gpu::expect;

constexpr int rounds = 10;
constexpr int work_ms = 2;

/// How many rounds each rank has done; then whether all is over.
using Shared = std::array<std::atomic<int>, 3>;

Shared& shared_at(const char* path) {
  const int file = open(path, O_RDWR);
  expect(file >= 0, "the shared file");
  void* const memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  expect(memory != MAP_FAILED, "mmap");
  return *static_cast<Shared*>(memory);
}

void await(const std::atomic<int>& value, int wanted) {
  while (value.load() < wanted) std::this_thread::yield();
}

/// Looks at what the other rank has done, for a thread that sleeps meanwhile.
class Reactor {
 public:
  explicit Reactor(const std::atomic<int>& value) : value_{value} {}
  ~Reactor() {
    end_ = true;
    thread_.join();
  }
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;
  /// Until it is seen to look all the time.
  void await_its_looks() const {
    while (looks_ < 1'000) std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  void await(int wanted) {
    std::unique_lock lock{mutex_};
    condition_.wait(lock, [&] { return seen_ >= wanted; });
  }

 private:
  void run() {
    while (!end_) {
      if (const int now = value_.load(); now != seen_) {
        const std::lock_guard lock{mutex_};
        seen_ = now;
        condition_.notify_all();
      }
      std::this_thread::yield();
      ++looks_;
    }
  }

  const std::atomic<int>& value_;
  std::mutex mutex_;
  std::condition_variable condition_;
  std::atomic<int> seen_{0}, looks_{0};
  std::atomic<bool> end_{false};
  std::thread thread_{[this] { run(); }};
};

}  // namespace

/// @param argv  the file that holds the shared memory; and `look` for the process that only looks.
int main(int argc, char** argv) {
  expect(argc >= 2, "memory_pollers FILE [look]");
  Shared& shared = shared_at(argv[1]);
  if (argc == 3) {
    await(shared[2], 1);
    return 0;
  }
  const int rank = std::stoi(std::getenv("RANK"));
  pid_t looks = 0;
  if (rank == 0) {
    looks = fork();
    if (looks == 0) execl("/proc/self/exe", argv[0], argv[1], "look", nullptr);
  }
  gpu::must("cudaSetDevice", rank);
  std::atomic<int>& mine = shared[static_cast<std::size_t>(rank)];
  Reactor other{shared[static_cast<std::size_t>(1 - rank)]};
  other.await_its_looks();
  const auto start = Clock::now();
  for (int round = 1; round <= rounds; ++round) {
    if (rank == 1) other.await(round);
    const gpu::Work work{work_ms};
    gpu::must("cudaStreamSynchronize", work.stream);
    mine = round;
    if (rank == 0) other.await(round);
  }
  const auto took = Clock::now() - start;
  // The ranks work in turn, so that all work of both lies between.
  expect(rank == 1 || took >= std::chrono::milliseconds{2 * rounds * work_ms},
         "time is handed over through memory");
  if (rank == 0) {
    shared[2] = 1;
    expect(waitpid(looks, nullptr, 0) == looks, "waitpid");
  }
  std::printf("rank %d ended\n", rank);
}
