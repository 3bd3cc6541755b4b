#pragma once

#include <phantora/collectives/operation.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

/// NCCL's vocabulary, as it crosses the channel.
namespace phantora::channel {

/// What a call of NCCL's asks for: a CollectiveOp, by its value, or a message.
enum class Collective : std::uint8_t {
  all_reduce = static_cast<std::uint8_t>(CollectiveOp::all_reduce),
  all_gather = static_cast<std::uint8_t>(CollectiveOp::all_gather),
  reduce_scatter = static_cast<std::uint8_t>(CollectiveOp::reduce_scatter),
  broadcast = static_cast<std::uint8_t>(CollectiveOp::broadcast),
  reduce = static_cast<std::uint8_t>(CollectiveOp::reduce),
  all_to_all = static_cast<std::uint8_t>(CollectiveOp::all_to_all),
  gather = static_cast<std::uint8_t>(CollectiveOp::gather),
  scatter = static_cast<std::uint8_t>(CollectiveOp::scatter),
  send,
  recv
};
/// None for a message.
constexpr std::optional<CollectiveOp> collective_op(Collective op) noexcept {
  if (op == Collective::send || op == Collective::recv) return std::nullopt;
  return static_cast<CollectiveOp>(op);
}
enum class DataType : std::uint8_t {  // the values of ncclDataType_t
  int8 = 0,
  uint8 = 1,
  int32 = 2,
  uint32 = 3,
  int64 = 4,
  uint64 = 5,
  float16 = 6,
  float32 = 7,
  float64 = 8,
  bfloat16 = 9,
  float8e4m3 = 10,
  float8e5m2 = 11
};
/// Bytes of one element.
constexpr std::size_t size_of(DataType type) noexcept {
  constexpr std::array<std::size_t, 12> sizes = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return sizes[static_cast<std::size_t>(type)];
}

enum class Reduction : std::uint8_t { sum, prod, max, min, avg, premul_sum };

}  // namespace phantora::channel
