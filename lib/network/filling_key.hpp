#pragma once

#include <cstdint>
#include <limits>

namespace phantora {

/// When a flow stopped growing in the progressive filling: the level (bytes per second per share),
/// and what stopped it. Keys order the filling totally, see MaxMin.
struct FillingKey {
  double level = std::numeric_limits<double>::infinity();
  /// Depth << 24 | link; the link is `cap_link` for a flow's own cap.
  std::uint64_t order = std::numeric_limits<std::uint64_t>::max();

  static constexpr std::uint32_t cap_link = (1U << 24) - 1;
  static constexpr std::uint64_t max_depth = 0xFFFF;

  [[nodiscard]] std::uint32_t link() const noexcept {
    return static_cast<std::uint32_t>(order) & cap_link;
  }
  [[nodiscard]] std::uint64_t depth() const noexcept { return order >> 24; }
  [[nodiscard]] bool filling() const noexcept {
    return order == std::numeric_limits<std::uint64_t>::max();
  }
  friend bool operator==(const FillingKey&, const FillingKey&) = default;
  friend bool operator<(const FillingKey& a, const FillingKey& b) noexcept {
    return a.level < b.level || (a.level == b.level && a.order < b.order);
  }
};

}  // namespace phantora
