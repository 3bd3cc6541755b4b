#pragma once

#include "network/table.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace phantora {

/// The links that wait for evaluation, the least level first; of several with that level, the first
/// in order of links.
///
/// A solve queues and requeues the same few links hundreds of times. So each link is queued at most
/// once and knows its place: a write moves it from there, and no outdated entry is ever found. What
/// waits lies together in a heap of four below each, a few cache lines whatever the number of
/// links: all_reduces_on_8192 of network_bench takes 5 to 10 % less time than with a tournament
/// over all links.
class LinkQueue {
 public:
  static constexpr double not_queued = std::numeric_limits<double>::infinity();

  explicit LinkQueue(std::size_t links) : places_(links, nowhere) {}

  [[nodiscard]] double level(std::uint32_t link) const noexcept {
    return heap_[places_[link]].level;
  }
  [[nodiscard]] bool queued(std::uint32_t link) const noexcept { return places_[link] != nowhere; }
  [[nodiscard]] bool empty() const noexcept { return heap_.size() == first; }
  /// The least level; not_queued when empty.
  [[nodiscard]] double least() const noexcept { return empty() ? not_queued : heap_[first].level; }

  /// Whether a link waits that comes before another of this level.
  [[nodiscard]] bool any_before(double level, std::uint32_t link) const noexcept {
    return !empty() && heap_[first] < Waiting{level, link};
  }

  /// Gives a link a level, queued or not, other than not_queued.
  void set(std::uint32_t link, double level) {
    std::uint32_t place = places_[link];
    if (place == nowhere) {
      place = static_cast<std::uint32_t>(heap_.size());
      heap_.push_back({});
    }
    const Waiting waiting{level, link};
    if (!rise(place, waiting)) sink(place, waiting);
  }

  /// Takes out the first link; not when empty.
  std::uint32_t pop() noexcept {
    const std::uint32_t link = heap_[first].link;
    places_[link] = nowhere;
    const Waiting last = heap_.back();
    heap_.pop_back();
    if (!empty()) sink(first, last);
    return link;
  }

  [[nodiscard]] std::size_t size() const noexcept { return heap_.size() - first; }

  /// Takes out all links for which gone(link).
  template <class Gone>
  void drop_if(Gone gone) {
    std::uint32_t kept = first;
    for (std::uint32_t place = first; place < heap_.size(); ++place) {
      const Waiting waiting = heap_[place];
      places_[waiting.link] = nowhere;
      if (!gone(waiting.link)) put(kept++, waiting);
    }
    heap_.resize(kept);
    for (std::uint32_t place = kept; place-- > first;) sink(place, Waiting{heap_[place]});
  }

  void clear() noexcept {
    while (!empty()) {
      places_[heap_.back().link] = nowhere;
      heap_.pop_back();
    }
  }

 private:
  struct Waiting {
    double level = not_queued;
    std::uint32_t link = 0;
    [[nodiscard]] bool operator<(const Waiting& other) const noexcept {
      return level < other.level || (level == other.level && link < other.link);
    }
  };
  // The place of links that are not queued, at which the heap says so; below it nothing is kept.
  static constexpr std::uint32_t nowhere = 0, first = 1;

  void put(std::uint32_t place, const Waiting& waiting) noexcept {
    heap_[place] = waiting;
    places_[waiting.link] = place;
  }
  /// Puts a link at this place or further up. @return whether it is further up
  bool rise(std::uint32_t place, const Waiting& waiting) noexcept {
    const std::uint32_t from = place;
    for (std::uint32_t above; place > first; place = above) {
      above = (place + 2) / 4;
      if (!(waiting < heap_[above])) break;
      put(place, heap_[above]);
    }
    put(place, waiting);
    return place != from;
  }
  /// Puts a link at this place or further down.
  void sink(std::uint32_t place, const Waiting& waiting) noexcept {
    const auto end = static_cast<std::uint32_t>(heap_.size());
    for (std::uint32_t below; (below = 4 * place - 2) < end; place = below) {
      const std::uint32_t last = std::min(below + 4, end);
      for (std::uint32_t i = below + 1; i < last; ++i)
        if (heap_[i] < heap_[below]) below = i;
      if (!(heap_[below] < waiting)) break;
      put(place, heap_[below]);
    }
    put(place, waiting);
  }

  std::vector<Waiting> heap_ = std::vector<Waiting>(first);
  Table<std::uint32_t> places_;  ///< of each link
};

}  // namespace phantora
