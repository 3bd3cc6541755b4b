#include "cuda/driver/copy.hpp"

#include "cuda/driver/graph_work.hpp"
#include "cuda/driver/host_memory.hpp"
#include "rank/memory/data_queue.hpp"
#include "rank/memory/device_memory.hpp"
#include "rank/memory/transfers.hpp"
#include "rank/runtime/capture.hpp"

#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

namespace phantora::driver {
namespace {

/// Moves one row's bytes now.
void move(void* destination, const void* source, std::size_t bytes, rank::CopyKind kind) {
  switch (kind) {
    case rank::CopyKind::host_to_host:
      std::memmove(destination, source, bytes);
      break;
    case rank::CopyKind::host_to_device:
      rank::write_from_host(destination, source, bytes);
      break;
    case rank::CopyKind::device_to_host:
      rank::read(destination, source, bytes);
      break;
    case rank::CopyKind::device_to_device:
      rank::copy(destination, source, bytes);
      break;
  }
}

/// Whether the side with this pitch and distance of slices has no gaps.
bool dense(const Copy& c, std::size_t pitch, std::size_t slice) {
  return (c.rows == 1 || pitch == c.width) && (c.slices == 1 || slice == c.width * c.rows);
}

/// Calls `body` with both addresses of each row, and its number.
template <class Body>
void for_rows(const Copy& c, Body&& body) {
  for (std::size_t slice = 0; slice < c.slices; ++slice) {
    for (std::size_t row = 0; row < c.rows; ++row) {
      body(static_cast<std::byte*>(c.destination) + slice * c.destination_slice +
               row * c.destination_pitch,
           static_cast<const std::byte*>(c.source) + slice * c.source_slice + row * c.source_pitch,
           slice * c.rows + row);
    }
  }
}

}  // namespace

rank::CopyKind kind_of(const void* destination, const void* source) {
  const bool to_device = rank::is_device_address(destination);
  const bool from_device = rank::is_device_address(source);
  if (to_device) {
    return from_device ? rank::CopyKind::device_to_device : rank::CopyKind::host_to_device;
  }
  return from_device ? rank::CopyKind::device_to_host : rank::CopyKind::host_to_host;
}

bool reaches(const void* address, std::size_t bytes) {
  if (rank::is_device_address(address)) return rank::reachable(address, bytes);
  const auto* first = static_cast<const std::byte*>(address);
  const auto memory = host_memory_of(address);
  return memory && bytes <= memory->size - static_cast<std::size_t>(first - memory->base);
}

void copy(const Copy& c, bool blocking, rank::Stream& stream) {
  const std::size_t bytes = bytes_of(c);
  if (bytes == 0) return;
  if (rank::capturing(stream)) {
    if (blocking) rank::refuse_if_captured(stream);
    rank::capture(stream, std::make_shared<CopyWork>(c));
    return;
  }
  const rank::CopyKind kind = kind_of(c.destination, c.source);
  const void* host = kind == rank::CopyKind::host_to_device ? c.source : c.destination;
  const bool host_is_pinned =
      kind != rank::CopyKind::device_to_device && (c.of_graph || pinned(host));
  const bool waits = blocking && kind != rank::CopyKind::device_to_device;
  const bool contiguous = dense(c, c.destination_pitch, c.destination_slice) &&
                          dense(c, c.source_pitch, c.source_slice);
  if (contiguous && !(c.of_graph && kind == rank::CopyKind::host_to_host)) {
    rank::copy_async(c.destination, c.source, bytes, kind, host_is_pinned, waits, stream);
    return;
  }
  rank::launch_transfer(stream, rank::transfer_of(kind, host_is_pinned, c.destination, c.source),
                        bytes);
  // A pageable source may change as soon as the call returns, so its rows are taken now.
  std::vector<std::byte> staged;
  if (kind == rank::CopyKind::host_to_device && !host_is_pinned && bytes <= rank::small_bytes) {
    staged.resize(bytes);
    for_rows(c, [&](std::byte*, const std::byte* source, std::size_t row) {
      std::memcpy(staged.data() + row * c.width, source, c.width);
    });
  }
  rank::data::enqueue(stream, [c, kind, staged = std::move(staged)] {
    for_rows(c, [&](std::byte* destination, const std::byte* source, std::size_t row) {
      move(destination, staged.empty() ? source : staged.data() + row * c.width, c.width, kind);
    });
  });
  const bool pageable_read = kind == rank::CopyKind::device_to_host && !host_is_pinned;
  if (waits || pageable_read) rank::synchronize(stream);
}

void fill(void* destination, std::size_t pitch, unsigned value, std::size_t unit, std::size_t width,
          std::size_t rows, rank::Stream& stream) {
  if (width == 0 || rows == 0) return;
  if (rank::capturing(stream)) {
    rank::capture(stream,
                  std::make_shared<FillWork>(Fill{destination, pitch, value, unit, width, rows}));
    return;
  }
  const bool one_row = rows == 1 || pitch == width;
  if (unit == 1 && one_row) {
    rank::fill_async(destination, static_cast<int>(value), width * rows, stream);
    return;
  }
  rank::launch_transfer(stream, rank::Transfer::memset, width * rows);
  rank::data::enqueue(stream, [=] {
    std::array<std::byte, sizeof value> element;
    std::memcpy(element.data(), &value, sizeof value);
    for (std::size_t row = 0; row < rows; ++row) {
      rank::fill(static_cast<std::byte*>(destination) + row * pitch, std::span{element}.first(unit),
                 width);
    }
  });
}

}  // namespace phantora::driver
