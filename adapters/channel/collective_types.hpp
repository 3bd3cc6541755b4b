#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

/// NCCL's vocabulary, as it crosses the channel.
namespace phantora::channel {

enum class Collective : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  reduce,
  all_to_all,
  gather,
  scatter,
  send,
  recv
};
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
