#include "cuda/driver/stream_attributes.hpp"

#include "cuda/cudart/stream_argument.hpp"

#include <cstring>

using namespace phantora::cudart;
namespace driver = phantora::driver;

// The runtime's attributes are the driver's under other names (driver_types.h, cuda.h).
static_assert(sizeof(cudaStreamAttrValue) == sizeof(CUlaunchAttributeValue));

PHANTORA_EXPORT cudaError_t cudaStreamSetAttribute(cudaStream_t stream, cudaStreamAttrID id,
                                                   const cudaStreamAttrValue* value) {
  return device_entry(Api::get_device, [&] {
    if (!value) return cudaErrorInvalidValue;
    CUlaunchAttributeValue same;
    std::memcpy(&same, value, sizeof same);
    return driver::set_attribute(stream_of(stream), static_cast<CUlaunchAttributeID>(id), same)
               ? cudaSuccess
               : cudaErrorInvalidValue;
  });
}

PHANTORA_EXPORT cudaError_t cudaStreamGetAttribute(cudaStream_t stream, cudaStreamAttrID id,
                                                   cudaStreamAttrValue* value) {
  return device_entry(Api::get_device, [&] {
    CUlaunchAttributeValue same;
    if (!value ||
        !driver::get_attribute(stream_of(stream), static_cast<CUlaunchAttributeID>(id), same)) {
      return cudaErrorInvalidValue;
    }
    std::memcpy(value, &same, sizeof same);
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaStreamCopyAttributes(cudaStream_t destination,
                                                     cudaStream_t source) {
  return device_entry(Api::get_device, [&] {
    driver::copy_attributes(stream_of(destination), stream_of(source));
    return cudaSuccess;
  });
}
