#include "rank/memory/last_writer.hpp"

#include <mutex>

namespace phantora::rank {

namespace {

std::uint64_t number(const void* address) { return reinterpret_cast<std::uint64_t>(address); }

}  // namespace

void WriterLog::append(const Entry& entry) {
  const std::lock_guard lock{lock_};
  ring_[count_++ % kept] = entry;
}

void WriterLog::note(const void* address, std::size_t bytes, const Writer& writer) {
  append({number(address), number(address) + bytes, 0, writer});
  if (writer.chosen) any_chosen_.store(true, std::memory_order_relaxed);
}

bool WriterLog::is_chosen(const void* address) {
  return any_chosen_.load(std::memory_order_relaxed) && last(address).chosen;
}

void WriterLog::note_copy(const void* destination, const void* source, std::size_t bytes) {
  append({number(destination), number(destination) + bytes, number(source), {}});
}

Writer WriterLog::last(const void* address) {
  const std::lock_guard lock{lock_};
  std::uint64_t at = number(address);
  const std::uint64_t oldest = count_ > kept ? count_ - kept : 0;
  for (std::uint64_t i = count_; i-- > oldest;) {
    const Entry& entry = ring_[i % kept];
    if (at < entry.begin || at >= entry.end) continue;
    if (entry.source == 0) return entry.writer;
    at = entry.source + (at - entry.begin);
  }
  return {};
}

}  // namespace phantora::rank
