#pragma once

#include <optional>

namespace phantora::driver {

/// Value of the CUdevice_attribute (or equal cudaDeviceAttr) `number` of a visible device; nullopt
/// for a number that CUDA 13.0 does not know.
///
/// @note Approximation: attributes of limits that GpuModel does not hold and that no rule below
/// derives from the compute capability are those of the H200.
std::optional<int> attribute(int number, int device);

/// The same for a program that asks for this one alone, because it wants what it stands for: says
/// once where a real GPU has more.
std::optional<int> attribute_asked_for(int number, int device);

}  // namespace phantora::driver
