// A program that never ends by itself, in the way that its argument names. Rank 0 waits for its GPU
// or for rank 1 where that says something.

#include "connection.hpp"
#include "gpu_calls.hpp"

#include <array>
#include <condition_variable>
#include <csignal>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>

#include <poll.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

/// Two threads that each hold a lock and want the other's.
template <class First, class Second>
void deadlock(First first, Second second) {
  std::promise<void> here, there;
  std::thread other{[&] {
    second();
    there.set_value();
    here.get_future().wait();
    first();
  }};
  first();
  here.set_value();
  there.get_future().wait();
  second();
  other.join();
}

}  // namespace

int main(int argc, char** argv) {
  gpu::expect(argc == 2, "stalling WAY");
  gpu::must("cudaSetDevice", 0);
  const gpu::Work work{1};
  gpu::must("cudaStreamSynchronize", work.stream);

  static std::mutex first, second;
  static std::shared_mutex shared_first, shared_second;
  static std::condition_variable condition;
  static std::array<int, 2> ends{};
  gpu::expect(pipe(ends.data()) == 0, "pipe");
  char byte = 0;
  const std::map<std::string, std::function<void()>> ways = {
      {"mutexes", [] { deadlock([] { first.lock(); }, [] { second.lock(); }); }},
      {"mutex_twice",
       [] {
         first.lock();
         first.lock();
       }},
      {"read_write_locks",
       [] { deadlock([] { shared_first.lock(); }, [] { shared_second.lock(); }); }},
      {"lost_notification",
       [] {
         std::unique_lock lock{first};
         condition.wait(lock, [] { return false; });
       }},
      {"broken_promise",
       [] {
         std::promise<void> never_kept;
         never_kept.get_future().wait();
       }},
      {"semaphore",
       [] {
         sem_t semaphore;
         sem_init(&semaphore, 0, 0);
         sem_wait(&semaphore);
       }},
      {"join_of_a_thread_that_waits",
       [] {
         std::thread other{[] {
           std::unique_lock lock{first};
           condition.wait(lock, [] { return false; });
         }};
         other.join();
       }},
      {"pipe", [&] { gpu::expect(read(ends[0], &byte, 1) == 1, "read"); }},
      {"socket", [] { Connection{}.receive(); }},
      {"poll",
       [&] {
         pollfd one{ends[0], POLLIN, 0};
         poll(&one, 1, -1);
       }},
      {"epoll",
       [&] {
         const int all = epoll_create1(0);
         epoll_event event{};
         event.events = EPOLLIN;
         epoll_ctl(all, EPOLL_CTL_ADD, ends[0], &event);
         epoll_wait(all, &event, 1, -1);
       }},
      {"child",
       [] {
         const pid_t child = fork();
         if (child == 0) {
           pause();
           _exit(0);
         }
         waitpid(child, nullptr, 0);
       }},
      {"pause", [] { pause(); }},
      {"stopped", [] { raise(SIGSTOP); }},
      {"file_lock",
       [] {
         const char* const path = std::getenv("STALLING_FILE");
         gpu::expect(path != nullptr, "STALLING_FILE");
         FILE* const mine = std::fopen(path, "w");
         FILE* const same = std::fopen(path, "w");
         flock(fileno(mine), LOCK_EX);
         flock(fileno(same), LOCK_EX);
       }},
      {"host_function_that_waits",
       [&] {
         gpu::must(
             "cudaLaunchHostFunc", work.stream,
             +[](void*) {
               std::unique_lock lock{first};
               condition.wait(lock, [] { return false; });
             },
             static_cast<void*>(nullptr));
         gpu::must("cudaStreamSynchronize", work.stream);
       }},
      {"host_function_never_launched",
       [] {
         static std::promise<void> never_kept;
         never_kept.get_future().wait();
       }},
  };
  const auto found = ways.find(argv[1]);
  gpu::expect(found != ways.end(), "a way to stall");
  found->second();
  std::puts("went on");
}
