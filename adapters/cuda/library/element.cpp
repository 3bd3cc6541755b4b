#include "cuda/library/element.hpp"

namespace phantora::library {

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

}  // namespace phantora::library
