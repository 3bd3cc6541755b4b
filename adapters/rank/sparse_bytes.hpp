#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

namespace phantora::rank {

/// The bytes of a huge address range of which few are known.
///
/// Only pages with a known byte are stored; each byte of a page is known or not. Every operation
/// costs O(stored pages in its range), except write and fill, which store what they touch. Not
/// thread-safe.
class SparseBytes {
 public:
  void write(std::uint64_t address, const std::byte* source, std::size_t size);
  void fill(std::uint64_t address, std::byte value, std::size_t size);
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
  [[nodiscard]] const Page* find(std::uint64_t page) const;

  std::map<std::uint64_t, Region> regions_;  // ordered, so that a range visits only what is stored
  std::size_t stored_ = 0;
};

}  // namespace phantora::rank
