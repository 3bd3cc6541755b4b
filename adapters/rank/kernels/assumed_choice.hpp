#pragma once

#include "rank/memory/device_memory.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

/// What a router chooses by scores that are not computed. The sizes of everything after it hang on
/// that, so it is assumed, as `phantora run --routing` says, and counted (assumed_routing).
namespace phantora::rank {

/// Places that are chosen, in the order of their rank, of `count` places with unknown scores in one
/// of many rows. Nothing if that is no router's choice, or none is to be assumed.
std::optional<std::vector<std::size_t>> assumed_choice(std::size_t row, std::size_t count,
                                                       std::size_t chosen);
/// How many of `rows` choose each of `count` places, one each; counted as a choice.
std::vector<std::int64_t> assumed_counts(std::size_t rows, std::size_t count);
/// Whether these say anything for such rows.
bool assumes_choice(std::size_t count, std::size_t chosen);

struct AssumedChoices {
  std::atomic<bool> any{false};
  std::atomic<const void*> last{nullptr};  ///< where its indices lie
};

/// The choice lies there: whoever sorts it by the unknown scores finds it sorted.
void note_assumed_choice(const void* indices);
bool is_assumed_choice(const void* indices);

/// An assumed choice, and what follows from it, is executed up to so many bytes: the places that
/// 16,384 tokens choose, six each, are 768 KiB of 64-bit numbers, masks of 8,192 tokens' best two
/// of eight experts 1 MiB.
inline constexpr std::size_t routed_bytes = 16 * small_bytes;

/// Operands of up to so many bytes are executed: small_bytes, and more once a choice was assumed,
/// for masks and counts of the tokens of each expert follow from it.
std::size_t executed_bytes();

}  // namespace phantora::rank
