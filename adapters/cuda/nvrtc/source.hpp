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
  /// jiterator wrote, also what they compute (rank/kernels/families/jiterated.cpp,
  /// rank/kernels/families/reduction.cpp).
  std::string signature;
  std::vector<std::uint32_t> parameter_sizes;  ///< up to the first that is not known
  std::string unknown_type;                    ///< of the first parameter that is not known
  /// What it asks of the driver, itself or through functions of the source, as PTX calls it.
  std::vector<std::string> externals{};
};

/// A __device__ or __constant__ variable.
struct SourceVariable {
  std::string name;
  std::uint32_t size = 0;  ///< 0: only a compiler knows it
  bool constant = false;
  bool initialized = false;
};

/// The kernels of `source` that are no templates, and those that `expressions` name.
std::vector<SourceKernel> read_kernels(std::string_view source,
                                       const std::vector<std::string>& expressions);

/// Its variables outside of all braces: those in namespaces have names that compilers make.
std::vector<SourceVariable> read_variables(std::string_view source);

/// PTX text of these variables, and of kernels with these parameters and without their code
/// (rank/code/ptx.hpp reads it).
/// @param target  as in "sm_90".
std::string to_ptx(const std::vector<SourceKernel>& kernels, std::string_view target,
                   const std::vector<SourceVariable>& variables = {});

/// The entry's name in that text.
std::string entry_name(std::string_view kernel);

}  // namespace phantora::nvrtc
