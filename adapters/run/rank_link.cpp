#include "run/rank_link.hpp"

#include "channel/handshake.hpp"

#include <array>
#include <cerrno>
#include <stdexcept>
#include <utility>

#include <sys/socket.h>

namespace phantora::run {
namespace {

using channel::Record;

/// In parts, so that who waits for room goes on before all is handled, but not for each record.
constexpr std::uint64_t freed_at_once = channel::ring_bytes / 16;

/// Bytes of the ring from a position on, which may go round its end.
void copy_from_ring(const channel::RankShared& shared, std::uint64_t position,
                    std::span<std::byte> into) {
  const std::uint64_t offset = position % channel::ring_bytes;
  const std::size_t first = std::min<std::size_t>(into.size(), channel::ring_bytes - offset);
  const auto rest =
      std::copy_n(shared.ring.begin() + static_cast<std::ptrdiff_t>(offset), first, into.begin());
  std::copy_n(shared.ring.begin(), into.size() - first, rest);
}

}  // namespace

void RankLink::close() noexcept {
  socket_ = UniqueFd{};
  shared_.reset();
  outgoing_.clear();
}

std::optional<channel::Hello> RankLink::receive_hello() {
  channel::Hello hello{};
  const ssize_t got = recv(socket_.get(), &hello, sizeof hello, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  if (got == static_cast<ssize_t>(sizeof hello) && hello.layout_version == channel::version) {
    return hello;
  }
  close();
  return std::nullopt;
}

bool RankLink::receive_bells() {
  std::array<char, 4096> bells{};
  while (true) {
    const ssize_t got = recv(socket_.get(), bells.data(), bells.size(), 0);
    if (got == static_cast<ssize_t>(bells.size()) || (got < 0 && errno == EINTR)) continue;
    return got > 0 || (got < 0 && errno == EAGAIN);
  }
}

bool RankLink::welcome(const channel::Welcome& welcome, int host_memory, int run_memory) {
  auto [descriptor, memory] = make_shared_memory<channel::RankShared>("phantora-rank");
  shared_ = std::move(memory);
  return channel::send_welcome(socket_.get(), welcome, {descriptor.get(), host_memory, run_memory});
}

void RankLink::send(const channel::Delivery& delivery, std::span<const std::byte> data) {
  if (!is_open()) return;
  const auto head = std::as_bytes(std::span{&delivery, 1});
  outgoing_.insert(outgoing_.end(), head.begin(), head.end());
  outgoing_.insert(outgoing_.end(), data.begin(), data.end());
  ++deliveries_;
  flush();
}

void RankLink::flush() {
  while (has_outgoing()) {
    const ssize_t sent =
        ::send(socket_.get(), outgoing_.data(), outgoing_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return;  // full, or gone: the socket tells
    outgoing_.erase(outgoing_.begin(), outgoing_.begin() + sent);
  }
}

bool RankLink::receiver_waits() const noexcept {
  return shared_ != nullptr && shared_->handled.value() == static_cast<std::uint32_t>(deliveries_);
}

bool RankLink::has_records() const noexcept {
  // After a store of doorbell_at, in the one order of all: a process that writes either is seen
  // here, or sees that it has to ring.
  return shared_ != nullptr && shared_->written.load() != shared_->consumed.load();
}

void RankLink::take(
    const std::function<void(const Record&, std::span<const std::byte>)>& record_taken) {
  if (!has_records()) return;
  channel::RankShared& shared = *shared_;
  const std::uint64_t written = shared.written.load(std::memory_order_acquire);
  std::uint64_t at = shared.consumed.load(std::memory_order_relaxed);
  if (written - at > channel::ring_bytes) throw std::length_error{"the ring's end"};
  std::vector<std::byte> payload;
  std::uint64_t freed = at;
  const auto free = [&] {
    shared.consumed.store(freed = at, std::memory_order_release);
    shared.space.raise();
  };
  while (at != written) {
    Record record{};
    copy_from_ring(shared, at, std::as_writable_bytes(std::span{&record, 1}));
    const std::uint64_t length =
        sizeof record + (record.payload_bytes + sizeof record - 1) / sizeof record * sizeof record;
    if (length > written - at) throw std::length_error{"a record's length"};
    payload.resize(record.payload_bytes);
    copy_from_ring(shared, at + sizeof record, payload);
    at += length;
    record_taken(record, payload);
    if (at - freed >= freed_at_once) free();
  }
  free();
}

void RankLink::reply(std::uint32_t thread, channel::Reply reply) {
  if (shared_ == nullptr) return;
  channel::ThreadSlot& slot = shared_->threads.at(thread);
  reply.deliveries = deliveries_;
  slot.reply = reply;
  if (slot.state.load() != channel::ThreadState::background) {
    slot.clock_ps.store(std::max(slot.clock_ps.load(), reply.clock_ps));
  }
  slot.replies.raise();
}

}  // namespace phantora::run
