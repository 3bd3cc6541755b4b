#include "cuda/libcuda/entry.hpp"

#include <cstdint>
#include <cstring>

using namespace phantora::libcuda;

namespace {

// A tensor map is 128 opaque bytes that a kernel gets by value. Ours starts with the address, so
// that whoever reads a launch's arguments finds which memory the kernel reaches through it.
struct TensorMap {
  void* address;
  std::uint32_t data_type, rank;
  std::uint64_t dims[5];
  std::uint32_t box[5];
};
static_assert(sizeof(TensorMap) <= sizeof(CUtensorMap));

CUresult encode(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                const cuuint64_t* dims, const cuuint64_t* strides, const cuuint32_t* box) {
  if (!map || !dims || rank < 1 || rank > 5) return CUDA_ERROR_INVALID_VALUE;
  if (reinterpret_cast<std::uintptr_t>(map) % 64 != 0) return CUDA_ERROR_INVALID_VALUE;
  if (reinterpret_cast<std::uintptr_t>(address) % 16 != 0) return CUDA_ERROR_INVALID_VALUE;
  TensorMap encoded{};
  encoded.address = address;
  encoded.data_type = type;
  encoded.rank = rank;
  for (cuuint32_t i = 0; i < rank; ++i) {
    if (dims[i] == 0 || dims[i] > (std::uint64_t{1} << 32)) return CUDA_ERROR_INVALID_VALUE;
    if (i + 1 < rank && strides[i] % 16 != 0) return CUDA_ERROR_INVALID_VALUE;
    if (box && (box[i] == 0 || box[i] > 256)) return CUDA_ERROR_INVALID_VALUE;
    encoded.dims[i] = dims[i];
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
