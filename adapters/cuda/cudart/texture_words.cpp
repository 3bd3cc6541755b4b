#include "cuda/cudart/texture_words.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>

namespace phantora::cudart {
namespace {

struct Format {
  cudaChannelFormatKind kind;
  int bits;
  CUarray_format driver;
  unsigned channels;  ///< 0: as many as the description has
};
constexpr std::array formats{
    Format{cudaChannelFormatKindSigned, 8, CU_AD_FORMAT_SIGNED_INT8, 0},
    Format{cudaChannelFormatKindSigned, 16, CU_AD_FORMAT_SIGNED_INT16, 0},
    Format{cudaChannelFormatKindSigned, 32, CU_AD_FORMAT_SIGNED_INT32, 0},
    Format{cudaChannelFormatKindUnsigned, 8, CU_AD_FORMAT_UNSIGNED_INT8, 0},
    Format{cudaChannelFormatKindUnsigned, 16, CU_AD_FORMAT_UNSIGNED_INT16, 0},
    Format{cudaChannelFormatKindUnsigned, 32, CU_AD_FORMAT_UNSIGNED_INT32, 0},
    Format{cudaChannelFormatKindFloat, 16, CU_AD_FORMAT_HALF, 0},
    Format{cudaChannelFormatKindFloat, 32, CU_AD_FORMAT_FLOAT, 0},
    Format{cudaChannelFormatKindUnsignedNormalized8X1, 8, CU_AD_FORMAT_UNORM_INT8X1, 1},
    Format{cudaChannelFormatKindUnsignedNormalized8X2, 8, CU_AD_FORMAT_UNORM_INT8X2, 2},
    Format{cudaChannelFormatKindUnsignedNormalized8X4, 8, CU_AD_FORMAT_UNORM_INT8X4, 4},
    Format{cudaChannelFormatKindUnsignedNormalized16X1, 16, CU_AD_FORMAT_UNORM_INT16X1, 1},
    Format{cudaChannelFormatKindUnsignedNormalized16X2, 16, CU_AD_FORMAT_UNORM_INT16X2, 2},
    Format{cudaChannelFormatKindUnsignedNormalized16X4, 16, CU_AD_FORMAT_UNORM_INT16X4, 4},
    Format{cudaChannelFormatKindSignedNormalized8X1, 8, CU_AD_FORMAT_SNORM_INT8X1, 1},
    Format{cudaChannelFormatKindSignedNormalized8X2, 8, CU_AD_FORMAT_SNORM_INT8X2, 2},
    Format{cudaChannelFormatKindSignedNormalized8X4, 8, CU_AD_FORMAT_SNORM_INT8X4, 4},
    Format{cudaChannelFormatKindSignedNormalized16X1, 16, CU_AD_FORMAT_SNORM_INT16X1, 1},
    Format{cudaChannelFormatKindSignedNormalized16X2, 16, CU_AD_FORMAT_SNORM_INT16X2, 2},
    Format{cudaChannelFormatKindSignedNormalized16X4, 16, CU_AD_FORMAT_SNORM_INT16X4, 4},
};

constexpr std::size_t modes = std::size(cudaTextureDesc{}.addressMode);

}  // namespace

std::optional<ElementFormat> element_format(const cudaChannelFormatDesc& desc) {
  unsigned channels = 0;
  for (const int bits : {desc.x, desc.y, desc.z, desc.w}) {
    if (bits != 0 && bits != desc.x) return std::nullopt;
    channels += bits != 0;
  }
  for (const Format& format : formats) {
    if (format.kind != desc.f || format.bits != desc.x) continue;
    if (format.channels != 0 && format.channels != channels) break;
    return ElementFormat{format.driver, channels};
  }
  return std::nullopt;
}

cudaChannelFormatDesc description(const ElementFormat& element) {
  for (const Format& format : formats) {
    if (format.driver != element.format) continue;
    const auto bits = [&](unsigned channel) {
      return element.channels > channel ? format.bits : 0;
    };
    return {bits(0), bits(1), bits(2), bits(3), format.kind};
  }
  return {0, 0, 0, 0, cudaChannelFormatKindNone};
}

std::optional<CUDA_RESOURCE_DESC> in_driver_words(const cudaResourceDesc& resource) {
  CUDA_RESOURCE_DESC told{};
  switch (resource.resType) {
    case cudaResourceTypeArray:
      told.resType = CU_RESOURCE_TYPE_ARRAY;
      told.res.array.hArray = reinterpret_cast<CUarray>(resource.res.array.array);
      return told;
    case cudaResourceTypeMipmappedArray:
      told.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
      told.res.mipmap.hMipmappedArray =
          reinterpret_cast<CUmipmappedArray>(resource.res.mipmap.mipmap);
      return told;
    case cudaResourceTypeLinear: {
      const auto& from = resource.res.linear;
      const auto element = element_format(from.desc);
      if (!element) return std::nullopt;
      told.resType = CU_RESOURCE_TYPE_LINEAR;
      told.res.linear = {reinterpret_cast<CUdeviceptr>(from.devPtr), element->format,
                         element->channels, from.sizeInBytes};
      return told;
    }
    case cudaResourceTypePitch2D: {
      const auto& from = resource.res.pitch2D;
      const auto element = element_format(from.desc);
      if (!element) return std::nullopt;
      told.resType = CU_RESOURCE_TYPE_PITCH2D;
      told.res.pitch2D = {reinterpret_cast<CUdeviceptr>(from.devPtr),
                          element->format,
                          element->channels,
                          from.width,
                          from.height,
                          from.pitchInBytes};
      return told;
    }
  }
  return std::nullopt;
}

std::optional<cudaResourceDesc> in_runtime_words(const CUDA_RESOURCE_DESC& resource) {
  cudaResourceDesc told{};
  switch (resource.resType) {
    case CU_RESOURCE_TYPE_ARRAY:
      told.resType = cudaResourceTypeArray;
      told.res.array.array = reinterpret_cast<cudaArray_t>(resource.res.array.hArray);
      return told;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
      told.resType = cudaResourceTypeMipmappedArray;
      told.res.mipmap.mipmap =
          reinterpret_cast<cudaMipmappedArray_t>(resource.res.mipmap.hMipmappedArray);
      return told;
    case CU_RESOURCE_TYPE_LINEAR: {
      const auto& from = resource.res.linear;
      told.resType = cudaResourceTypeLinear;
      told.res.linear = {reinterpret_cast<void*>(from.devPtr),
                         description({from.format, from.numChannels}), from.sizeInBytes};
      return told;
    }
    case CU_RESOURCE_TYPE_PITCH2D: {
      const auto& from = resource.res.pitch2D;
      told.resType = cudaResourceTypePitch2D;
      told.res.pitch2D = {reinterpret_cast<void*>(from.devPtr),
                          description({from.format, from.numChannels}), from.width, from.height,
                          from.pitchInBytes};
      return told;
    }
    default:
      return std::nullopt;
  }
}

// The numbers of modes and of formats of views are the same.

CUDA_TEXTURE_DESC in_driver_words(const cudaTextureDesc& texture) {
  CUDA_TEXTURE_DESC told{};
  for (std::size_t i = 0; i < modes; ++i) {
    told.addressMode[i] = static_cast<CUaddress_mode>(texture.addressMode[i]);
  }
  told.filterMode = static_cast<CUfilter_mode>(texture.filterMode);
  const auto flag = [&](bool set, unsigned bit) { told.flags |= set ? bit : 0; };
  flag(texture.readMode == cudaReadModeElementType, CU_TRSF_READ_AS_INTEGER);
  flag(texture.normalizedCoords != 0, CU_TRSF_NORMALIZED_COORDINATES);
  flag(texture.sRGB != 0, CU_TRSF_SRGB);
  flag(texture.disableTrilinearOptimization != 0, CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION);
  flag(texture.seamlessCubemap != 0, CU_TRSF_SEAMLESS_CUBEMAP);
  told.maxAnisotropy = texture.maxAnisotropy;
  told.mipmapFilterMode = static_cast<CUfilter_mode>(texture.mipmapFilterMode);
  told.mipmapLevelBias = texture.mipmapLevelBias;
  told.minMipmapLevelClamp = texture.minMipmapLevelClamp;
  told.maxMipmapLevelClamp = texture.maxMipmapLevelClamp;
  std::copy(std::begin(texture.borderColor), std::end(texture.borderColor), told.borderColor);
  return told;
}

cudaTextureDesc in_runtime_words(const CUDA_TEXTURE_DESC& texture) {
  cudaTextureDesc told{};
  for (std::size_t i = 0; i < modes; ++i) {
    told.addressMode[i] = static_cast<cudaTextureAddressMode>(texture.addressMode[i]);
  }
  told.filterMode = static_cast<cudaTextureFilterMode>(texture.filterMode);
  const auto flag = [&](unsigned bit) { return (texture.flags & bit) != 0; };
  told.readMode =
      flag(CU_TRSF_READ_AS_INTEGER) ? cudaReadModeElementType : cudaReadModeNormalizedFloat;
  told.normalizedCoords = flag(CU_TRSF_NORMALIZED_COORDINATES);
  told.sRGB = flag(CU_TRSF_SRGB);
  told.disableTrilinearOptimization = flag(CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION);
  told.seamlessCubemap = flag(CU_TRSF_SEAMLESS_CUBEMAP);
  told.maxAnisotropy = texture.maxAnisotropy;
  told.mipmapFilterMode = static_cast<cudaTextureFilterMode>(texture.mipmapFilterMode);
  told.mipmapLevelBias = texture.mipmapLevelBias;
  told.minMipmapLevelClamp = texture.minMipmapLevelClamp;
  told.maxMipmapLevelClamp = texture.maxMipmapLevelClamp;
  std::copy(std::begin(texture.borderColor), std::end(texture.borderColor), told.borderColor);
  return told;
}

CUDA_RESOURCE_VIEW_DESC in_driver_words(const cudaResourceViewDesc& view) {
  CUDA_RESOURCE_VIEW_DESC told{};
  told.format = static_cast<CUresourceViewFormat>(view.format);
  told.width = view.width;
  told.height = view.height;
  told.depth = view.depth;
  told.firstMipmapLevel = view.firstMipmapLevel;
  told.lastMipmapLevel = view.lastMipmapLevel;
  told.firstLayer = view.firstLayer;
  told.lastLayer = view.lastLayer;
  return told;
}

cudaResourceViewDesc in_runtime_words(const CUDA_RESOURCE_VIEW_DESC& view) {
  cudaResourceViewDesc told{};
  told.format = static_cast<cudaResourceViewFormat>(view.format);
  told.width = view.width;
  told.height = view.height;
  told.depth = view.depth;
  told.firstMipmapLevel = view.firstMipmapLevel;
  told.lastMipmapLevel = view.lastMipmapLevel;
  told.firstLayer = view.firstLayer;
  told.lastLayer = view.lastLayer;
  return told;
}

}  // namespace phantora::cudart
