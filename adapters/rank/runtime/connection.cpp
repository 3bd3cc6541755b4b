#include "rank/runtime/connection.hpp"

#include "channel/handshake.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace phantora::rank {
namespace {

[[noreturn]] void give_up(const char* message) {
  std::fprintf(stderr, "phantora: %s\n", message);
  std::_Exit(70);
}

bool read_fully(int socket, std::span<std::byte> into) {
  while (!into.empty()) {
    const ssize_t got = ::read(socket, into.data(), into.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    into = into.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

// The system call: the hooks on the C library's functions take bytes that are sent for a message of
// the program's.
void write_fully(int socket, std::span<const std::byte> bytes) noexcept {
  while (!bytes.empty()) {
    const long sent =
        syscall(SYS_sendto, socket, bytes.data(), bytes.size(), MSG_NOSIGNAL, nullptr, 0);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return;  // the service thread sees the end of the connection
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
}

template <class T>
T* map_shared(int descriptor) {
  void* address = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  close(descriptor);
  if (address == MAP_FAILED) give_up("cannot map the memory shared with the engine");
  return static_cast<T*>(address);
}

}  // namespace

std::unique_ptr<Connection> Connection::open(const std::string& socket_name, int rank, int host) {
  const int engine = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const channel::Address address{socket_name};
  const channel::Hello hello{.pid = getpid(), .rank = rank, .host = host};
  channel::Welcome welcome;
  channel::SharedMemories memories{};
  bool welcomed = connect(engine, address.get(), address.length) == 0;
  if (welcomed) {
    write_fully(engine, std::as_bytes(std::span{&hello, 1}));
    welcomed = channel::receive_welcome(engine, welcome, memories);
  }
  if (!welcomed) give_up("cannot reach the engine of this run; has it ended?");
  if (welcome.layout_version != channel::version) {
    give_up("this program's hooks and the phantora command are of different builds");
  }
  return std::make_unique<Connection>(engine, welcome,
                                      Shared{.rank = map_shared<channel::RankShared>(memories[0]),
                                             .host = map_shared<channel::HostShared>(memories[1]),
                                             .run = map_shared<channel::RunShared>(memories[2])});
}

void Connection::ring() noexcept {
  channel::RunShared& run = this->run();
  run.bells.fetch_add(1);
  // One wakes it.
  if (run.engine_sleeps.load() && run.engine_sleeps.exchange(false)) {
    write_fully(socket_, std::as_bytes(std::span{&channel::doorbell, 1}));
  }
}

void Connection::ring_once(std::int64_t threshold) noexcept {
  if (shared().doorbell_at.compare_exchange_strong(threshold, channel::no_time)) ring();
}

void Connection::claim_slot(HostThread& thread) noexcept {
  channel::RankShared& shared = this->shared();
  const std::lock_guard lock{claiming_};
  const std::uint32_t used = shared.thread_count.load(std::memory_order_relaxed);
  std::uint32_t index = 0;
  while (index < used && shared.threads[index].tid != 0 &&
         shared.threads[index].state.load() != channel::ThreadState::unused) {
    ++index;
  }
  if (index == channel::max_threads) give_up("more than 256 threads of one process use the GPU");
  channel::ThreadSlot& slot = shared.threads[index];
  slot.tid = static_cast<std::int32_t>(syscall(SYS_gettid));
  thread.clock.wait_until(Time{Duration{welcome_.start_ps}});
  slot.clock_ps.store(thread.clock.now().time_since_epoch().count(), std::memory_order_relaxed);
  slot.state.store(channel::ThreadState::running, std::memory_order_release);
  if (index == used) shared.thread_count.store(used + 1, std::memory_order_release);
  thread.slot = &slot;
  thread.index = index;
}

std::uint64_t Connection::wait_for_room(std::uint64_t needed) {
  channel::RankShared& shared = this->shared();
  while (true) {
    const std::uint64_t at = shared.written.load(std::memory_order_relaxed);
    const std::uint32_t seen = shared.space.value();
    consumed_ = shared.consumed.load(std::memory_order_acquire);
    if (at + needed - consumed_ <= channel::ring_bytes) return at;
    appending_.unlock();
    ring();
    shared.space.sleep(seen);
    appending_.lock();
  }
}

void Connection::append(const channel::Record& record, std::span<const std::byte> payload) {
  constexpr std::uint64_t unit = sizeof(channel::Record);
  const std::uint64_t padded = (payload.size() + unit - 1) / unit * unit;
  const std::uint64_t needed = unit + padded;
  if (needed > channel::ring_bytes / 2) give_up("a message to the engine is too large");

  channel::RankShared& shared = this->shared();
  appending_.lock();
  std::uint64_t at = shared.written.load(std::memory_order_relaxed);
  if (at + needed - consumed_ > channel::ring_bytes) [[unlikely]]
    at = wait_for_room(needed);
  // A record lies in one piece: all that is in the ring begins at a multiple of its size.
  static_assert(channel::ring_bytes % unit == 0);
  std::byte* const place = shared.ring.data() + at % channel::ring_bytes;
  std::memcpy(place, &record, unit);
  if (!payload.empty()) {
    const auto bytes = static_cast<std::uint32_t>(payload.size());
    std::memcpy(place + offsetof(channel::Record, payload_bytes), &bytes, sizeof bytes);
    const std::uint64_t offset = (at + unit) % channel::ring_bytes;
    const std::size_t first = std::min<std::size_t>(payload.size(), channel::ring_bytes - offset);
    std::memcpy(shared.ring.data() + offset, payload.data(), first);
    std::memcpy(shared.ring.data(), payload.data() + first, payload.size() - first);
  }
  shared.written.store(at + needed, std::memory_order_release);
  appending_.unlock();
  // A bell at each half of the ring keeps it from filling while nobody blocks.
  constexpr std::uint64_t half = channel::ring_bytes / 2;
  if (at / half != (at + needed) / half) ring();
}

channel::Reply Connection::request(HostThread& thread, channel::Record record,
                                   std::span<const std::byte> payload) {
  if (thread.slot == nullptr) {
    // A background thread may ask too; it has a slot for the answer and no part in time.
    claim_slot(thread);
    if (!thread.issues) thread.slot->state.store(channel::ThreadState::background);
  }
  channel::ThreadSlot& slot = *thread.slot;
  record.thread = thread.index;
  const std::uint32_t before = slot.replies.value();
  append(record, payload);
  ring();
  const auto answered = [&] { return slot.replies.value() != before; };
  const bool looks = run().cores_to_spare.load(std::memory_order_relaxed);
  if (!looks || !lookouts_[thread.index].sees(answered)) {
    while (!answered()) slot.replies.sleep(before);
  }
  const channel::Reply reply = slot.reply;
  channel::Sequence& handled = shared().handled;
  while (true) {
    const std::uint32_t done = handled.value();
    if (static_cast<std::int32_t>(done - static_cast<std::uint32_t>(reply.deliveries)) >= 0) break;
    handled.sleep(done);
  }
  return reply;
}

void Connection::serve_deliveries(const HandleDelivery& handle) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  pthread_setname_np(pthread_self(), "phantora");
  shared().receiver = static_cast<std::int32_t>(syscall(SYS_gettid));
  std::vector<std::byte> data;
  channel::Delivery delivery{};
  while (read_fully(socket_, std::as_writable_bytes(std::span{&delivery, 1}))) {
    data.resize(delivery.bytes);
    if (!read_fully(socket_, data)) break;
    handle(delivery, data);
    shared().handled.raise();
  }
  // The engine ended or died: it has said why, and nothing here can go on.
  std::_Exit(70);
}

}  // namespace phantora::rank
