#pragma once

#include "rank/code/machine_code.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

/// Where the addresses that a kernel's code goes to come from, over all ways through it.
namespace phantora::rank::code {

/// More are not told apart: a bit for each.
inline constexpr std::size_t most_pointers = 64;

/// What a register's value may be computed from, as far as an address may.
struct Origin {
  /// By number in a list of places in constant bank 0.
  std::uint64_t pointers = 0;
  /// Accesses that loaded it, by number modulo 64: pointers from tables, where `pointers` has none.
  std::uint64_t loads = 0;
  /// Variables of the module, by number in the program's links.
  std::uint64_t variables = 0;
  bool elsewhere = false;  ///< other constants

  bool operator==(const Origin&) const = default;
  [[nodiscard]] bool none() const {
    return pointers == 0 && loads == 0 && variables == 0 && !elsewhere;
  }
  /// Whether it may be something that no parameter leads to.
  [[nodiscard]] bool beside_parameters() const { return variables != 0 || elsewhere; }
  Origin& operator|=(const Origin& other) {
    pointers |= other.pointers;
    loads |= other.loads;
    variables |= other.variables;
    elsewhere = elsewhere || other.elsewhere;
    return *this;
  }
};

/// The origins of the address of each access, by its number. What is added to a pointer is an
/// index, whatever it comes from. nullopt where the code has ways or stores that cannot be
/// followed.
/// @param pointers  their places in constant bank 0, at most 64
std::optional<std::vector<Origin>> address_origins(const Program& program,
                                                   std::span<const std::size_t> pointers);

}  // namespace phantora::rank::code
