#pragma once

#include <optional>

#include <cuda.h>
#include <driver_types.h>
#include <texture_types.h>

/// The runtime's descriptions of elements, textures and what these read, and the driver's of the
/// same: an object that one API made is known to the other.
namespace phantora::cudart {

struct ElementFormat {
  CUarray_format format;
  unsigned channels;
};
/// nullopt for what no element is: channels of unlike widths, and block-compressed or planar
/// formats.
std::optional<ElementFormat> element_format(const cudaChannelFormatDesc& desc);
cudaChannelFormatDesc description(const ElementFormat& element);

/// nullopt where its elements have no such format.
std::optional<CUDA_RESOURCE_DESC> in_driver_words(const cudaResourceDesc& resource);
std::optional<cudaResourceDesc> in_runtime_words(const CUDA_RESOURCE_DESC& resource);
CUDA_TEXTURE_DESC in_driver_words(const cudaTextureDesc& texture);
cudaTextureDesc in_runtime_words(const CUDA_TEXTURE_DESC& texture);
CUDA_RESOURCE_VIEW_DESC in_driver_words(const cudaResourceViewDesc& view);
cudaResourceViewDesc in_runtime_words(const CUDA_RESOURCE_VIEW_DESC& view);

}  // namespace phantora::cudart
