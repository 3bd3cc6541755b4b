#include "rank/code/tensor_map.hpp"

#include "cuda/libcuda/entry.hpp"

#include <cstdint>
#include <cstring>

using namespace phantora::libcuda;

namespace {

using phantora::rank::TensorMap;
static_assert(phantora::rank::tensor_map_bytes == sizeof(CUtensorMap));

/// 0 for a type that is not known.
std::uint32_t bits_of(CUtensorMapDataType type) {
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B:
    case CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B:
      return 4;
    case CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B:
      return 6;
    case CU_TENSOR_MAP_DATA_TYPE_UINT8:
      return 8;
    case CU_TENSOR_MAP_DATA_TYPE_UINT16:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16:
      return 16;
    case CU_TENSOR_MAP_DATA_TYPE_UINT64:
    case CU_TENSOR_MAP_DATA_TYPE_INT64:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT64:
      return 64;
    case CU_TENSOR_MAP_DATA_TYPE_UINT32:
    case CU_TENSOR_MAP_DATA_TYPE_INT32:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ:
    case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32:
    case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ:
      return 32;
    default:
      return 0;
  }
}

CUresult encode(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                const cuuint64_t* dims, const cuuint64_t* strides, const cuuint32_t* box) {
  if (!map || !dims || rank < 1 || rank > 5) return CUDA_ERROR_INVALID_VALUE;
  if (reinterpret_cast<std::uintptr_t>(map) % 64 != 0) return CUDA_ERROR_INVALID_VALUE;
  if (reinterpret_cast<std::uintptr_t>(address) % 16 != 0) return CUDA_ERROR_INVALID_VALUE;
  TensorMap encoded{};
  encoded.address = reinterpret_cast<std::uint64_t>(address);
  encoded.element_bits = bits_of(type);
  if (encoded.element_bits == 0) return CUDA_ERROR_INVALID_VALUE;
  encoded.rank = rank;
  for (cuuint32_t i = 0; i < rank; ++i) {
    if (dims[i] == 0 || dims[i] > (std::uint64_t{1} << 32)) return CUDA_ERROR_INVALID_VALUE;
    if (i + 1 < rank && strides[i] % 16 != 0) return CUDA_ERROR_INVALID_VALUE;
    if (box && (box[i] == 0 || box[i] > 256)) return CUDA_ERROR_INVALID_VALUE;
    encoded.sizes[i] = dims[i];
    if (i + 1 < rank) encoded.strides[i] = strides[i];
    encoded.box[i] = box ? box[i] : 0;
  }
  std::memset(map, 0, sizeof *map);
  std::memcpy(map, &encoded, sizeof encoded);
  return CUDA_SUCCESS;
}

}  // namespace

PHANTORA_EXPORT CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type,
                                                cuuint32_t rank, void* address,
                                                const cuuint64_t* dims, const cuuint64_t* strides,
                                                const cuuint32_t* box, const cuuint32_t*,
                                                CUtensorMapInterleave, CUtensorMapSwizzle,
                                                CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  return entry(Api::library_setup,
               [&] { return encode(map, type, rank, address, dims, strides, box); });
}

PHANTORA_EXPORT CUresult cuTensorMapEncodeIm2col(CUtensorMap* map, CUtensorMapDataType type,
                                                 cuuint32_t rank, void* address,
                                                 const cuuint64_t* dims, const cuuint64_t* strides,
                                                 const int*, const int*, cuuint32_t, cuuint32_t,
                                                 const cuuint32_t*, CUtensorMapInterleave,
                                                 CUtensorMapSwizzle, CUtensorMapL2promotion,
                                                 CUtensorMapFloatOOBfill) {
  return entry(Api::library_setup, [&] {
    if (rank < 3) return CUDA_ERROR_INVALID_VALUE;
    return encode(map, type, rank, address, dims, strides, nullptr);
  });
}

PHANTORA_EXPORT CUresult cuTensorMapReplaceAddress(CUtensorMap* map, void* address) {
  return entry(Api::library_setup, [&] {
    if (!map || reinterpret_cast<std::uintptr_t>(address) % 16 != 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    std::memcpy(map, &address, sizeof address);
    return CUDA_SUCCESS;
  });
}
