#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// What a CUDA C++ source says about its kernels, read without compiling it.
namespace phantora::nvrtc {

struct SourceKernel {
  std::string name;  ///< as the source, or the name expression, writes it
  /// As rank::signature takes it apart: "name(float const*, int)". Of kernels that PyTorch's
  /// jiterator wrote, also what they compute (rank/kernels/jiterated.cpp,
  /// rank/kernels/reduction.cpp).
  std::string signature;
  std::vector<std::uint32_t> parameter_sizes;  ///< up to the first that is not known
  std::string unknown_type;                    ///< of the first parameter that is not known
};

/// The kernels of `source` that are no templates, and those that `expressions` name.
std::vector<SourceKernel> read_kernels(std::string_view source,
                                       const std::vector<std::string>& expressions);

/// PTX text of empty kernels with these parameters (rank/kernels/ptx.hpp reads it).
/// @param target  as in "sm_90".
std::string to_ptx(const std::vector<SourceKernel>& kernels, std::string_view target);

/// The entry's name in that text.
std::string entry_name(std::string_view kernel);

}  // namespace phantora::nvrtc
