#include "rank/sparse_bytes.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

namespace phantora::rank {

namespace {

/// std::bitset has no range operations: whole words would need its layout, so the full page, by far
/// the commonest case, is special.
template <std::size_t n>
void set_range(std::bitset<n>& bits, std::size_t first, std::size_t count) {
  if (count == n) {
    bits.set();
    return;
  }
  std::bitset<n> mask;
  mask.set();
  mask >>= n - count;
  mask <<= first;
  bits |= mask;
}

template <std::size_t n>
void reset_range(std::bitset<n>& bits, std::size_t first, std::size_t count) {
  std::bitset<n> mask;
  mask.set();
  mask >>= n - count;
  mask <<= first;
  bits &= ~mask;
}

template <std::size_t n>
bool all_in_range(const std::bitset<n>& bits, std::size_t first, std::size_t count) {
  if (bits.all()) return true;
  for (std::size_t i = first; i < first + count; ++i) {
    if (!bits[i]) return false;
  }
  return true;
}

/// Calls `visit(page, offset in page, offset in range, count)` for each page of a range.
template <class F>
void for_each_page(std::uint64_t address, std::size_t size, std::size_t page_bytes, F visit) {
  for (std::size_t done = 0; done < size;) {
    const std::uint64_t at = address + done;
    const std::size_t offset = at % page_bytes;
    const std::size_t count = std::min(page_bytes - offset, size - done);
    visit(at / page_bytes, offset, done, count);
    done += count;
  }
}

}  // namespace

SparseBytes::Page& SparseBytes::page_for_writing(std::uint64_t page) {
  Region& region = regions_[page / pages_per_region];
  auto& slot = region.pages[page % pages_per_region];
  if (!slot) {
    slot = std::make_unique<Page>();
    ++region.stored;
    ++stored_;
  }
  return *slot;
}

const SparseBytes::Page* SparseBytes::find(std::uint64_t page) const {
  const auto region = regions_.find(page / pages_per_region);
  return region == regions_.end() ? nullptr : region->second.pages[page % pages_per_region].get();
}

void SparseBytes::write(std::uint64_t address, const std::byte* source, std::size_t size) {
  for_each_page(address, size, page_bytes,
                [&](std::uint64_t page, std::size_t offset, std::size_t done, std::size_t count) {
                  Page& to = page_for_writing(page);
                  std::memcpy(to.data.data() + offset, source + done, count);
                  set_range(to.known, offset, count);
                });
}

void SparseBytes::fill(std::uint64_t address, std::byte value, std::size_t size) {
  for_each_page(address, size, page_bytes,
                [&](std::uint64_t page, std::size_t offset, std::size_t, std::size_t count) {
                  Page& to = page_for_writing(page);
                  std::memset(to.data.data() + offset, std::to_integer<int>(value), count);
                  set_range(to.known, offset, count);
                });
}

bool SparseBytes::read(std::uint64_t address, std::byte* destination, std::size_t size) const {
  bool all = true;
  for_each_page(address, size, page_bytes,
                [&](std::uint64_t page, std::size_t offset, std::size_t done, std::size_t count) {
                  const Page* from = find(page);
                  if (from == nullptr) {
                    std::memset(destination + done, 0, count);
                    all = false;
                  } else {
                    // Bytes of a stored page that are unknown hold zeros: see forget().
                    std::memcpy(destination + done, from->data.data() + offset, count);
                    all = all && all_in_range(from->known, offset, count);
                  }
                });
  return all;
}

bool SparseBytes::read_with_mask(std::uint64_t address, std::byte* destination, std::uint8_t* mask,
                                 std::size_t size) const {
  bool any = false;
  for_each_page(address, size, page_bytes,
                [&](std::uint64_t page, std::size_t offset, std::size_t done, std::size_t count) {
                  const Page* from = find(page);
                  if (from == nullptr) {
                    std::memset(destination + done, 0, count);
                    std::memset(mask + done, 0, count);
                    return;
                  }
                  std::memcpy(destination + done, from->data.data() + offset, count);
                  for (std::size_t i = 0; i < count; ++i) {
                    mask[done + i] = from->known[offset + i] ? 1 : 0;
                    any = any || mask[done + i] != 0;
                  }
                });
  return any;
}

bool SparseBytes::known(std::uint64_t address, std::size_t size) const {
  for (std::size_t done = 0; done < size;) {
    const std::size_t offset = (address + done) % page_bytes;
    const std::size_t count = std::min(page_bytes - offset, size - done);
    const Page* from = find((address + done) / page_bytes);
    if (from == nullptr || !all_in_range(from->known, offset, count)) return false;
    done += count;
  }
  return true;
}

bool SparseBytes::may_know(std::uint64_t address, std::size_t size) const {
  if (size == 0) return false;
  for (std::uint64_t page = address / page_bytes; page <= (address + size - 1) / page_bytes;
       ++page) {
    if (find(page) != nullptr) return true;
  }
  return false;
}

void SparseBytes::forget(std::uint64_t address, std::size_t size) {
  if (size == 0) return;
  const std::uint64_t first = address / page_bytes;
  const std::uint64_t last = (address + size - 1) / page_bytes;
  auto region = regions_.lower_bound(first / pages_per_region);
  while (region != regions_.end() && region->first <= last / pages_per_region) {
    const std::uint64_t base = region->first * pages_per_region;
    const std::uint64_t from = std::max(first, base) - base;
    const std::uint64_t to = std::min(last, base + pages_per_region - 1) - base;
    for (std::uint64_t i = from; i <= to; ++i) {
      auto& page = region->second.pages[i];
      if (!page) continue;
      const std::uint64_t page_address = (base + i) * page_bytes;
      const std::uint64_t begin = std::max(address, page_address);
      const std::uint64_t end = std::min(address + size, page_address + page_bytes);
      reset_range(page->known, begin - page_address, end - begin);
      if (page->known.none()) {
        page.reset();
        --region->second.stored;
        --stored_;
      } else {
        std::memset(page->data.data() + (begin - page_address), 0, end - begin);
      }
    }
    region = region->second.stored == 0 ? regions_.erase(region) : std::next(region);
  }
}

void SparseBytes::copy(std::uint64_t destination, const SparseBytes& source_bytes,
                       std::uint64_t source, std::size_t size) {
  if (size == 0 || (destination == source && &source_bytes == this)) return;
  // Known runs are gathered first: the ranges may overlap.
  struct Run {
    std::uint64_t offset;
    std::vector<std::byte> bytes;
  };
  std::vector<Run> runs;
  const std::uint64_t first = source / page_bytes;
  const std::uint64_t last = (source + size - 1) / page_bytes;
  for (auto region = source_bytes.regions_.lower_bound(first / pages_per_region);
       region != source_bytes.regions_.end() && region->first <= last / pages_per_region;
       ++region) {
    const std::uint64_t base = region->first * pages_per_region;
    const std::uint64_t from = std::max(first, base) - base;
    const std::uint64_t to = std::min(last, base + pages_per_region - 1) - base;
    for (std::uint64_t i = from; i <= to; ++i) {
      const auto& page = region->second.pages[i];
      if (!page) continue;
      const std::uint64_t page_address = (base + i) * page_bytes;
      const std::uint64_t begin = std::max(source, page_address);
      const std::uint64_t end = std::min(source + size, page_address + page_bytes);
      for (std::uint64_t at = begin; at < end;) {
        if (!page->known[at - page_address]) {
          ++at;
          continue;
        }
        std::uint64_t stop = at + 1;
        while (stop < end && page->known[stop - page_address]) ++stop;
        const std::byte* bytes = page->data.data() + (at - page_address);
        runs.push_back({at - source, {bytes, bytes + (stop - at)}});
        at = stop;
      }
    }
  }
  forget(destination, size);
  for (const Run& run : runs) {
    write(destination + run.offset, run.bytes.data(), run.bytes.size());
  }
}

}  // namespace phantora::rank
