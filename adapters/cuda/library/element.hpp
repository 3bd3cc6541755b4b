#pragma once

#include "rank/kernels/families/element_type.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>

#include <library_types.h>

namespace phantora::library {

/// Size of one element; 0 for types below a byte or unknown ones.
inline std::size_t size_of(cudaDataType type) noexcept {
  switch (type) {
    case CUDA_R_8I:
    case CUDA_R_8U:
    case CUDA_R_8F_E4M3:
    case CUDA_R_8F_E5M2:
    case CUDA_R_8F_UE8M0:
      return 1;
    case CUDA_R_16F:
    case CUDA_R_16BF:
    case CUDA_R_16I:
    case CUDA_R_16U:
    case CUDA_C_8I:
    case CUDA_C_8U:
      return 2;
    case CUDA_R_32F:
    case CUDA_R_32I:
    case CUDA_R_32U:
    case CUDA_C_16F:
    case CUDA_C_16BF:
      return 4;
    case CUDA_R_64F:
    case CUDA_R_64I:
    case CUDA_R_64U:
    case CUDA_C_32F:
    case CUDA_C_32I:
      return 8;
    case CUDA_C_64F:
      return 16;
    default:
      return 0;
  }
}
/// As kernel queries name it: "bf16", "fp32", "fp8_e4m3", "complex64", ...
const char* name_of(cudaDataType type) noexcept;
/// The type to compute with on real data; nullopt where we do not.
inline std::optional<rank::ElementType> real_type(cudaDataType type) noexcept {
  switch (type) {
    case CUDA_R_16BF:
      return rank::ElementType::bfloat16;
    case CUDA_R_16F:
      return rank::ElementType::float16;
    case CUDA_R_32F:
      return rank::ElementType::float32;
    case CUDA_R_64F:
      return rank::ElementType::float64;
    default:
      return std::nullopt;
  }
}

/// The largest power of two, at most 16, that divides both the address and `stride_bytes`.
inline std::uint64_t alignment_of(const void* address, std::uint64_t stride_bytes) noexcept {
  const std::uint64_t bits = reinterpret_cast<std::uintptr_t>(address) | stride_bytes | 16u;
  return bits & (~bits + 1);  // the lowest set bit
}

}  // namespace phantora::library
