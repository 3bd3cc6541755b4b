#include "rank/memory/sparse_bytes.hpp"

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
std::size_t count_in_range(const std::bitset<n>& bits, std::size_t first, std::size_t count) {
  if (bits.all()) return count;
  std::size_t known = 0;
  for (std::size_t i = first; i < first + count; ++i) known += bits[i] ? std::size_t{1} : 0;
  return known;
}

/// What a repeated range holds at [from, from + size).
void put_repeated(const RepeatedBytes::Word& word, std::uint64_t from, std::byte* destination,
                  std::size_t size) {
  std::size_t done = std::min(size, word.size());
  for (std::size_t i = 0; i < done; ++i) destination[i] = word[(from + i) % word.size()];
  while (done < size) {  // doubles what is there
    const std::size_t more = std::min(done, size - done);
    std::memcpy(destination + done, destination, more);
    done += more;
  }
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

template <class F>
void SparseBytes::visit_pages(std::uint64_t address, std::size_t size, F visit) const {
  if (size == 0) return;
  const std::uint64_t first = address / page_bytes;
  const std::uint64_t last = (address + size - 1) / page_bytes;
  for (auto region = regions_.lower_bound(first / pages_per_region);
       region != regions_.end() && region->first <= last / pages_per_region; ++region) {
    const std::uint64_t base = region->first * pages_per_region;
    const std::uint64_t from = std::max(first, base) - base;
    const std::uint64_t to = std::min(last, base + pages_per_region - 1) - base;
    for (std::uint64_t i = from; i <= to; ++i) {
      if (const auto& page = region->second.pages[i]) visit((base + i) * page_bytes, *page);
    }
  }
}

void SparseBytes::write_bytes(std::uint64_t address, const std::byte* source, std::size_t size) {
  for_each_page(address, size, page_bytes,
                [&](std::uint64_t page, std::size_t offset, std::size_t done, std::size_t count) {
                  Page& to = page_for_writing(page);
                  std::memcpy(to.data.data() + offset, source + done, count);
                  set_range(to.known, offset, count);
                });
}

void SparseBytes::write(std::uint64_t address, const std::byte* source, std::size_t size) {
  if (size == 0) return;
  // A repeated range that is written into gives up the pages concerned, so that many small writes
  // do not cut it to pieces.
  const std::uint64_t begin = address / page_bytes * page_bytes;
  const std::uint64_t end = (address + size + page_bytes - 1) / page_bytes * page_bytes;
  if (repeated_.overlaps(begin, end)) {
    std::vector<std::byte> bytes;
    repeated_.visit(begin, end, [&](std::uint64_t from, std::uint64_t to, const auto& word) {
      bytes.resize(to - from);
      put_repeated(word, from, bytes.data(), bytes.size());
      write_bytes(from, bytes.data(), bytes.size());
    });
    repeated_.erase(begin, end);
  }
  write_bytes(address, source, size);
}

void SparseBytes::fill(std::uint64_t address, std::span<const std::byte> element,
                       std::size_t size) {
  const auto word = RepeatedBytes::word_of(address, element);
  if (size > page_bytes) {
    forget_pages(address, size);
    repeated_.set(address, address + size, word);
    return;
  }
  std::array<std::byte, page_bytes> bytes;
  put_repeated(word, address, bytes.data(), size);
  write(address, bytes.data(), size);
}

bool SparseBytes::read(std::uint64_t address, std::byte* destination, std::size_t size) const {
  std::memset(destination, 0, size);
  std::size_t known = 0;
  visit_pages(address, size, [&](std::uint64_t at, const Page& page) {
    const std::uint64_t begin = std::max(address, at);
    const std::uint64_t end = std::min(address + size, at + page_bytes);
    // Bytes of a stored page that are unknown hold zeros: see forget().
    std::memcpy(destination + (begin - address), page.data.data() + (begin - at), end - begin);
    known += count_in_range(page.known, begin - at, end - begin);
  });
  repeated_.visit(address, address + size,
                  [&](std::uint64_t from, std::uint64_t to, const auto& word) {
                    put_repeated(word, from, destination + (from - address), to - from);
                    known += to - from;
                  });
  return known == size;
}

bool SparseBytes::read_with_mask(std::uint64_t address, std::byte* destination, std::uint8_t* mask,
                                 std::size_t size) const {
  std::memset(destination, 0, size);
  std::memset(mask, 0, size);
  bool any = false;
  visit_pages(address, size, [&](std::uint64_t at, const Page& page) {
    const std::uint64_t begin = std::max(address, at);
    const std::uint64_t end = std::min(address + size, at + page_bytes);
    std::memcpy(destination + (begin - address), page.data.data() + (begin - at), end - begin);
    const std::size_t known = count_in_range(page.known, begin - at, end - begin);
    any = any || known > 0;
    // Most pages are known as a whole, which is faster seen than each byte.
    if (known == end - begin) {
      std::memset(mask + (begin - address), 1, end - begin);
    } else if (known > 0) {
      for (std::uint64_t i = begin; i < end; ++i) mask[i - address] = page.known[i - at] ? 1 : 0;
    }
  });
  repeated_.visit(address, address + size,
                  [&](std::uint64_t from, std::uint64_t to, const auto& word) {
                    put_repeated(word, from, destination + (from - address), to - from);
                    std::memset(mask + (from - address), 1, to - from);
                    any = true;
                  });
  return any;
}

bool SparseBytes::known(std::uint64_t address, std::size_t size) const {
  std::size_t known = 0;
  visit_pages(address, size, [&](std::uint64_t at, const Page& page) {
    const std::uint64_t begin = std::max(address, at);
    const std::uint64_t end = std::min(address + size, at + page_bytes);
    known += count_in_range(page.known, begin - at, end - begin);
  });
  repeated_.visit(address, address + size,
                  [&](std::uint64_t from, std::uint64_t to, const auto&) { known += to - from; });
  return known == size;
}

bool SparseBytes::may_know(std::uint64_t address, std::size_t size) const {
  if (size == 0) return false;
  bool any = repeated_.overlaps(address, address + size);
  visit_pages(address, size, [&](std::uint64_t, const Page&) { any = true; });
  return any;
}

void SparseBytes::forget(std::uint64_t address, std::size_t size) {
  if (size == 0) return;
  repeated_.erase(address, address + size);
  forget_pages(address, size);
}

void SparseBytes::forget_pages(std::uint64_t address, std::size_t size) {
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
  const std::uint64_t distance = destination - source;
  // What a fill has left is mostly copied as a whole, to where it was copied before.
  if (const auto word = source_bytes.repeated_.word_throughout(source, source + size)) {
    forget_pages(destination, size);
    repeated_.set(destination, destination + size, RepeatedBytes::moved(*word, distance));
    return;
  }
  // Known runs are gathered first: the ranges may overlap.
  struct Run {
    std::uint64_t offset;
    std::vector<std::byte> bytes;
  };
  std::vector<Run> runs;
  source_bytes.visit_pages(source, size, [&](std::uint64_t page_address, const Page& page) {
    const std::uint64_t begin = std::max(source, page_address);
    const std::uint64_t end = std::min(source + size, page_address + page_bytes);
    for (std::uint64_t at = begin; at < end;) {
      if (!page.known[at - page_address]) {
        ++at;
        continue;
      }
      std::uint64_t stop = at + 1;
      while (stop < end && page.known[stop - page_address]) ++stop;
      const std::byte* bytes = page.data.data() + (at - page_address);
      runs.push_back({at - source, {bytes, bytes + (stop - at)}});
      at = stop;
    }
  });
  struct Repeated {
    std::uint64_t begin, end;
    RepeatedBytes::Word word;
  };
  std::vector<Repeated> ranges;
  source_bytes.repeated_.visit(
      source, source + size, [&](std::uint64_t from, std::uint64_t to, const auto& word) {
        ranges.push_back({from + distance, to + distance, RepeatedBytes::moved(word, distance)});
      });
  forget(destination, size);
  for (const Repeated& range : ranges) repeated_.set(range.begin, range.end, range.word);
  // Not write(), which would take pages from the ranges just set.
  for (const Run& run : runs) {
    write_bytes(destination + run.offset, run.bytes.data(), run.bytes.size());
  }
}

}  // namespace phantora::rank
