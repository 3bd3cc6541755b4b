#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace phantora::filling {

/// How many flows of a group use another link. More flows than one Crossing can count take several
/// of the same link.
struct Crossing {
  std::uint32_t link : 24;
  std::uint32_t flows : 8;
  static constexpr std::uint32_t full = 255;
};
static_assert(sizeof(Crossing) == 4);

/// How many usual flows of a group use which other links, in order of links: a new key of the group
/// costs one step for each of these.
class Crossings {
 public:
  /// Counts a flow that joins the group of a link.
  /// @param link_at  link_at(i) is the i-th of the flow's `count` links, in order
  /// @param missing  room to work in
  template <class LinkAt>
  void add(std::uint32_t count, LinkAt link_at, std::uint32_t own, std::vector<Crossing>& missing) {
    missing.clear();
    std::size_t at = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t link = link_at(i);
      if (link == own) continue;
      while (at < crossings_.size() &&
             (crossings_[at].link < link ||
              (crossings_[at].link == link && crossings_[at].flows == Crossing::full)))
        ++at;
      if (at < crossings_.size() && crossings_[at].link == link) {
        ++crossings_[at].flows;
      } else {
        missing.push_back({link & 0xFFFFFF, 1});
      }
    }
    insert(missing);
  }

  /// And one that leaves.
  template <class LinkAt>
  void remove(std::uint32_t count, LinkAt link_at, std::uint32_t own) {
    std::size_t at = 0;
    bool any_empty = false;
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t link = link_at(i);
      if (link == own) continue;
      while (crossings_[at].link < link) ++at;
      // NOLINTNEXTLINE(*-narrowing-conversions): it looks at the promotion of a bit field.
      if (--crossings_[at].flows == 0) any_empty = true;
    }
    if (any_empty) drop_empty();
  }

  [[nodiscard]] std::size_t size() const noexcept { return crossings_.size(); }
  [[nodiscard]] const Crossing& operator[](std::size_t i) const noexcept { return crossings_[i]; }
  [[nodiscard]] auto begin() const noexcept { return crossings_.begin(); }
  [[nodiscard]] auto end() const noexcept { return crossings_.end(); }

 private:
  void insert(std::span<const Crossing> missing);
  void drop_empty();

  std::vector<Crossing> crossings_;
};

}  // namespace phantora::filling
