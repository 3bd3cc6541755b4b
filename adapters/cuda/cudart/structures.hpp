#pragma once

#include "cuda/version.hpp"

#include <cstddef>
#include <cstring>

namespace phantora::cudart {

/// Bytes that a structure has in a program of this release: CUDA 13 gave some of them reserved
/// fields at their ends, for which a program of CUDA 12 has no room (sizes of CUDA 12.8's
/// driver_types.h).
template <class T>
inline constexpr std::size_t size_in_program = sizeof(T);
#if PHANTORA_CUDA_VERSION < 13000
template <>
inline constexpr std::size_t size_in_program<cudaPointerAttributes> = 24;
template <>
inline constexpr std::size_t size_in_program<cudaResourceDesc> = 64;
template <>
inline constexpr std::size_t size_in_program<cudaResourceViewDesc> = 48;
#endif

/// Gives a program what it asked for, as far as its structure goes.
template <class T>
void give(T* to, const T& value) {
  std::memcpy(to, &value, size_in_program<T>);
}

}  // namespace phantora::cudart
