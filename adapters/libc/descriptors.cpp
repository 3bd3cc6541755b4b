// Reading, writing and waiting for processes: a thread that has to wait is known to wait, and
// virtual time travels with the data between the processes of a run (design section 4, rule 6).

#include "libc/connections.hpp"
#include "libc/real.hpp"
#include "rank/runtime/helper.hpp"
#include "rank/runtime/host_thread.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

using namespace phantora::libc;
namespace rank = phantora::rank;

namespace {

constinit Real<int (*)(pollfd*, nfds_t, int)> real_poll{"poll"};
constinit Real<ssize_t (*)(int, void*, std::size_t)> real_read{"read"};
constinit Real<ssize_t (*)(int, const iovec*, int)> real_readv{"readv"};
constinit Real<ssize_t (*)(int, void*, std::size_t, int)> real_recv{"recv"};
constinit Real<ssize_t (*)(int, void*, std::size_t, int, sockaddr*, socklen_t*)> real_recvfrom{
    "recvfrom"};
constinit Real<ssize_t (*)(int, msghdr*, int)> real_recvmsg{"recvmsg"};
constinit Real<ssize_t (*)(int, const void*, std::size_t)> real_write{"write"};
constinit Real<ssize_t (*)(int, const iovec*, int)> real_writev{"writev"};
constinit Real<ssize_t (*)(int, const void*, std::size_t, int)> real_send{"send"};
constinit Real<ssize_t (*)(int, const void*, std::size_t, int, const sockaddr*, socklen_t)>
    real_sendto{"sendto"};
constinit Real<ssize_t (*)(int, const msghdr*, int)> real_sendmsg{"sendmsg"};
constinit Real<int (*)(int, sockaddr*, socklen_t*)> real_accept{"accept"};
constinit Real<int (*)(int, sockaddr*, socklen_t*, int)> real_accept4{"accept4"};
constinit Real<pid_t (*)(int*)> real_wait{"wait"};
constinit Real<pid_t (*)(pid_t, int*, int)> real_waitpid{"waitpid"};
constinit Real<pid_t (*)(pid_t, int*, int, rusage*)> real_wait4{"wait4"};
constinit Real<int (*)(idtype_t, id_t, siginfo_t*, int)> real_waitid{"waitid"};
constinit Real<int (*)()> real_sched_yield{"sched_yield"};

/// How a thread gives its core up: in a loop it waits for memory to change, as TensorPipe's reactor
/// does all its life, and MPI's progress and vLLM's workers while they wait for others. It comes to
/// sleep in between, since one that runs all the time cannot be told from one that works, and takes
/// a core from those that do.
class Yields {
 public:
  static Yields& of_this_thread() noexcept {
    static thread_local Yields yields;
    return yields;
  }
  /// Once more. Who has computed since the last time does not wait, nor who has made a call: a loop
  /// that asks about the GPU takes its time by that.
  void add(std::uint32_t calls) noexcept {
    constexpr std::int64_t computed_ns = 100'000;
    timespec cpu{};
    syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &cpu);
    const std::int64_t now_ns = cpu.tv_sec * 1'000'000'000 + cpu.tv_nsec;
    if (now_ns - std::exchange(cpu_ns_, now_ns) > computed_ns) in_a_row_ = 0;
    if (std::exchange(calls_, calls) != calls) in_a_row_ = 0;
    ++in_a_row_;
  }
  [[nodiscard]] bool wait_for_memory() const noexcept { return in_a_row_ > 16; }
  /// For how long to sleep; 0: not yet. What the thread waits for takes a rank milliseconds.
  [[nodiscard]] long rest_ns() const noexcept {
    if (in_a_row_ < 1'000) return 0;
    return in_a_row_ < 2'000 ? 50'000 : 500'000;
  }

 private:
  int in_a_row_ = 0;
  std::int64_t cpu_ns_ = 0;
  std::uint32_t calls_ = 0;
};

bool ready(int descriptor) {
  pollfd one{.fd = descriptor, .events = POLLIN, .revents = 0};
  return real_poll(&one, nfds_t{1}, 0) != 0;
}

/// Runs `wait` as the calling thread's wait.
template <class Wait>
auto waiting(phantora::channel::Wait kind, Wait wait) {
  rank::wait_begins(nullptr, kind);
  const auto result = wait();
  const int saved = errno;
  rank::wait_ends(phantora::channel::no_time);
  errno = saved;
  return result;
}

/// Of a process that helps a rank: it goes on no earlier than what it reads was written.
template <class Receive>
auto helper_receives(int descriptor, Receive receive) {
  const auto result = receive();
  rank::Helper* const helper = rank::helper();
  if (helper == nullptr || result <= 0) return result;
  const int saved = errno;
  if (const auto from = connection(descriptor); from && from->in != 0)
    helper->receives_time(from->in, static_cast<std::size_t>(result));
  errno = saved;
  return result;
}

template <class Send>
auto helper_sends(int descriptor, Send send) {
  rank::Helper* const helper = rank::helper();
  const auto to = helper != nullptr ? connection(descriptor) : std::nullopt;
  if (!to || to->out == 0) return send();
  helper->sends_time(to->out);
  const auto result = send();
  if (result > 0) helper->has_sent(to->out, static_cast<std::size_t>(result));
  return result;
}

template <class Receive>
auto receives(int descriptor, Receive receive) {
  if (!rank::in_virtual_time()) return helper_receives(descriptor, receive);
  auto from = connection(descriptor);
  if (!from) return receive();
  const bool waits = rank::this_thread().issues && !ready(descriptor);
  const auto result = waits ? waiting(phantora::channel::Wait::descriptor, receive) : receive();
  if (result > 0) {
    const int saved = errno;
    // The other end of a Unix socket may have come to be while this one waited.
    if (from->in == 0 && from->out != 0) from = connection(descriptor);
    if (from && from->in != 0) rank::receives_time(from->in, static_cast<std::size_t>(result));
    errno = saved;
  }
  return result;
}

template <class Send>
auto sends(int descriptor, Send send) {
  if (!rank::in_virtual_time()) return helper_sends(descriptor, send);
  const auto to = connection(descriptor);
  if (!to) return send();
  // Before the data, which may be read at once.
  if (to->out != 0) rank::sends_time(to->out);
  const auto result = send();
  rank::has_sent(to->out, static_cast<std::size_t>(std::max<decltype(result)>(result, 0)));
  return result;
}

/// @return what `wait` does: a process that has ended, if it is positive.
template <class Wait>
pid_t waits_for_process(int flags, Wait wait) {
  const bool in_time = rank::in_virtual_time();
  const bool waits = in_time && (flags & WNOHANG) == 0;
  const pid_t ended = waits ? waiting(phantora::channel::Wait::process, wait) : wait();
  if (ended <= 0) return ended;
  if (in_time) {
    rank::receives_time(rank::key_of_process(ended), 0);
  } else if (rank::Helper* const helper = rank::helper()) {
    helper->receives_time(rank::key_of_process(ended), 0);
  }
  return ended;
}

}  // namespace

extern "C" {

ssize_t read(int descriptor, void* into, std::size_t size) {
  return receives(descriptor, [&] { return real_read(descriptor, into, size); });
}
ssize_t readv(int descriptor, const iovec* parts, int count) {
  return receives(descriptor, [&] { return real_readv(descriptor, parts, count); });
}
ssize_t recv(int descriptor, void* into, std::size_t size, int flags) {
  return receives(descriptor, [&] { return real_recv(descriptor, into, size, flags); });
}
ssize_t recvfrom(int descriptor, void* into, std::size_t size, int flags, sockaddr* from,
                 socklen_t* length) {
  return receives(descriptor,
                  [&] { return real_recvfrom(descriptor, into, size, flags, from, length); });
}
ssize_t recvmsg(int descriptor, msghdr* message, int flags) {
  return receives(descriptor, [&] { return real_recvmsg(descriptor, message, flags); });
}

ssize_t write(int descriptor, const void* from, std::size_t size) {
  return sends(descriptor, [&] { return real_write(descriptor, from, size); });
}
ssize_t writev(int descriptor, const iovec* parts, int count) {
  return sends(descriptor, [&] { return real_writev(descriptor, parts, count); });
}
ssize_t send(int descriptor, const void* from, std::size_t size, int flags) {
  return sends(descriptor, [&] { return real_send(descriptor, from, size, flags); });
}
ssize_t sendto(int descriptor, const void* from, std::size_t size, int flags, const sockaddr* to,
               socklen_t length) {
  return sends(descriptor, [&] { return real_sendto(descriptor, from, size, flags, to, length); });
}
ssize_t sendmsg(int descriptor, const msghdr* message, int flags) {
  return sends(descriptor, [&] { return real_sendmsg(descriptor, message, flags); });
}

// The C library's own read and write are system calls of theirs.
int eventfd_read(int descriptor, eventfd_t* value) {
  return read(descriptor, value, sizeof *value) == sizeof *value ? 0 : -1;
}
int eventfd_write(int descriptor, eventfd_t value) {
  return write(descriptor, &value, sizeof value) == sizeof value ? 0 : -1;
}

int accept(int descriptor, sockaddr* from, socklen_t* length) {
  return receives(descriptor, [&] { return real_accept(descriptor, from, length); });
}
int accept4(int descriptor, sockaddr* from, socklen_t* length, int flags) {
  return receives(descriptor, [&] { return real_accept4(descriptor, from, length, flags); });
}

pid_t wait(int* status) {
  return waits_for_process(0, [&] { return real_wait(status); });
}
pid_t waitpid(pid_t process, int* status, int flags) {
  return waits_for_process(flags, [&] { return real_waitpid(process, status, flags); });
}
pid_t wait4(pid_t process, int* status, int flags, rusage* use) {
  return waits_for_process(flags, [&] { return real_wait4(process, status, flags, use); });
}
int waitid(idtype_t kind, id_t id, siginfo_t* found, int flags) {
  int result = 0;
  waits_for_process(flags, [&] {
    result = real_waitid(kind, id, found, flags);
    return result == 0 && found != nullptr ? found->si_pid : 0;
  });
  return result;
}

int sched_yield() {
  const bool in_time = rank::in_virtual_time();
  Yields& yields = Yields::of_this_thread();
  const bool issues = in_time && rank::this_thread().issues;
  yields.add(issues ? rank::this_thread().calls : 0);
  if (issues) {
    if (!yields.wait_for_memory()) rank::goes_on();
    rank::spins(std::chrono::nanoseconds{yields.rest_ns()});
  } else if (in_time && yields.wait_for_memory()) {
    rank::polls_memory();
  }
  const timespec rest{.tv_sec = 0, .tv_nsec = yields.rest_ns()};
  if (rest.tv_nsec == 0) return real_sched_yield();
  syscall(SYS_nanosleep, &rest, nullptr);
  return 0;
}

}  // extern "C"
