#include "rank/code/launch_memory.hpp"

#include "rank/kernels/word_hash.hpp"
#include "rank/memory/device_memory.hpp"
#include "rank/memory/host_reach.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace phantora::rank {

namespace {

/// Memory of the host that a device reached may be gone, and what a pointer of one launch leads to
/// need not be there for the same parameter of another.
bool is_there(const std::byte* at, std::size_t size) {
  return reachable(at, size) || (reached_by_device(at) && reached_by_device(at + size - 1));
}

}  // namespace

bool read_known(std::span<std::byte> bytes, std::span<std::uint8_t> mask, std::uint64_t address) {
  const auto* const at = reinterpret_cast<std::byte*>(address);
  return !bytes.empty() && is_there(at, bytes.size()) && may_know(at, bytes.size()) &&
         read_with_mask(bytes.data(), mask.data(), at, bytes.size());
}

KnownBytes known_bytes(const std::vector<AddressRange>& ranges) {
  WordHash content, places;
  std::vector<std::byte> bytes;
  std::vector<std::uint8_t> mask;
  std::uint64_t number = 0;
  for (const AddressRange& range : ranges) {
    ++number;
    const std::size_t size = range.last - range.first;
    bytes.resize(size);
    mask.resize(size);
    if (!read_known(bytes, mask, range.first)) continue;
    content.mix(number);
    places.mix(number);
    for (std::size_t i = 0; i < size; i += sizeof(std::uint64_t)) {
      const std::size_t part = std::min(sizeof(std::uint64_t), size - i);
      std::uint64_t word = 0, known = 0;
      std::memcpy(&word, bytes.data() + i, part);
      std::memcpy(&known, mask.data() + i, part);
      content.mix(word & known * 0xff, known);
      places.mix(known);
    }
  }
  return {content.value(), places.value()};
}

namespace {

/// Bytes of a mask, each 0 or 1, that become bits at once.
constexpr std::size_t bits_at_once = 8;
/// The multiplication adds byte i, shifted to bit 56 + i: no two meet.
std::uint32_t bits_of(const std::uint8_t* mask) {
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, mask, sizeof bytes);
  return static_cast<std::uint32_t>(bytes * 0x0102040810204080 >> 56);
}

}  // namespace

LaunchMemory::Piece* LaunchMemory::piece(std::uint64_t address) {
  const std::uint64_t number = address / (size * pieces);
  if (last_ == nullptr || last_number_ != number) {
    last_ = &blocks_[number];
    last_number_ = number;
  }
  Piece& piece = last_->all[address / size % pieces];
  return piece.here || fetch(*last_, number, address) ? &piece : nullptr;
}

bool LaunchMemory::fetch(Block& block, std::uint64_t number, std::uint64_t address) {
  const auto allocation = allocation_of(reinterpret_cast<std::byte*>(address));
  if (!allocation && !reached_by_device(reinterpret_cast<std::byte*>(address))) return false;
  // Of the host's memory only what is asked for.
  std::uint64_t first = address / size, last = first + 1;
  if (allocation) {
    const auto base = reinterpret_cast<std::uint64_t>(allocation->base);
    first = std::max(number * pieces, base / size);
    last = std::min((number + 1) * pieces, (base + allocation->size + size - 1) / size);
  }
  std::array<std::byte, size * pieces> bytes{};
  std::array<std::uint8_t, size * pieces> mask{};
  read_with_mask(bytes.data(), mask.data(), reinterpret_cast<std::byte*>(first * size),
                 (last - first) * size);
  for (std::uint64_t n = first; n < last; ++n) {
    Piece& piece = block.all[n % pieces];
    if (piece.here) continue;
    piece.here = true;
    const std::size_t at = (n - first) * size;
    std::copy_n(bytes.data() + at, size, piece.bytes.data());
    for (std::size_t i = 0; i < size; i += bits_at_once)
      piece.known |= bits_of(mask.data() + at + i) << i;
    for (const AddressRange& range : lost_) lose(piece, n, range);
  }
  return true;
}

void LaunchMemory::lose(Piece& piece, std::uint64_t number, const AddressRange& range) {
  if (number * size >= range.last || (number + 1) * size <= range.first) return;
  for (std::uint64_t i = 0; i < size; ++i) {
    const std::uint64_t address = number * size + i;
    if (range.first <= address && address < range.last) piece.lost |= 1U << i;
  }
  piece.known &= ~piece.lost;
}

void LaunchMemory::store_somewhere_behind(std::uint64_t address, std::uint64_t most) {
  auto* const at = reinterpret_cast<std::byte*>(address);
  const auto allocation = allocation_of(at);
  if (!allocation && !reached_by_device(at)) return;
  AddressRange range{
      address,
      allocation ? reinterpret_cast<std::uint64_t>(allocation->base) + allocation->size : address};
  if (most != 0) range.last = std::min(range.last, address + most);
  if (std::ranges::find(lost_, range) != lost_.end()) return;
  lost_.push_back(range);
  for (auto& [number, block] : blocks_) {
    for (std::size_t n = 0; n < pieces; ++n) lose(block.all[n], number * pieces + n, range);
  }
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

template <class F>
bool LaunchMemory::each_piece(std::uint64_t address, std::size_t bytes, F f) {
  for (std::size_t done = 0; done < bytes;) {
    Piece* const piece = this->piece(address + done);
    if (piece == nullptr) return false;
    const std::size_t at = (address + done) % size, part = std::min(size - at, bytes - done);
    f(*piece, done, at, part, ~std::uint32_t{0} >> (size - part) << at);
    done += part;
  }
  return true;
}

bool LaunchMemory::load(std::uint64_t address, std::size_t bytes, std::byte* to, Known& known) {
  known = 0;
  return each_piece(
      address, bytes,
      [&](Piece& piece, std::size_t done, std::size_t at, std::size_t part, std::uint32_t bits) {
        std::copy_n(piece.bytes.data() + at, part, to + done);
        known |= (piece.known & bits) >> at << done;
        piece.read |= bits & ~piece.written;
      });
}

bool LaunchMemory::load_all(std::uint64_t address, std::span<std::byte> to, bool& known) {
  known = true;
  return each_piece(
      address, to.size(),
      [&](Piece& piece, std::size_t done, std::size_t at, std::size_t part, std::uint32_t bits) {
        std::copy_n(piece.bytes.data() + at, part, to.data() + done);
        known = known && (piece.known & bits) == bits;
        piece.read |= bits & ~piece.written;
      });
}

void LaunchMemory::store(Piece& to, std::size_t at, std::span<const std::byte> from,
                         std::uint32_t bits, std::uint32_t known) {
  std::ranges::copy(from, to.bytes.data() + at);
  to.known = ((to.known & ~bits) | known) & ~to.lost;
  if (const std::uint32_t more = bits & ~to.written; more != 0)
    written_bytes_ += static_cast<std::size_t>(std::popcount(more));
  to.written |= bits;
}

bool LaunchMemory::store(std::uint64_t address, std::size_t bytes, const std::byte* from,
                         Known known) {
  return each_piece(
      address, bytes,
      [&](Piece& piece, std::size_t done, std::size_t at, std::size_t part, std::uint32_t bits) {
        store(piece, at, {from + done, part}, bits, known >> done << at & bits);
      });
}

bool LaunchMemory::store_known(std::uint64_t address, std::span<const std::byte> from) {
  return each_piece(
      address, from.size(),
      [&](Piece& piece, std::size_t done, std::size_t at, std::size_t part, std::uint32_t bits) {
        store(piece, at, from.subspan(done, part), bits, bits);
      });
}

std::vector<AddressRange> LaunchMemory::ranges(std::uint32_t Piece::*which) const {
  std::vector<AddressRange> joined;
  for (const auto& [number, block] : blocks_) {
    for (std::size_t n = 0; n < pieces; ++n) {
      const std::uint64_t first = (number * pieces + n) * size;
      for (std::uint32_t bits = block.all[n].*which; bits != 0;) {
        const auto from = static_cast<std::uint32_t>(std::countr_zero(bits));
        const auto count = static_cast<std::uint32_t>(std::countr_one(bits >> from));
        if (!joined.empty() && joined.back().last == first + from) {
          joined.back().last += count;
        } else {
          joined.push_back({first + from, first + from + count});
        }
        bits = from + count == size ? 0 : bits >> (from + count) << (from + count);
      }
    }
  }
  return joined;
}

bool LaunchMemory::gave() const {
  return std::ranges::any_of(blocks_, [](const auto& of) {
    return std::ranges::any_of(of.second.all,
                               [](const Piece& p) { return (p.known & p.written) != 0; });
  });
}
std::vector<AddressRange> LaunchMemory::read() const { return ranges(&Piece::read); }
std::vector<AddressRange> LaunchMemory::written() const { return ranges(&Piece::written); }

std::vector<Given> LaunchMemory::commit(const Writer& writer) const {
  for (const AddressRange& range : lost_)
    forget(reinterpret_cast<void*>(range.first), range.last - range.first, writer);
  std::vector<Given> all;
  auto block = blocks_.begin();
  for (const AddressRange& range : written()) {
    const std::size_t bytes = range.last - range.first;
    Given& given = all.emplace_back(
        Given{range, std::vector<std::byte>(bytes), std::vector<std::uint8_t>(bytes, 1)});
    bool all_known = true;
    for (std::size_t i = 0; i < bytes;) {
      const std::uint64_t number = (range.first + i) / size;
      while (block->first != number / pieces) ++block;
      const Piece& piece = block->second.all[number % pieces];
      const std::size_t at = (range.first + i) % size, part = std::min(size - at, bytes - i);
      std::copy_n(piece.bytes.data() + at, part, given.bytes.data() + i);
      if ((piece.written & ~piece.known) != 0) {
        all_known = false;
        for (std::size_t k = 0; k < part; ++k) given.mask[i + k] = piece.known >> (at + k) & 1;
      }
      i += part;
    }
    if (all_known) given.mask.clear();
    rank::write(given, given.range.first, writer);
  }
  return all;
}

void write(const Given& given, std::uint64_t address, const Writer& writer) {
  write_known(reinterpret_cast<void*>(address), given.bytes.data(), given.mask, given.bytes.size(),
              writer);
}

}  // namespace phantora::rank
