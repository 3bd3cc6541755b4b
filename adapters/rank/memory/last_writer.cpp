#include "rank/memory/last_writer.hpp"

#include <algorithm>
#include <mutex>

namespace phantora::rank {

namespace {

std::uint64_t number(const void* address) { return reinterpret_cast<std::uint64_t>(address); }

}  // namespace

const WriterLog::Entry* WriterLog::Ring::latest(std::uint64_t address) const {
  const std::uint64_t oldest = count > kept ? count - kept : 0;
  for (std::uint64_t i = count; i-- > oldest;) {
    const Entry& entry = entries[i % kept];
    if (entry.holds(address) && !entry.writer.perhaps) return &entry;
  }
  return nullptr;
}

void WriterLog::append(Ring& ring, Entry entry) {
  const std::lock_guard lock{lock_};
  entry.order = ++order_;
  ring.entries[ring.count++ % kept] = entry;
}

void WriterLog::note(const void* address, std::size_t bytes, const Writer& writer) {
  append(told_, {number(address), number(address) + bytes, 0, writer});
  if (writer.chosen) any_chosen_.store(true, std::memory_order_relaxed);
}

void WriterLog::note_untold(const void* address, std::size_t bytes, const Writer& writer) {
  append(untold_, {number(address), number(address) + bytes, 0, writer});
}

bool WriterLog::is_chosen(const void* address) {
  return any_chosen_.load(std::memory_order_relaxed) && last(address).chosen;
}

void WriterLog::note_copy(const void* destination, const void* source, std::size_t bytes) {
  append(told_, {number(destination), number(destination) + bytes, number(source), {}});
}

Writer WriterLog::last(const void* address) {
  const std::lock_guard lock{lock_};
  std::uint64_t at = number(address);
  const std::uint64_t oldest = told_.count > kept ? told_.count - kept : 0;
  for (std::uint64_t i = told_.count; i-- > oldest;) {
    const Entry& entry = told_.entries[i % kept];
    if (!entry.holds(at)) continue;
    if (entry.source == 0) return entry.writer;
    at = entry.source + (at - entry.begin);
  }
  return {};
}

std::size_t WriterLog::written_from(const void* address) {
  const std::lock_guard lock{lock_};
  const Entry* const told = told_.latest(number(address));
  const Entry* const untold = untold_.latest(number(address));
  const Entry* const latest =
      told == nullptr || (untold != nullptr && untold->order > told->order) ? untold : told;
  return latest != nullptr && latest->writer.name != nullptr ? latest->end - number(address) : 0;
}

}  // namespace phantora::rank
