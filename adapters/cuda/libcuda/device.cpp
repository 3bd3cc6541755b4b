#include "cuda/driver/device_attributes.hpp"
#include "cuda/libcuda/entry.hpp"

#include <cstdio>
#include <cstring>

using namespace phantora::libcuda;
namespace driver = phantora::driver;
namespace rank = phantora::rank;

PHANTORA_EXPORT CUresult cuDeviceGetCount(int* count) {
  return entry(Api::get_device, [&] {
    *count = rank::device_count();
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  return entry(Api::get_device, [&] {
    if (!valid_device(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  return entry(Api::get_device, [&] {
    if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    if (!name || length <= 0) return CUDA_ERROR_INVALID_VALUE;
    std::snprintf(name, static_cast<std::size_t>(length), "%s", rank::gpu().name.c_str());
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {  // _v2
  return entry(Api::get_device, [&] {
    if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    const auto bytes = driver::uuid(device);
    std::memcpy(uuid->bytes, bytes.data(), bytes.size());
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuDeviceTotalMem(std::size_t* bytes, CUdevice device) {  // _v2
  return entry(Api::get_device, [&] {
    if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    *bytes = static_cast<std::size_t>(rank::gpu().memory.count());
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute,
                                              CUdevice device) {
  return entry(Api::get_device, [&] {
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    const auto known = driver::attribute_asked_for(attribute, device);
    if (!known) return CUDA_ERROR_INVALID_VALUE;
    *value = *known;
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
  return entry(Api::get_device, [&] {
    if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    *major = rank::gpu().capability_major;
    *minor = rank::gpu().capability_minor;
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuDeviceGetPCIBusId(char* text, int length, CUdevice device) {
  return entry(Api::get_device, [&] {
    if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    const std::string address = driver::to_string(driver::pci_address(device));
    if (!text || static_cast<std::size_t>(length) <= address.size()) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    std::memcpy(text, address.c_str(), address.size() + 1);
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* text) {
  return entry(Api::get_device, [&] {
    const int found = driver::device_at(text);
    if (found < 0) return CUDA_ERROR_INVALID_DEVICE;
    *device = found;
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  return entry(Api::get_device, [&] {
    if (!valid_device(device) || !valid_device(peer)) return CUDA_ERROR_INVALID_DEVICE;
    *can = device != peer;
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuProfilerStart() {
  return device_entry(Api::get_last_error, [] { return CUDA_SUCCESS; });
}

PHANTORA_EXPORT CUresult cuProfilerStop() {
  return device_entry(Api::get_last_error, [] { return CUDA_SUCCESS; });
}
