#pragma once

#include "rank/memory/repeated_bytes.hpp"

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>

namespace phantora::rank {

/// The bytes of a huge address range of which few are known.
///
/// Only pages with a known byte are stored; each byte of a page is known or not. Long fills are
/// kept as what they repeat. Every operation costs O(stored pages in its range), except write,
/// which stores what it touches. Not thread-safe.
class SparseBytes {
 public:
  void write(std::uint64_t address, const std::byte* source, std::size_t size);
  /// Repeats `element`, of 1, 2, 4, 8 or 16 bytes.
  void fill(std::uint64_t address, std::span<const std::byte> element, std::size_t size);
  /// Unknown bytes come out as zeros. @return whether every byte was known.
  bool read(std::uint64_t address, std::byte* destination, std::size_t size) const;
  /// `mask[i]` becomes 1 where byte i is known, else 0. @return whether any byte was known.
  bool read_with_mask(std::uint64_t address, std::byte* destination, std::uint8_t* mask,
                      std::size_t size) const;
  [[nodiscard]] bool known(std::uint64_t address, std::size_t size) const;
  /// False when no byte of the range is known; may be true then, too, if some are known nearby.
  [[nodiscard]] bool may_know(std::uint64_t address, std::size_t size) const;
  void forget(std::uint64_t address, std::size_t size);
  /// Known bytes stay known, unknown ones become unknown. The ranges may overlap.
  void copy(std::uint64_t destination, const SparseBytes& source_bytes, std::uint64_t source,
            std::size_t size);
  [[nodiscard]] std::size_t stored_pages() const noexcept { return stored_; }
  [[nodiscard]] std::size_t stored_bytes() const noexcept { return stored_ * page_bytes; }

 private:
  static constexpr std::size_t page_bytes = 4096;
  static constexpr std::size_t pages_per_region = 512;  // 2 MiB: the driver's own block
  struct Page {
    std::array<std::byte, page_bytes> data;
    std::bitset<page_bytes> known;
  };
  struct Region {
    std::array<std::unique_ptr<Page>, pages_per_region> pages;
    std::size_t stored = 0;
  };
  Page& page_for_writing(std::uint64_t page);
  void forget_pages(std::uint64_t address, std::size_t size);

  /// Calls visit(page's address, page) for each stored page that [address, address + size) touches.
  template <class F>
  void visit_pages(std::uint64_t address, std::size_t size, F visit) const;
  void write_bytes(std::uint64_t address, const std::byte* source, std::size_t size);

  // A known byte is in a page or in a repeated range, never in both.
  std::map<std::uint64_t, Region> regions_;  // ordered, so that a range visits only what is stored
  RepeatedBytes repeated_;
  std::size_t stored_ = 0;
};

}  // namespace phantora::rank
