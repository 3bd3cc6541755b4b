#include "rank/memory/deferred.hpp"

#include <algorithm>

namespace phantora::rank {

void read(const DeferredPart& part, std::span<std::byte> bytes) {
  const std::size_t size = part.values->element_bytes();
  const std::size_t first = part.offset / size;
  const std::size_t end = (part.offset + bytes.size() + size - 1) / size;
  if (part.offset % size == 0 && bytes.size() % size == 0)
    return part.values->compute(first, bytes);
  std::vector<std::byte> whole((end - first) * size);
  part.values->compute(first, whole);
  std::copy_n(whole.begin() + static_cast<std::ptrdiff_t>(part.offset - first * size), bytes.size(),
              bytes.begin());
}

Value DeferredReader::load(std::size_t offset, ElementType type) {
  const std::size_t page_bytes = elements_of_page * part_.values->element_bytes();
  const std::size_t at = part_.offset + offset, within = at % page_bytes;
  if (within + size_of(type) > page_bytes) {
    std::byte element[16];
    read({part_.values, at}, std::span{element}.first(size_of(type)));
    return rank::load(type, element);
  }
  return rank::load(type, page(at / page_bytes) + within);
}

const std::byte* DeferredReader::page(std::size_t number) {
  if (latest_page_ != nullptr && latest_ == number) return latest_page_;
  auto found = pages_.find(number);
  if (found == pages_.end()) {
    const std::size_t page_bytes = elements_of_page * part_.values->element_bytes();
    if ((pages_.size() + 1) * page_bytes > most_bytes) pages_.clear();
    found = pages_.emplace(number, std::vector<std::byte>(page_bytes)).first;
    part_.values->compute(number * elements_of_page, found->second);
  }
  latest_ = number;
  latest_page_ = found->second.data();
  return latest_page_;
}

}  // namespace phantora::rank
