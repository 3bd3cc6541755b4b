#pragma once

#include "rank/memory/last_writer.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

/// What the host gets when it reads device memory of unknown content, and what the user is told.
namespace phantora::rank {

/// Replaces the unknown bytes of what was read from `device_source`, which are zeros, as
/// `phantora run --unknown` asks: 0 leaves them; 1 puts the number one; normal puts a standard
/// normal number that depends on the element's address alone, and leaves integers. Elements are of
/// the type that the last writer of the range's first unknown byte left; where that is not known,
/// they stay zeros.
void fill_unknown(std::byte* destination, const void* device_source,
                  std::span<const std::uint8_t> mask);
/// Whether it does anything.
bool fills_unknown();

/// Counts the read, and says on stderr where the program read what ("train.py:33"): the first
/// places only, and by rank 0 only, since ranks are alike.
/// @param unknown  the first unknown byte of the range
void tell_unknown_read(const void* unknown, std::size_t bytes);

/// Counts that `writer`, which was not executed, writes memory of the host, and says so once: the
/// program then reads there what it put there itself.
void tell_host_write(const Writer& writer);

}  // namespace phantora::rank
