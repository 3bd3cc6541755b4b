#pragma once

#include "rank/runtime/mutex.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

namespace phantora::rank {

/// Values by their hash, of which none is ever removed or changed: who looks for one takes no lock,
/// since every launch does. Thread-safe.
template <class T>
class KeptByHash {
 public:
  KeptByHash() = default;
  KeptByHash(const KeptByHash&) = delete;
  KeptByHash& operator=(const KeptByHash&) = delete;

  /// The first that was added with `hash` and of which `is_wanted` is true; nullptr if none is. It
  /// stays where it is.
  template <class Predicate>
  [[nodiscard]] const T* find(std::uint64_t hash, Predicate is_wanted) const {
    const Table* const table = newest_.load(std::memory_order_acquire);
    if (table == nullptr) return nullptr;
    for (std::size_t at = table->place_of(hash);; at = table->next(at)) {
      const Entry* const entry = table->places[at].load(std::memory_order_acquire);
      if (entry == nullptr) return nullptr;
      if (entry->hash == hash && is_wanted(entry->value)) return &entry->value;
    }
  }

  void add(std::uint64_t hash, T value) {
    const std::lock_guard lock{adding_};
    const Entry& added = entries_.emplace_back(Entry{hash, std::move(value)});
    // Half of the places stay empty, so that a look at a neighbour or two finds the end.
    if (tables_.empty() || 2 * entries_.size() > tables_.back().places.size()) {
      // Others may still be looking in the table before: all of them together are as large as this.
      Table& table = tables_.emplace_back(tables_.empty() ? 8 : 2 * tables_.back().places.size());
      for (const Entry& entry : entries_) table.put(entry);
      newest_.store(&table, std::memory_order_release);
    } else {
      tables_.back().put(added);
    }
  }

 private:
  struct Entry {
    std::uint64_t hash;
    T value;
  };
  /// Open addressing, with a power of two of places.
  struct Table {
    explicit Table(std::size_t size) : mask{size - 1}, places(size) {}
    [[nodiscard]] std::size_t place_of(std::uint64_t hash) const { return hash & mask; }
    [[nodiscard]] std::size_t next(std::size_t at) const { return (at + 1) & mask; }
    void put(const Entry& entry) {
      std::size_t at = place_of(entry.hash);
      while (places[at].load(std::memory_order_relaxed) != nullptr) at = next(at);
      places[at].store(&entry, std::memory_order_release);
    }
    std::size_t mask;
    std::vector<std::atomic<const Entry*>> places;
  };

  std::atomic<const Table*> newest_{nullptr};
  Mutex adding_{};
  std::deque<Entry> entries_{};
  std::deque<Table> tables_{};
};

}  // namespace phantora::rank
