#pragma once

#include <cstddef>
#include <vector>

namespace phantora::driver {

/// A copy of a program image (cubin, fat binary, its wrapper, or PTX text), whose size is in its
/// own headers; empty if it is none of these. The driver API lets callers free theirs after
/// loading.
std::vector<std::byte> copy_image(const void* image);

}  // namespace phantora::driver
