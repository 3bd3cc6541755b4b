// A thread waits, in the way that the first argument names, for another that polls the GPU or waits
// for it. Each way ends; and where time is handed over, whoever waited has got as far as the GPU.

#include "connection.hpp"
#include "gpu_calls.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <map>
#include <mutex>
#include <semaphore>
#include <shared_mutex>
#include <string>
#include <thread>

#include <poll.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;
using gpu::expect;
using gpu::Work;

constexpr int work_ms = 4;

/// Both ends of a way to wait: `await` returns once `release` has been called.
struct Way {
  std::function<void()> await, release;
  bool hands_over = true;           ///< the waiter's time becomes the releaser's
  std::function<void()> prepare{};  ///< by the releaser, before the waiter waits
};

struct Pipe {
  int from = -1, to = -1;
  Pipe() {
    std::array<int, 2> ends{};
    expect(pipe(ends.data()) == 0, "pipe");
    from = ends[0];
    to = ends[1];
  }
  void send() const { expect(::write(to, "x", 1) == 1, "write"); }
  void receive() const {
    char byte = 0;
    expect(::read(from, &byte, 1) == 1, "read");
  }
};

Way way_of(const std::string& name) {
  static std::mutex mutex;
  static std::timed_mutex timed;
  static std::shared_mutex shared;
  static std::condition_variable condition;
  static std::promise<void> promise;
  static std::atomic<int> word{0};
  static std::once_flag once;
  static std::binary_semaphore semaphore{0};
  static sem_t posix_semaphore;
  static bool ready = false;
  const std::map<std::string, std::function<Way()>> ways = {
      {"mutex",
       [] {
         return Way{[] { mutex.lock(); }, [] { mutex.unlock(); }, true, [] { mutex.lock(); }};
       }},
      {"read_lock",
       [] {
         return Way{[] { shared.lock_shared(); }, [] { shared.unlock(); }, true,
                    [] { shared.lock(); }};
       }},
      {"write_lock",
       [] {
         return Way{[] { shared.lock(); }, [] { shared.unlock_shared(); }, true,
                    [] { shared.lock_shared(); }};
       }},
      {"condition",
       [] {
         return Way{[] {
                      std::unique_lock lock{mutex};
                      condition.wait(lock, [] { return ready; });
                    },
                    [] {
                      const std::lock_guard lock{mutex};
                      ready = true;
                      condition.notify_all();
                    }};
       }},
      {"deadline_never",
       [] {
         return Way{[] {
                      std::unique_lock lock{mutex};
                      condition.wait_until(lock, Clock::time_point::max(), [] { return ready; });
                    },
                    [] {
                      const std::lock_guard lock{mutex};
                      ready = true;
                      condition.notify_all();
                    }};
       }},
      {"future",
       [] {
         return Way{[] { promise.get_future().wait(); }, [] { promise.set_value(); }};
       }},
      {"atomic",
       [] {
         return Way{[] { word.wait(0); },
                    [] {
                      word = 1;
                      word.notify_all();
                    }};
       }},
      {"semaphore",
       [] {
         sem_init(&posix_semaphore, 0, 0);
         return Way{[] { sem_wait(&posix_semaphore); }, [] { sem_post(&posix_semaphore); }};
       }},
      {"std_semaphore",
       [] {
         return Way{[] { semaphore.acquire(); }, [] { semaphore.release(); }};
       }},
      // Between both stand threads of a pool, which use no GPU.
      {"relay",
       [] {
         static std::binary_semaphore done{0};
         sem_init(&posix_semaphore, 0, 0);
         std::thread{[] {
           sem_wait(&posix_semaphore);
           done.release();
         }}.detach();
         return Way{[] { done.acquire(); }, [] { sem_post(&posix_semaphore); }};
       }},
      {"long_relay",
       [] {
         static sem_t last;
         sem_init(&posix_semaphore, 0, 0);
         sem_init(&last, 0, 0);
         std::thread{[] {
           sem_wait(&last);
           const std::lock_guard lock{mutex};
           ready = true;
           condition.notify_all();
         }}.detach();
         std::thread{[] {
           sem_wait(&posix_semaphore);
           sem_post(&last);
         }}.detach();
         return Way{[] {
                      std::unique_lock lock{mutex};
                      condition.wait(lock, [] { return ready; });
                    },
                    [] { sem_post(&posix_semaphore); }};
       }},
      {"spinning_relay",
       [] {
         std::thread{[] {
           while (word == 0) {
           }
           promise.set_value();
         }}.detach();
         return Way{[] { promise.get_future().wait(); }, [] { word = 1; }};
       }},
      // Whoever comes second to call_once waits in the C library, which no hook sees.
      {"once",
       [] {
         static std::binary_semaphore over{0};
         return Way{[] { std::call_once(once, [] {}); }, [] { over.release(); }, false,
                    [] {
                      std::thread{[] { std::call_once(once, [] { over.acquire(); }); }}.detach();
                      std::this_thread::sleep_for(1ms);
                    }};
       }},
      {"spin",
       [] {
         return Way{[] {
                      while (word == 0) {
                      }
                    },
                    [] { word = 1; }, false};
       }},
      {"yield",
       [] {
         return Way{[] {
                      while (word == 0) std::this_thread::yield();
                    },
                    [] { word = 1; }, false};
       }},
      {"pipe",
       [] {
         static Pipe pipe;
         return Way{[] { pipe.receive(); }, [] { pipe.send(); }};
       }},
      {"socket",
       [] {
         static Connection connection;
         return Way{[] { connection.receive(); }, [] { connection.send(); }};
       }},
      {"unix_socket",
       [] {
         static std::array<int, 2> ends{};
         expect(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) == 0, "socketpair");
         return Way{[] {
                      char byte = 0;
                      expect(::read(ends[0], &byte, 1) == 1, "read");
                    },
                    [] { expect(::write(ends[1], "x", 1) == 1, "write"); }};
       }},
      {"accepted_unix_socket",
       [] {
         // Whoever waits is the client, which reads before the server accepts it.
         static const int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
         static const int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
         static sockaddr_un at{};  // of no file: the kernel chooses one
         at.sun_family = AF_UNIX;
         auto* const address = reinterpret_cast<sockaddr*>(&at);
         socklen_t length = sizeof(sa_family_t);
         expect(bind(server, address, length) == 0 && listen(server, 1) == 0, "listen");
         length = sizeof at;
         expect(getsockname(server, address, &length) == 0, "getsockname");
         expect(connect(client, address, length) == 0, "connect");
         return Way{[] {
                      char byte = 0;
                      expect(::recv(client, &byte, 1, 0) == 1, "recv");
                    },
                    [] {
                      const int accepted = accept(server, nullptr, nullptr);
                      expect(::send(accepted, "x", 1, 0) == 1, "send");
                    }};
       }},
      {"event",
       [] {
         static const int counter = eventfd(0, EFD_CLOEXEC);
         return Way{[] {
                      eventfd_t value = 0;
                      expect(eventfd_read(counter, &value) == 0, "eventfd_read");
                    },
                    [] {
                      const eventfd_t one = 1;
                      expect(::write(counter, &one, sizeof one) == sizeof one, "write");
                    }};
       }},
      {"poll",
       [] {
         static Connection connection;
         return Way{[] {
                      pollfd one{connection.from, POLLIN, 0};
                      expect(poll(&one, 1, -1) == 1, "poll");
                      connection.receive();
                    },
                    [] { connection.send(); }};
       }},
      {"epoll",
       [] {
         static Connection connection;
         return Way{[] {
                      const int all = epoll_create1(0);
                      epoll_event event{};
                      event.events = EPOLLIN;
                      epoll_ctl(all, EPOLL_CTL_ADD, connection.from, &event);
                      expect(epoll_wait(all, &event, 1, -1) == 1, "epoll_wait");
                      connection.receive();
                    },
                    [] { connection.send(); }};
       }},
      {"process",
       [] {
         static Pipe pipe;
         static const pid_t child = [] {
           const pid_t forked = fork();
           if (forked == 0) {
             pipe.receive();
             _exit(0);
           }
           return forked;
         }();
         return Way{[] { expect(waitpid(child, nullptr, 0) == child, "waitpid"); },
                    [] { pipe.send(); }, false};
       }},
  };
  const auto found = ways.find(name);
  expect(found != ways.end(), "a way to wait");
  return found->second();
}

/// Whether a thread of this process sleeps, as the kernel tells.
bool asleep(pid_t thread) {
  std::ifstream stat{"/proc/self/task/" + std::to_string(thread) + "/stat"};
  const std::string line{std::istreambuf_iterator<char>{stat}, {}};
  return line.at(line.rfind(')') + 2) == 'S';
}

/// Returns once the thread waits: once a hundred looks in a row (half a millisecond) find it
/// asleep. Whoever is released before it waits is handed no time.
void until_waits(pid_t thread) {
  for (int looks = 0; looks < 100; looks = asleep(thread) ? looks + 1 : 0) {
  }
}

}  // namespace

void call(void* function) { (*static_cast<std::function<void()>*>(function))(); }

/// @param argv  the way; and what the other thread does with the GPU: `poll` it, `synchronize`, or
///   leave the rest to a function that CUDA calls then (`callback`).
int main(int argc, char** argv) {
  expect(argc == 3, "blocking WAY poll|synchronize|callback");
  const std::string does = argv[2];
  gpu::must("cudaSetDevice", 0);
  Way way = way_of(argv[1]);
  const Work work{work_ms};
  const auto start = Clock::now();
  std::atomic<bool> prepared{false}, about_to_wait{false};
  const pid_t waiter = gettid();
  std::thread other{[&] {
    if (way.prepare) way.prepare();
    prepared = true;
    if (way.hands_over) {
      while (!about_to_wait) std::this_thread::yield();
      until_waits(waiter);
    }
    if (does == "callback") {
      return gpu::must("cudaLaunchHostFunc", work.stream, &call, static_cast<void*>(&way.release));
    }
    if (does == "poll") {
      work.poll();
    } else {
      gpu::must("cudaStreamSynchronize", work.stream);
    }
    way.release();
  }};
  while (!prepared) std::this_thread::sleep_for(100us);
  about_to_wait = true;
  way.await();
  const auto waited = Clock::now() - start;
  other.join();
  if (way.hands_over)
    expect(waited >= std::chrono::milliseconds{work_ms - 1}, "time is handed over");
  std::printf("%s ended\n", argv[1]);
}
