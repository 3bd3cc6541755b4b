#pragma once

#include <cstddef>

namespace phantora::rank {

/// Where a member of alignment `unit` comes to lie that follows `offset` bytes.
constexpr std::size_t aligned(std::size_t offset, std::size_t unit) noexcept {
  return (offset + unit - 1) / unit * unit;
}

}  // namespace phantora::rank
