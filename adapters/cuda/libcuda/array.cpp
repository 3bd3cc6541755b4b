// Arrays, and the objects through which kernels read and write them.
#include "cuda/driver/array.hpp"

#include "cuda/driver/driver_state.hpp"
#include "cuda/libcuda/entry.hpp"
#include "rank/memory/device_memory.hpp"
#include "rank/runtime/timeline.hpp"

using namespace phantora::libcuda;
namespace driver = phantora::driver;
namespace rank = phantora::rank;

namespace {

driver::Array* named(CUarray handle) { return reinterpret_cast<driver::Array*>(handle); }

driver::ArrayShape shape_of(const CUDA_ARRAY3D_DESCRIPTOR& desc) {
  return {desc.Format, desc.NumChannels, desc.Width, desc.Height, desc.Depth, desc.Flags};
}

CUresult status_of(driver::ArrayStatus status) {
  switch (status) {
    case driver::ArrayStatus::made:
      return CUDA_SUCCESS;
    case driver::ArrayStatus::bad_shape:
      return CUDA_ERROR_INVALID_VALUE;
    case driver::ArrayStatus::no_memory:
      return CUDA_ERROR_OUT_OF_MEMORY;
    case driver::ArrayStatus::unsupported:
      break;
  }
  rank::unsupported("an array of a block-compressed or planar format");
  return CUDA_ERROR_NOT_SUPPORTED;
}

/// Whether the flags ask for an array without memory of its own, which is refused.
bool refused(unsigned flags) {
  if ((flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) == 0) return false;
  rank::unsupported("an array without memory of its own (sparse, deferred mapping)");
  return true;
}

using driver::Texture;
auto& textures() { return driver::driver_state().textures; }
auto& surfaces() { return driver::driver_state().surfaces; }

/// Gives `to` what `part` finds in the description of an object.
template <class Objects, class Handle, class T, class Part>
CUresult tell(Objects& objects, Handle object, T* to, Part part,
              const char* name = __builtin_FUNCTION()) {
  return device_entry({Api::get_device, name}, [&] {
    const auto known = objects.find(object);
    if (!known || !to) return CUDA_ERROR_INVALID_VALUE;
    const std::optional<T> told = part(*known);
    if (!told) return CUDA_ERROR_INVALID_VALUE;
    *to = *told;
    return CUDA_SUCCESS;
  });
}

bool readable(const CUDA_RESOURCE_DESC& resource) {
  switch (resource.resType) {
    case CU_RESOURCE_TYPE_ARRAY:
      return driver::array_of(resource.res.array.hArray) != nullptr;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
      return driver::mipmapped_array_of(resource.res.mipmap.hMipmappedArray) != nullptr;
    case CU_RESOURCE_TYPE_LINEAR:
      return resource.res.linear.devPtr && resource.res.linear.sizeInBytes > 0;
    case CU_RESOURCE_TYPE_PITCH2D:
      return resource.res.pitch2D.devPtr && resource.res.pitch2D.width > 0 &&
             resource.res.pitch2D.height > 0;
    default:
      return false;
  }
}

}  // namespace

PHANTORA_EXPORT CUresult cuArray3DCreate(CUarray* array,
                                         const CUDA_ARRAY3D_DESCRIPTOR* desc) {  // _v2
  return device_entry(Api::malloc, [&] {
    if (!array || !desc) return CUDA_ERROR_INVALID_VALUE;
    if (refused(desc->Flags)) return CUDA_ERROR_NOT_SUPPORTED;
    driver::Array* made = nullptr;
    const CUresult status = status_of(driver::create(made, shape_of(*desc)));
    if (status == CUDA_SUCCESS) *array = reinterpret_cast<CUarray>(made);
    return status;
  });
}

PHANTORA_EXPORT CUresult cuArrayCreate(CUarray* array, const CUDA_ARRAY_DESCRIPTOR* desc) {  // _v2
  if (!desc) return CUDA_ERROR_INVALID_VALUE;
  CUDA_ARRAY3D_DESCRIPTOR flat{};
  flat.Width = desc->Width;
  flat.Height = desc->Height;
  flat.Format = desc->Format;
  flat.NumChannels = desc->NumChannels;
  return cuArray3DCreate(array, &flat);
}

PHANTORA_EXPORT CUresult cuArrayDestroy(CUarray array) {
  return device_entry(Api::free, [&] {
    if (!driver::array_of(array)) return CUDA_ERROR_INVALID_HANDLE;
    rank::synchronize_device(named(array)->device);
    return driver::destroy(named(array)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  });
}

PHANTORA_EXPORT CUresult cuArray3DGetDescriptor(CUDA_ARRAY3D_DESCRIPTOR* desc,
                                                CUarray array) {  // _v2
  return device_entry(Api::get_device, [&] {
    const driver::Array* const known = driver::array_of(array);
    if (!known) return CUDA_ERROR_INVALID_HANDLE;
    if (!desc) return CUDA_ERROR_INVALID_VALUE;
    const driver::ArrayShape& shape = known->shape;
    *desc = {.Width = shape.width,
             .Height = shape.height,
             .Depth = shape.depth,
             .Format = shape.format,
             .NumChannels = shape.channels,
             .Flags = shape.flags};
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuArrayGetDescriptor(CUDA_ARRAY_DESCRIPTOR* desc, CUarray array) {  // _v2
  return device_entry(Api::get_device, [&] {
    const driver::Array* const known = driver::array_of(array);
    if (!known) return CUDA_ERROR_INVALID_HANDLE;
    if (!desc) return CUDA_ERROR_INVALID_VALUE;
    *desc = {.Width = known->shape.width,
             .Height = known->shape.height,
             .Format = known->shape.format,
             .NumChannels = known->shape.channels};
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuMipmappedArrayCreate(CUmipmappedArray* array,
                                                const CUDA_ARRAY3D_DESCRIPTOR* desc,
                                                unsigned levels) {
  return device_entry(Api::malloc, [&] {
    if (!array || !desc) return CUDA_ERROR_INVALID_VALUE;
    if (refused(desc->Flags)) return CUDA_ERROR_NOT_SUPPORTED;
    driver::MipmappedArray* made = nullptr;
    const CUresult status = status_of(driver::create(made, shape_of(*desc), levels));
    if (status == CUDA_SUCCESS) *array = reinterpret_cast<CUmipmappedArray>(made);
    return status;
  });
}

PHANTORA_EXPORT CUresult cuMipmappedArrayGetLevel(CUarray* level, CUmipmappedArray array,
                                                  unsigned number) {
  return device_entry(Api::get_device, [&] {
    const auto* const known = driver::mipmapped_array_of(array);
    if (!known) return CUDA_ERROR_INVALID_HANDLE;
    if (!level || number >= known->levels.size()) return CUDA_ERROR_INVALID_VALUE;
    *level = reinterpret_cast<CUarray>(const_cast<driver::Array*>(&known->levels[number]));
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuMipmappedArrayDestroy(CUmipmappedArray array) {
  return device_entry(Api::free, [&] {
    const auto* const known = driver::mipmapped_array_of(array);
    if (!known) return CUDA_ERROR_INVALID_HANDLE;
    rank::synchronize_device(known->levels.front().device);
    driver::destroy(reinterpret_cast<driver::MipmappedArray*>(array));
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuTexObjectCreate(CUtexObject* object, const CUDA_RESOURCE_DESC* resource,
                                           const CUDA_TEXTURE_DESC* texture,
                                           const CUDA_RESOURCE_VIEW_DESC* view) {
  return device_entry(Api::library_setup, [&] {
    if (!object || !resource || !texture || !readable(*resource)) return CUDA_ERROR_INVALID_VALUE;
    Texture made{*resource, *texture, {}};
    if (view) made.view = *view;
    *object = driver::next_texture();
    textures().add(*object, made);
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuTexObjectDestroy(CUtexObject object) {
  return device_entry(Api::free, [&] {
    return textures().remove(object) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

PHANTORA_EXPORT CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC* resource,
                                                    CUtexObject object) {
  return tell(textures(), object, resource,
              [](const Texture& t) { return std::optional{t.resource}; });
}

PHANTORA_EXPORT CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC* texture, CUtexObject object) {
  return tell(textures(), object, texture,
              [](const Texture& t) { return std::optional{t.texture}; });
}

PHANTORA_EXPORT CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC* view,
                                                        CUtexObject object) {
  return tell(textures(), object, view, [](const Texture& t) { return t.view; });
}

// As in the runtime, a surface object is the address of its array's memory.

PHANTORA_EXPORT CUresult cuSurfObjectCreate(CUsurfObject* object,
                                            const CUDA_RESOURCE_DESC* resource) {
  return device_entry(Api::library_setup, [&] {
    if (!object || !resource || resource->resType != CU_RESOURCE_TYPE_ARRAY) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const driver::Array* const array = driver::array_of(resource->res.array.hArray);
    if (!array || (array->shape.flags & CUDA_ARRAY3D_SURFACE_LDST) == 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *object = address(array->base);
    surfaces().add(*object, *resource);
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuSurfObjectDestroy(CUsurfObject object) {
  return device_entry(Api::free, [&] {
    return surfaces().remove(object) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

PHANTORA_EXPORT CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC* resource,
                                                     CUsurfObject object) {
  return tell(surfaces(), object, resource,
              [](const CUDA_RESOURCE_DESC& r) { return std::optional{r}; });
}
