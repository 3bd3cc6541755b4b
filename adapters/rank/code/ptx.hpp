#pragma once

#include "rank/code/module_variable.hpp"
#include "rank/kernels/kernel_launch.hpp"

#include <map>
#include <string>
#include <string_view>

/// Kernels and variables in PTX text (PTX ISA, "Kernel and Function Directives" and "State
/// Spaces").
namespace phantora::rank {

/// How the stand-in NVRTC writes what the text of a kernel says beyond its parameters' sizes: a
/// comment "//: ENTRY SIGNATURE" of its own line. Other compilers' text has none.
inline constexpr std::string_view ptx_signature_mark = "//: ";
/// Likewise "//= NAME": a variable whose size the text does not say.
inline constexpr std::string_view ptx_variable_mark = "//= ";

class Ptx {
 public:
  /// Malformed text gives what could be read, never an error.
  explicit Ptx(std::string_view text);
  /// The kernel of this entry; also by the mangled name of a C++ function, if the entry has only
  /// its plain name, as entries of the stand-in NVRTC have.
  [[nodiscard]] const KernelResources* find(std::string_view name) const;
  [[nodiscard]] const ModuleVariable* variable(std::string_view name) const;
  [[nodiscard]] const std::map<std::string, KernelResources, std::less<>>& kernels()
      const noexcept {
    return kernels_;
  }

 private:
  std::map<std::string, KernelResources, std::less<>> kernels_;
  std::map<std::string, ModuleVariable, std::less<>> variables_;
};

}  // namespace phantora::rank
