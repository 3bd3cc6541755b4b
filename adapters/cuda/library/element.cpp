#include "cuda/library/element.hpp"

namespace phantora::library {

std::size_t size_of(cudaDataType type) noexcept {
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

const char* name_of(cudaDataType type) noexcept {
  switch (type) {
    case CUDA_R_16BF:
      return "bf16";
    case CUDA_R_16F:
      return "fp16";
    case CUDA_R_32F:
      return "fp32";
    case CUDA_R_64F:
      return "fp64";
    case CUDA_R_8F_E4M3:
      return "fp8_e4m3";
    case CUDA_R_8F_E5M2:
      return "fp8_e5m2";
    case CUDA_R_4F_E2M1:
      return "fp4_e2m1";
    case CUDA_R_8I:
      return "int8";
    case CUDA_R_32I:
      return "int32";
    case CUDA_C_32F:
      return "complex64";
    case CUDA_C_64F:
      return "complex128";
    default:
      return "other";
  }
}

std::optional<rank::ElementType> real_type(cudaDataType type) noexcept {
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

double alignment_of(const void* address, std::uint64_t stride_bytes) noexcept {
  const std::uint64_t bits = reinterpret_cast<std::uintptr_t>(address) | stride_bytes | 16u;
  return static_cast<double>(bits & (~bits + 1));  // the lowest set bit
}

}  // namespace phantora::library
