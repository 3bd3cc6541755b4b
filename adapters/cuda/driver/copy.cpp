#include "cuda/driver/copy.hpp"

#include "cuda/driver/graph_work.hpp"
#include "cuda/driver/host_memory.hpp"
#include "rank/memory/data_queue.hpp"
#include "rank/memory/device_memory.hpp"
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

std::string operation_name(rank::CopyKind kind, bool host_is_pinned) {
  switch (kind) {
    case rank::CopyKind::host_to_device:
      return host_is_pinned ? "memcpy_h2d_pinned" : "memcpy_h2d_pageable";
    case rank::CopyKind::device_to_host:
      return host_is_pinned ? "memcpy_d2h_pinned" : "memcpy_d2h_pageable";
    default:
      return "memcpy_d2d";
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

void copy(const Copy& c, bool blocking, rank::Stream& stream) {
  if (c.width == 0 || c.rows == 0) return;
  if (rank::capturing(stream)) {
    if (blocking) rank::refuse_if_captured(stream);
    rank::capture(stream, std::make_shared<CopyWork>(CopyBox{c}));
    return;
  }
  const rank::CopyKind kind = kind_of(c.destination, c.source);
  const void* host = kind == rank::CopyKind::host_to_device ? c.source : c.destination;
  const bool host_is_pinned =
      kind != rank::CopyKind::device_to_device && (c.of_graph || pinned(host));
  const bool waits = blocking && kind != rank::CopyKind::device_to_device;
  const bool one_row = c.rows == 1 || (c.destination_pitch == c.width && c.source_pitch == c.width);
  if (one_row && !(c.of_graph && kind == rank::CopyKind::host_to_host)) {
    rank::copy_async(c.destination, c.source, c.width * c.rows, kind, host_is_pinned, waits,
                     stream);
    return;
  }
  KernelQuery query;
  query.name = operation_name(kind, host_is_pinned);
  const double moved = static_cast<double>(c.width) * static_cast<double>(c.rows);
  query.bytes = kind == rank::CopyKind::device_to_device ? 2 * moved : moved;
  rank::launch(stream, query);
  // A pageable source may change as soon as the call returns, so its rows are taken now.
  std::vector<std::byte> staged;
  Copy rows = c;
  if (kind == rank::CopyKind::host_to_device && !host_is_pinned &&
      c.width * c.rows <= rank::small_bytes) {
    staged.resize(c.width * c.rows);
    for (std::size_t row = 0; row < c.rows; ++row) {
      std::memcpy(staged.data() + row * c.width,
                  static_cast<const std::byte*>(c.source) + row * c.source_pitch, c.width);
    }
    rows.source_pitch = c.width;
  }
  rank::data::enqueue(stream, [rows, kind, staged = std::move(staged)] {
    const auto* source =
        staged.empty() ? static_cast<const std::byte*>(rows.source) : staged.data();
    for (std::size_t row = 0; row < rows.rows; ++row) {
      move(static_cast<std::byte*>(rows.destination) + row * rows.destination_pitch,
           source + row * rows.source_pitch, rows.width, kind);
    }
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
  KernelQuery query;
  query.name = "memset";
  query.bytes = static_cast<double>(width) * static_cast<double>(rows);
  rank::launch(stream, query);
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
