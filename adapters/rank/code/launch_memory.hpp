#pragma once

#include "rank/memory/last_writer.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

/// The memory of GPU and host as the warps of one launch see it.
namespace phantora::rank {

/// A range of addresses.
struct AddressRange {
  std::uint64_t first = 0, last = 0;  ///< the byte after the last
  bool operator==(const AddressRange&) const = default;
};

/// Reads what is known of as much memory as there is room for, with 1 where a byte is known, else
/// 0; false where nothing is known, or no memory is.
bool read_known(std::span<std::byte> bytes, std::span<std::uint8_t> mask, std::uint64_t address);

/// Hashes of what is known in some ranges, wherever these are.
struct KnownBytes {
  std::uint64_t content = 0;  ///< the bytes
  std::uint64_t places = 0;   ///< which bytes, whatever they are
};
KnownBytes known_bytes(const std::vector<AddressRange>& ranges);

/// Why a launch's way through its code cannot be followed: what is not known, the number of its
/// instructions, which hangs on its numbers too, or instructions that nobody has written down.
enum class Obstacle : std::uint8_t { none, data, length, code };

/// What a launch left at a range of addresses.
struct Given {
  AddressRange range{};
  std::vector<std::byte> bytes{};
  std::vector<std::uint8_t> mask{};  ///< 1 where a byte is known, else 0; empty: all are
};
/// Writes that at an address.
void write(const Given& given, std::uint64_t address, const Writer& writer);

/// What a launch reads, with what of it is known, and what it writes, which takes effect at the
/// end: a launch that cannot be executed to its end has then done nothing.
class LaunchMemory {
 public:
  /// Bits of what is known, byte by byte, of an access of up to 16 bytes.
  using Known = std::uint32_t;

  /// False where no memory is that a device reaches.
  bool load(std::uint64_t address, std::size_t bytes, std::byte* to, Known& known);
  bool store(std::uint64_t address, std::size_t bytes, const std::byte* from, Known known);
  /// The same of any number of bytes: what a warp's threads access side by side.
  /// @param known  whether all of them are
  bool load_all(std::uint64_t address, std::span<std::byte> to, bool& known);
  bool store_known(std::uint64_t address, std::span<const std::byte> from);
  /// Something is stored nobody knows where behind `address`: from there to the end of its
  /// allocation nothing is known any more, whatever else the launch stores there. Of the host's
  /// memory what is not known to be written stays as it is, and lost() has no byte of it, but its
  /// address: the user is to be told.
  /// @param most  bytes behind `address` that may be stored; 0: as far as the allocation goes
  void store_somewhere_behind(std::uint64_t address, std::uint64_t most = 0);
  /// The same behind each address of device memory that is known to lie there.
  void store_somewhere_behind_those_in(AddressRange table);

  /// Whether anything known was written.
  [[nodiscard]] bool gave() const;
  /// What was read before it was written, and what was written at known addresses, in order, as few
  /// ranges.
  [[nodiscard]] std::vector<AddressRange> read() const;
  [[nodiscard]] std::vector<AddressRange> written() const;
  [[nodiscard]] std::size_t written_bytes() const noexcept { return written_bytes_; }
  /// Where something was stored behind an address.
  [[nodiscard]] const std::vector<AddressRange>& lost() const noexcept { return lost_; }
  /// @return what was written at known addresses, known or not.
  std::vector<Given> commit(const Writer& writer) const;

 private:
  static constexpr std::size_t size = 32;
  struct Piece {
    std::array<std::byte, size> bytes{};
    std::uint32_t known = 0, read = 0, written = 0;
    std::uint32_t lost = 0;  ///< never known again
    bool here = false;
  };
  /// Neighbours, which most accesses go to one after the other.
  static constexpr std::size_t pieces = 32;
  struct Block {
    std::array<Piece, pieces> all{};
  };
  /// Bytes of a piece, with their bits and those of them that are known.
  void store(Piece& to, std::size_t at, std::span<const std::byte> from, std::uint32_t bits,
             std::uint32_t known);
  static void lose(Piece& piece, std::uint64_t number, const AddressRange& range);
  Piece* piece(std::uint64_t address);
  /// f of each piece of a range, its first byte's place in the range and in the piece, how many
  /// there are, and their bits; false where no memory is.
  template <class F>
  bool each_piece(std::uint64_t address, std::size_t bytes, F f);
  /// Reads the pieces of a block that the allocation has; false where no memory is.
  bool fetch(Block& block, std::uint64_t number, std::uint64_t address);
  [[nodiscard]] std::vector<AddressRange> ranges(std::uint32_t Piece::*which) const;

  std::map<std::uint64_t, Block> blocks_;  ///< by address / (size * pieces)
  Block* last_ = nullptr;
  std::uint64_t last_number_ = 0;
  std::size_t written_bytes_ = 0;  ///< at known addresses, each once
  std::vector<AddressRange> lost_;
};

}  // namespace phantora::rank
