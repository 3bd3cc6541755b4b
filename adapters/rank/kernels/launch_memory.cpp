#include "rank/kernels/launch_memory.hpp"

#include "rank/kernels/word_hash.hpp"
#include "rank/memory/device_memory.hpp"
#include "rank/memory/host_reach.hpp"

#include <algorithm>

namespace phantora::rank {

std::uint64_t known_content(const std::vector<AddressRange>& ranges) {
  WordHash hash;
  std::vector<std::byte> bytes;
  std::vector<std::uint8_t> mask;
  for (const AddressRange& range : ranges) {
    const std::size_t size = range.last - range.first;
    const auto* const at = reinterpret_cast<void*>(range.first);
    bytes.resize(size);
    mask.resize(size);
    if (!may_know(at, size) || !read_with_mask(bytes.data(), mask.data(), at, size)) continue;
    hash.mix(range.first);
    for (std::size_t i = 0; i < size; ++i)
      hash.mix(mask[i] != 0 ? 1 + static_cast<std::uint64_t>(bytes[i]) : 0);
  }
  return hash.value();
}

LaunchMemory::Piece* LaunchMemory::piece(std::uint64_t address) {
  const auto found = pieces_.find(address / size);
  if (found != pieces_.end()) return &found->second;
  auto* const at = reinterpret_cast<std::byte*>(address);
  if (!allocation_of(at) && !reached_by_device(at)) return nullptr;
  auto* const from = reinterpret_cast<std::byte*>(address / size * size);
  Piece& piece = pieces_[address / size];
  std::array<std::uint8_t, size> mask{};
  read_with_mask(piece.bytes.data(), mask.data(), from, size);
  for (std::size_t i = 0; i < size; ++i) {
    if (mask[i] != 0) piece.known |= 1U << i;
  }
  for (const AddressRange& range : lost_) lose(piece, address / size, range);
  return &piece;
}

void LaunchMemory::lose(Piece& piece, std::uint64_t number, const AddressRange& range) {
  for (std::uint64_t i = 0; i < size; ++i) {
    const std::uint64_t address = number * size + i;
    if (range.first <= address && address < range.last) piece.lost |= 1U << i;
  }
  piece.known &= ~piece.lost;
}

void LaunchMemory::store_somewhere_behind(std::uint64_t address) {
  const auto allocation = allocation_of(reinterpret_cast<std::byte*>(address));
  if (!allocation) return;
  const AddressRange range{address,
                           reinterpret_cast<std::uint64_t>(allocation->base) + allocation->size};
  if (std::ranges::find(lost_, range) != lost_.end()) return;
  lost_.push_back(range);
  for (auto& [number, piece] : pieces_) lose(piece, number, range);
}

void LaunchMemory::store_somewhere_behind_those_in(AddressRange table) {
  const auto allocation = allocation_of(reinterpret_cast<std::byte*>(table.first));
  if (!allocation) return;
  const std::uint64_t end = reinterpret_cast<std::uint64_t>(allocation->base) + allocation->size;
  constexpr std::uint64_t step = sizeof(std::uint64_t);
  std::uint64_t at = (table.first + step - 1) / step * step;
  for (; at + step <= std::min(table.last, end); at += step) {
    std::uint64_t address = 0;
    Known known = 0;
    load(at, step, reinterpret_cast<std::byte*>(&address), known);
    if (known == 0xff) store_somewhere_behind(address);
  }
}

bool LaunchMemory::load(std::uint64_t address, std::size_t bytes, std::byte* to, Known& known) {
  known = 0;
  for (std::size_t done = 0; done < bytes;) {
    Piece* const from = piece(address + done);
    if (from == nullptr) return false;
    const std::size_t at = (address + done) % size;
    const std::size_t part = std::min(size - at, bytes - done);
    std::copy_n(from->bytes.data() + at, part, to + done);
    const std::uint32_t bits = (std::uint32_t{1} << part) - 1;
    known |= (from->known >> at & bits) << done;
    from->read |= bits << at & ~from->written;
    done += part;
  }
  return true;
}

bool LaunchMemory::store(std::uint64_t address, std::size_t bytes, const std::byte* from,
                         Known known) {
  for (std::size_t done = 0; done < bytes;) {
    Piece* const to = piece(address + done);
    if (to == nullptr) return false;
    const std::size_t at = (address + done) % size;
    const std::size_t part = std::min(size - at, bytes - done);
    std::copy_n(from + done, part, to->bytes.data() + at);
    const std::uint32_t bits = (std::uint32_t{1} << part) - 1;
    to->known = ((to->known & ~(bits << at)) | (known >> done & bits) << at) & ~to->lost;
    to->written |= bits << at;
    done += part;
  }
  return true;
}

std::vector<AddressRange> LaunchMemory::ranges(std::uint32_t Piece::*which) const {
  std::vector<AddressRange> parts;
  for (const auto& [number, piece] : pieces_) {
    const std::uint32_t bits = piece.*which;
    for (std::uint64_t i = 0; i < size; ++i) {
      if ((bits >> i & 1) == 0) continue;
      std::uint64_t last = i + 1;
      while (last < size && (bits >> last & 1) != 0) ++last;
      parts.push_back({number * size + i, number * size + last});
      i = last;
    }
  }
  std::ranges::sort(parts, {}, &AddressRange::first);
  std::vector<AddressRange> joined;
  for (const AddressRange& part : parts) {
    if (!joined.empty() && joined.back().last == part.first) {
      joined.back().last = part.last;
    } else {
      joined.push_back(part);
    }
  }
  return joined;
}

bool LaunchMemory::gave() const {
  return std::ranges::any_of(
      pieces_, [](const auto& of) { return (of.second.known & of.second.written) != 0; });
}
std::vector<AddressRange> LaunchMemory::read() const { return ranges(&Piece::read); }
std::vector<AddressRange> LaunchMemory::written() const { return ranges(&Piece::written); }

void LaunchMemory::commit(const Writer& writer) const {
  for (const AddressRange& range : lost_)
    forget(reinterpret_cast<void*>(range.first), range.last - range.first, writer);
  for (const AddressRange& range : written()) {
    const std::size_t bytes = range.last - range.first;
    std::vector<std::byte> source(bytes);
    std::vector<std::uint8_t> mask(bytes);
    for (std::size_t i = 0; i < bytes; ++i) {
      const Piece& piece = pieces_.at((range.first + i) / size);
      const std::size_t at = (range.first + i) % size;
      source[i] = piece.bytes[at];
      mask[i] = piece.known >> at & 1;
    }
    write_known(reinterpret_cast<void*>(range.first), source.data(), mask, bytes, writer);
  }
}

}  // namespace phantora::rank
