#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace phantora::rank {

/// Where a kernel's code has the address of a variable of its module, or a half of that.
struct VariableAddress {
  std::size_t at = 0;          ///< in bytes: in its code, or in constant bank 4
  bool in_bank = false;        ///< in that
  std::uint32_t variable = 0;  ///< equal for equal ones
  std::uint64_t bytes = 0;     ///< that the variable has
};

/// What a kernel's code refers to beside its parameters, as the file tells that it is in.
struct CodeLinks {
  /// Constant bank 2: where switches lead, in bytes from the beginning of the code.
  std::vector<std::uint32_t> jumps{};
  std::vector<VariableAddress> variables{};
  /// Of the driver's functions it calls the one alone that ends the program where an assertion
  /// fails, and so never comes back.
  bool calls_assert_alone = false;
};

}  // namespace phantora::rank
