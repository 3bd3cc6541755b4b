#include "rank/memory/last_writer.hpp"

#include <array>
#include <cstdint>
#include <mutex>

namespace phantora::rank {

namespace {

struct Entry {
  std::uint64_t begin = 0, end = 0;
  std::uint64_t source = 0;  ///< of a copy
  Writer writer;
};

/// The latest writes, in a ring: a training step of a large model launches some thousand kernels,
/// and a loss is read in the step that computes it.
struct Log {
  std::mutex mutex;
  std::array<Entry, 8192> entries;
  std::uint64_t count = 0;
};

Log& log() {
  static Log* const instance = new Log;  // used by destructors at exit
  return *instance;
}

std::uint64_t number(const void* address) { return reinterpret_cast<std::uint64_t>(address); }

void append(const Entry& entry) {
  Log& all = log();
  const std::scoped_lock lock{all.mutex};
  all.entries[all.count++ % all.entries.size()] = entry;
}

}  // namespace

void note_writer(const void* address, std::size_t bytes, const Writer& writer) {
  append({number(address), number(address) + bytes, 0, writer});
}

void note_copy(const void* destination, const void* source, std::size_t bytes) {
  append({number(destination), number(destination) + bytes, number(source), {}});
}

Writer last_writer(const void* address) {
  Log& all = log();
  const std::scoped_lock lock{all.mutex};
  std::uint64_t at = number(address);
  const std::uint64_t size = all.entries.size();
  const std::uint64_t oldest = all.count > size ? all.count - size : 0;
  for (std::uint64_t i = all.count; i-- > oldest;) {
    const Entry& entry = all.entries[i % size];
    if (at < entry.begin || at >= entry.end) continue;
    if (entry.source == 0) return entry.writer;
    at = entry.source + (at - entry.begin);
  }
  return {};
}

}  // namespace phantora::rank
