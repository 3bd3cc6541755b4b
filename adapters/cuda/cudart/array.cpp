// Arrays, and the objects through which kernels read and write them.
#include "cuda/driver/array.hpp"

#include "cuda/cudart/entry.hpp"
#include "cuda/cudart/structures.hpp"
#include "cuda/cudart/texture_words.hpp"
#include "cuda/driver/device_attributes.hpp"
#include "cuda/driver/driver_state.hpp"
#include "rank/memory/device_memory.hpp"
#include "rank/runtime/timeline.hpp"

#include <cstdint>
#include <optional>

using namespace phantora::cudart;
namespace driver = phantora::driver;
namespace rank = phantora::rank;

namespace {

/// What block-compressed and planar formats are not.
bool rows_of_elements(cudaChannelFormatKind kind) {
  return kind <= cudaChannelFormatKindNone || (kind >= cudaChannelFormatKindUnsignedNormalized8X1 &&
                                               kind <= cudaChannelFormatKindSignedNormalized16X4);
}

cudaError_t shape_of(const cudaChannelFormatDesc& desc, const cudaExtent& extent, unsigned flags,
                     driver::ArrayShape& shape) {
  if (const auto known = element_format(desc)) {
    shape = {known->format, known->channels, extent.width, extent.height, extent.depth, flags};
    return cudaSuccess;
  }
  if (rows_of_elements(desc.f)) return cudaErrorInvalidChannelDescriptor;
  rank::unsupported("an array of a block-compressed or planar format");
  return cudaErrorNotSupported;
}

cudaError_t status_of(driver::ArrayStatus status) {
  switch (status) {
    case driver::ArrayStatus::made:
      return cudaSuccess;
    case driver::ArrayStatus::bad_shape:
      return cudaErrorInvalidValue;
    case driver::ArrayStatus::no_memory:
      return cudaErrorMemoryAllocation;
    case driver::ArrayStatus::unsupported:
      break;
  }
  return cudaErrorNotSupported;
}

constexpr unsigned deferred = cudaArraySparse | cudaArrayDeferredMapping;

cudaError_t create(cudaArray_t* array, const cudaChannelFormatDesc* desc, const cudaExtent& extent,
                   unsigned flags, const char* name = __builtin_FUNCTION()) {
  return device_entry({Api::malloc, name}, [&] {
    if (!array || !desc) return cudaErrorInvalidValue;
    if ((flags & deferred) != 0) {
      rank::unsupported("an array without memory of its own (sparse, deferred mapping)");
      return cudaErrorNotSupported;
    }
    driver::ArrayShape shape;
    const cudaError_t known = shape_of(*desc, extent, flags, shape);
    if (known != cudaSuccess) return known;
    driver::Array* made = nullptr;
    const cudaError_t status = status_of(driver::create(made, shape));
    if (status == cudaSuccess) *array = reinterpret_cast<cudaArray_t>(made);
    return status;
  });
}

auto& textures() { return driver::driver_state().textures; }
auto& surfaces() { return driver::driver_state().surfaces; }

/// Gives `to` what `part` finds in the description of an object.
template <class Objects, class Handle, class T, class Part>
cudaError_t tell(Objects& objects, Handle object, T* to, Part part,
                 const char* name = __builtin_FUNCTION()) {
  return device_entry({Api::get_device, name}, [&] {
    const auto known = objects.find(object);
    if (!known || !to) return cudaErrorInvalidValue;
    const std::optional<T> told = part(*known);
    if (!told) return cudaErrorInvalidValue;
    give(to, *told);
    return cudaSuccess;
  });
}

bool aligned(const void* address, int attribute) {
  const int unit = driver::attribute(attribute, rank::current_device()).value_or(1);
  return reinterpret_cast<std::uintptr_t>(address) % static_cast<std::uintptr_t>(unit) == 0;
}

/// What cudaCreateTextureObject's documentation asks of a resource.
bool readable(const cudaResourceDesc& resource) {
  switch (resource.resType) {
    case cudaResourceTypeArray:
      return driver::array_of(resource.res.array.array) != nullptr;
    case cudaResourceTypeMipmappedArray:
      return driver::mipmapped_array_of(resource.res.mipmap.mipmap) != nullptr;
    case cudaResourceTypeLinear:
      return resource.res.linear.devPtr && resource.res.linear.sizeInBytes > 0 &&
             aligned(resource.res.linear.devPtr, cudaDevAttrTextureAlignment);
    case cudaResourceTypePitch2D: {
      const auto& rows = resource.res.pitch2D;
      const auto pitch = static_cast<std::size_t>(
          driver::attribute(cudaDevAttrTexturePitchAlignment, rank::current_device()).value_or(1));
      return rows.devPtr && rows.width > 0 && rows.height > 0 &&
             aligned(rows.devPtr, cudaDevAttrTextureAlignment) && rows.pitchInBytes % pitch == 0;
    }
    default:
      return false;
  }
}

}  // namespace

PHANTORA_EXPORT cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
                                                            cudaChannelFormatKind kind) {
  return {x, y, z, w, kind};
}

PHANTORA_EXPORT cudaError_t cudaMallocArray(cudaArray_t* array, const cudaChannelFormatDesc* desc,
                                            std::size_t width, std::size_t height, unsigned flags) {
  return create(array, desc, {width, height, 0}, flags);
}

PHANTORA_EXPORT cudaError_t cudaMalloc3DArray(cudaArray_t* array, const cudaChannelFormatDesc* desc,
                                              cudaExtent extent, unsigned flags) {
  return create(array, desc, extent, flags);
}

PHANTORA_EXPORT cudaError_t cudaFreeArray(cudaArray_t array) {
  return device_entry(Api::free, [&] {
    if (!array) return cudaSuccess;
    auto* const known = reinterpret_cast<driver::Array*>(array);
    if (!driver::array_of(array)) return cudaErrorInvalidResourceHandle;
    rank::synchronize_device(known->device);
    return driver::destroy(known) ? cudaSuccess : cudaErrorInvalidResourceHandle;
  });
}

PHANTORA_EXPORT cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t* array,
                                                     const cudaChannelFormatDesc* desc,
                                                     cudaExtent extent, unsigned levels,
                                                     unsigned flags) {
  return device_entry(Api::malloc, [&] {
    if (!array || !desc) return cudaErrorInvalidValue;
    if ((flags & deferred) != 0) {
      rank::unsupported("an array without memory of its own (sparse, deferred mapping)");
      return cudaErrorNotSupported;
    }
    driver::ArrayShape shape;
    const cudaError_t known = shape_of(*desc, extent, flags, shape);
    if (known != cudaSuccess) return known;
    driver::MipmappedArray* made = nullptr;
    const cudaError_t status = status_of(driver::create(made, shape, levels));
    if (status == cudaSuccess) *array = reinterpret_cast<cudaMipmappedArray_t>(made);
    return status;
  });
}

PHANTORA_EXPORT cudaError_t cudaGetMipmappedArrayLevel(cudaArray_t* level,
                                                       cudaMipmappedArray_const_t array,
                                                       unsigned number) {
  return device_entry(Api::get_device, [&] {
    const auto* const known = driver::mipmapped_array_of(array);
    if (!known) return cudaErrorInvalidResourceHandle;
    if (!level || number >= known->levels.size()) return cudaErrorInvalidValue;
    *level = reinterpret_cast<cudaArray_t>(const_cast<driver::Array*>(&known->levels[number]));
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t array) {
  return device_entry(Api::free, [&] {
    if (!array) return cudaSuccess;
    const auto* const known = driver::mipmapped_array_of(array);
    if (!known) return cudaErrorInvalidResourceHandle;
    rank::synchronize_device(known->levels.front().device);
    driver::destroy(reinterpret_cast<driver::MipmappedArray*>(array));
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaArrayGetInfo(cudaChannelFormatDesc* desc, cudaExtent* extent,
                                             unsigned* flags, cudaArray_t array) {
  return device_entry(Api::get_device, [&] {
    const auto* const known = driver::array_of(array);
    if (!known) return cudaErrorInvalidResourceHandle;
    const driver::ArrayShape& shape = known->shape;
    if (desc) *desc = description({shape.format, shape.channels});
    if (extent) *extent = {shape.width, shape.height, shape.depth};
    if (flags) *flags = shape.flags;
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaGetChannelDesc(cudaChannelFormatDesc* desc,
                                               cudaArray_const_t array) {
  return device_entry(Api::get_device, [&] {
    const auto* const known = driver::array_of(array);
    if (!known) return cudaErrorInvalidResourceHandle;
    if (!desc) return cudaErrorInvalidValue;
    *desc = description({known->shape.format, known->shape.channels});
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaMalloc3D(cudaPitchedPtr* memory, cudaExtent extent) {
  return device_entry(Api::malloc, [&] {
    if (!memory) return cudaErrorInvalidValue;
    const auto unit = static_cast<std::size_t>(
        driver::attribute(cudaDevAttrTextureAlignment, rank::current_device()).value_or(512));
    const std::size_t pitch = (extent.width + unit - 1) / unit * unit;
    *memory = {nullptr, pitch, extent.width, extent.height};
    const std::size_t bytes = pitch * extent.height * extent.depth;
    if (bytes == 0) return cudaSuccess;
    memory->ptr = rank::allocate(rank::current_device(), bytes);
    return memory->ptr ? cudaSuccess : cudaErrorMemoryAllocation;
  });
}

PHANTORA_EXPORT cudaError_t cudaCreateTextureObject(cudaTextureObject_t* object,
                                                    const cudaResourceDesc* resource,
                                                    const cudaTextureDesc* texture,
                                                    const cudaResourceViewDesc* view) {
  return device_entry(Api::library_setup, [&] {
    if (!object || !resource || !texture || !readable(*resource)) return cudaErrorInvalidValue;
    const auto told = in_driver_words(*resource);
    if (!told) return cudaErrorInvalidChannelDescriptor;
    driver::Texture made{*told, in_driver_words(*texture), {}};
    if (view) made.view = in_driver_words(*view);
    *object = driver::next_texture();
    textures().add(*object, made);
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaDestroyTextureObject(cudaTextureObject_t object) {
  return device_entry(Api::free, [&] {
    if (object == 0) return cudaSuccess;
    return textures().remove(object) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

PHANTORA_EXPORT cudaError_t cudaGetTextureObjectResourceDesc(cudaResourceDesc* resource,
                                                             cudaTextureObject_t object) {
  return tell(textures(), object, resource,
              [](const driver::Texture& t) { return in_runtime_words(t.resource); });
}

PHANTORA_EXPORT cudaError_t cudaGetTextureObjectTextureDesc(cudaTextureDesc* texture,
                                                            cudaTextureObject_t object) {
  return tell(textures(), object, texture,
              [](const driver::Texture& t) { return std::optional{in_runtime_words(t.texture)}; });
}

PHANTORA_EXPORT cudaError_t cudaGetTextureObjectResourceViewDesc(cudaResourceViewDesc* view,
                                                                 cudaTextureObject_t object) {
  return tell(textures(), object, view, [](const driver::Texture& t) {
    return t.view ? std::optional{in_runtime_words(*t.view)} : std::nullopt;
  });
}

// A surface object is the address of its array's memory: a kernel that is given one makes unknown
// what it may write, as with any other address.

PHANTORA_EXPORT cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t* object,
                                                    const cudaResourceDesc* resource) {
  return device_entry(Api::library_setup, [&] {
    if (!object || !resource || resource->resType != cudaResourceTypeArray) {
      return cudaErrorInvalidValue;
    }
    const auto* const array = driver::array_of(resource->res.array.array);
    if (!array || (array->shape.flags & cudaArraySurfaceLoadStore) == 0) {
      return cudaErrorInvalidValue;
    }
    *object = reinterpret_cast<cudaSurfaceObject_t>(array->base);
    surfaces().add(*object, *in_driver_words(*resource));
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t object) {
  return device_entry(Api::free, [&] {
    if (object == 0) return cudaSuccess;
    return surfaces().remove(object) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

PHANTORA_EXPORT cudaError_t cudaGetSurfaceObjectResourceDesc(cudaResourceDesc* resource,
                                                             cudaSurfaceObject_t object) {
  return tell(surfaces(), object, resource,
              [](const CUDA_RESOURCE_DESC& r) { return in_runtime_words(r); });
}
