#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace phantora {

/// The parts of a kernel's demangled signature. Views into the name that was parsed.
struct KernelSignature {
  std::string_view base{};                    ///< last component, without template arguments
  std::vector<std::string_view> arguments{};  ///< template arguments of the base, outermost level
  std::string_view identity{};                ///< the name up to the function's parameters
};

/// Takes `name`, as cu++filt prints it, apart. A name that is no C++ signature is its own base.
KernelSignature parse_signature(std::string_view name);

/// `name` with the 16-bit floating-point types of PyTorch spelled alike.
///
/// An instance for c10::Half moves as many bytes, and computes in fp32, as the one for
/// c10::BFloat16 does: what is measured of either tells what the other takes.
std::string with_halves_alike(std::string_view name);

/// Size of the C++ arithmetic type that is mentioned last in `text`, in bytes; 0 if none is.
///
/// The functor of an elementwise kernel ends with the types that it is called with.
double last_type_bytes(std::string_view text);

/// The integer that `text` starts with; 0 if there is none.
double leading_integer(std::string_view text);

}  // namespace phantora
