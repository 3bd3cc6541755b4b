#pragma once

#include <complex>
#include <string_view>

namespace phantora::rank {

/// A function of one complex number: evaluated in double and rounded once.
using ComplexFunction = std::complex<double> (*)(std::complex<double>);

/// @param kernel  as PyTorch names its function or kernel: "tanh_kernel_cuda", or "exp_kernel" and
///                "sin_impl" of those that it compiles at run time.
/// @return nullptr for functions that are not known here.
ComplexFunction complex_function(std::string_view kernel);

}  // namespace phantora::rank
