#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include <sys/mman.h>

namespace phantora {

/// Memory in large pages, where there is that much.
///
/// An event looks at some hundred links of a hundred thousand. With pages of 4 KiB nearly each look
/// at a large table also misses the cache of page addresses.
template <class Item>
struct LargePages {
  using value_type = Item;
  LargePages() = default;
  template <class Other>
  LargePages(const LargePages<Other>&) noexcept {}

  [[nodiscard]] Item* allocate(std::size_t count) {
    const std::size_t bytes = count * sizeof(Item);
    if (bytes < page) return std::allocator<Item>{}.allocate(count);
    const std::size_t whole = (bytes + page - 1) / page * page;
    void* memory = std::aligned_alloc(page, whole);
    if (memory == nullptr) throw std::bad_alloc{};
    // Where the kernel has no large pages to give, the memory has ordinary ones.
    (void)madvise(memory, whole, MADV_HUGEPAGE);
    return static_cast<Item*>(memory);
  }
  void deallocate(Item* items, std::size_t count) noexcept {
    if (count * sizeof(Item) < page) return std::allocator<Item>{}.deallocate(items, count);
    std::free(items);
  }
  friend bool operator==(const LargePages&, const LargePages&) noexcept { return true; }

 private:
  static constexpr std::size_t page = std::size_t{2} << 20;
};

/// A vector whose items are looked at in no order.
template <class Item>
using Table = std::vector<Item, LargePages<Item>>;

}  // namespace phantora
