#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace phantora::channel {

/// Bytes of device memory of which some may be unknown: what small collectives carry.
struct PartlyKnown {
  std::vector<std::byte> bytes;     ///< zeros where unknown
  std::vector<std::uint8_t> known;  ///< 1 or 0 for each byte; empty: all are known

  [[nodiscard]] bool is_known(std::size_t i) const { return known.empty() || known[i] != 0; }
};

/// As it goes over the ring and the socket: bytes of which none is known are not sent.
std::vector<std::byte> packed(const PartlyKnown& data);
PartlyKnown unpacked(std::span<const std::byte> message);

}  // namespace phantora::channel
