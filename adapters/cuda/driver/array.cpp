#include "cuda/driver/array.hpp"

#include "cuda/driver/device_attributes.hpp"
#include "cuda/driver/driver_state.hpp"
#include "cuda/driver/objects.hpp"
#include "rank/memory/device_memory.hpp"
#include "rank/runtime/process.hpp"

#include <algorithm>
#include <bit>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace phantora::driver {
namespace {

Arrays& arrays() { return driver_state().arrays; }

std::size_t limit(CUdevice_attribute attribute) {
  return static_cast<std::size_t>(driver::attribute(attribute, rank::current_device()).value_or(0));
}

/// The rules of cuArray3DCreate.
bool possible(const ArrayShape& shape) {
  const auto [format, channels, width, height, depth, flags] = shape;
  if (width == 0 || (channels != 1 && channels != 2 && channels != 4)) return false;
  const bool layered = (flags & CUDA_ARRAY3D_LAYERED) != 0;
  if ((flags & CUDA_ARRAY3D_CUBEMAP) != 0) {
    return width == height && (layered ? depth > 0 && depth % 6 == 0 : depth == 6) &&
           width <= limit(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH);
  }
  if (layered) {
    return depth > 0 &&
           (height == 0
                ? width <= limit(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH)
                : width <= limit(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH) &&
                      height <= limit(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT));
  }
  if (depth > 0) {
    return height > 0 && width <= limit(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH) &&
           height <= limit(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT) &&
           depth <= limit(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH);
  }
  if (height > 0) {
    return width <= limit(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH) &&
           height <= limit(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT);
  }
  return width <= limit(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH);
}

/// Gives `array` its memory.
ArrayStatus fit_out(Array& array, const ArrayShape& shape) {
  const auto channel = channel_bytes(shape.format);
  if (!channel) return ArrayStatus::unsupported;
  if (!possible(shape)) return ArrayStatus::bad_shape;
  array.shape = shape;
  array.device = rank::current_device();
  array.element = *channel * shape.channels;
  array.base = static_cast<std::byte*>(rank::allocate(array.device, array.bytes()));
  return array.base ? ArrayStatus::made : ArrayStatus::no_memory;
}

}  // namespace

std::optional<std::size_t> channel_bytes(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
    case CU_AD_FORMAT_UNORM_INT8X1:
    case CU_AD_FORMAT_UNORM_INT8X2:
    case CU_AD_FORMAT_UNORM_INT8X4:
    case CU_AD_FORMAT_SNORM_INT8X1:
    case CU_AD_FORMAT_SNORM_INT8X2:
    case CU_AD_FORMAT_SNORM_INT8X4:
      return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
    case CU_AD_FORMAT_UNORM_INT16X1:
    case CU_AD_FORMAT_UNORM_INT16X2:
    case CU_AD_FORMAT_UNORM_INT16X4:
    case CU_AD_FORMAT_SNORM_INT16X1:
    case CU_AD_FORMAT_SNORM_INT16X2:
    case CU_AD_FORMAT_SNORM_INT16X4:
      return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return 4;
    default:
      return std::nullopt;
  }
}

ArrayStatus create(Array*& array, const ArrayShape& shape) {
  auto made = std::make_unique<Array>();
  const ArrayStatus status = fit_out(*made, shape);
  if (status != ArrayStatus::made) return status;
  array = made.get();
  const std::scoped_lock lock{arrays().mutex};
  arrays().single[array] = std::move(made);
  return status;
}

ArrayStatus create(MipmappedArray*& array, const ArrayShape& shape, unsigned levels) {
  // Every level has half the extent of the one before, and the last one a single element.
  const std::size_t largest = std::max({shape.width, shape.height, shape.depth});
  if (levels == 0 || levels > static_cast<unsigned>(std::bit_width(largest))) {
    return ArrayStatus::bad_shape;
  }
  auto made = std::make_unique<MipmappedArray>();
  made->levels.resize(levels);
  ArrayShape smaller = shape;
  const auto halve = [](std::size_t& extent) { extent = extent > 1 ? extent / 2 : extent; };
  for (Array& level : made->levels) {
    level.level = true;
    const ArrayStatus status = fit_out(level, smaller);
    if (status != ArrayStatus::made) {
      for (const Array& taken : made->levels) rank::deallocate(taken.base);
      return status;
    }
    halve(smaller.width);
    halve(smaller.height);
    if ((shape.flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) == 0) halve(smaller.depth);
  }
  array = made.get();
  const std::scoped_lock lock{arrays().mutex};
  arrays().mipmapped[array] = std::move(made);
  return ArrayStatus::made;
}

bool destroy(Array* array) {
  const std::scoped_lock lock{arrays().mutex};
  const auto found = arrays().single.find(array);
  if (found == arrays().single.end()) return false;
  rank::deallocate(array->base);
  arrays().single.erase(found);
  return true;
}

bool destroy(MipmappedArray* array) {
  const std::scoped_lock lock{arrays().mutex};
  const auto found = arrays().mipmapped.find(array);
  if (found == arrays().mipmapped.end()) return false;
  for (const Array& level : array->levels) rank::deallocate(level.base);
  arrays().mipmapped.erase(found);
  return true;
}

const Array* array_of(const void* handle) {
  const std::scoped_lock lock{arrays().mutex};
  if (arrays().single.contains(handle)) return static_cast<const Array*>(handle);
  for (const auto& [address, mipmapped] : arrays().mipmapped) {
    for (const Array& level : mipmapped->levels) {
      if (&level == handle) return &level;
    }
  }
  return nullptr;
}

const MipmappedArray* mipmapped_array_of(const void* handle) {
  const std::scoped_lock lock{arrays().mutex};
  const auto found = arrays().mipmapped.find(handle);
  return found == arrays().mipmapped.end() ? nullptr : found->second.get();
}

unsigned long long next_texture() { return ++arrays().last_texture; }

}  // namespace phantora::driver
