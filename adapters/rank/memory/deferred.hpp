#pragma once

#include "rank/kernels/families/element_type.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

namespace phantora::rank {

/// What an operation left in memory, too much to be computed when nobody may read it: a mask of all
/// pairs of positions, of which a program wants the sums of its blocks. Elements are computed when
/// they are asked for, from operands as they were. Thread-safe.
class Deferred {
 public:
  /// @param element_bytes  of each of the elements, which lie side by side
  /// @param depth          operations one after the other, this one among them
  /// @param hash           of all that the elements hang on
  Deferred(std::size_t element_bytes, std::size_t depth, std::uint64_t hash)
      : element_bytes_{element_bytes}, depth_{depth}, hash_{hash} {}
  virtual ~Deferred() = default;
  Deferred(const Deferred&) = delete;
  Deferred& operator=(const Deferred&) = delete;

  /// Computes as many elements, from `first` on, as `elements` has room for.
  virtual void compute(std::size_t first, std::span<std::byte> elements) const = 0;

  [[nodiscard]] std::size_t element_bytes() const noexcept { return element_bytes_; }
  [[nodiscard]] std::size_t depth() const noexcept { return depth_; }
  [[nodiscard]] std::uint64_t hash() const noexcept { return hash_; }

 private:
  std::size_t element_bytes_, depth_;
  std::uint64_t hash_;
};

/// Deferred bytes from `offset` on.
struct DeferredPart {
  std::shared_ptr<const Deferred> values;
  std::uint64_t offset = 0;
};

/// `bytes.size()` of them.
void read(const DeferredPart& part, std::span<std::byte> bytes);

/// Single elements of a part, wherever they are. Not thread-safe.
class DeferredReader {
 public:
  explicit DeferredReader(DeferredPart part) : part_{std::move(part)} {}

  /// The element at `offset` bytes.
  [[nodiscard]] Value load(std::size_t offset, ElementType type);
  [[nodiscard]] const DeferredPart& part() const noexcept { return part_; }

 private:
  const std::byte* page(std::size_t number);

  static constexpr std::size_t elements_of_page = 4096;
  /// All are computed anew when there are more: those of a row of blocks of 128 x 128 pairs, of
  /// 64,000 positions each way and eight bytes each, fit.
  static constexpr std::size_t most_bytes = std::size_t{64} << 20U;
  DeferredPart part_;
  std::unordered_map<std::size_t, std::vector<std::byte>> pages_{};
  std::size_t latest_ = 0;
  const std::byte* latest_page_ = nullptr;
};

}  // namespace phantora::rank
