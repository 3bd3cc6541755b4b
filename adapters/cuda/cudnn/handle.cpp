#include "cuda/cudnn/handle.hpp"

using namespace phantora::cudnn;

PHANTORA_EXPORT std::size_t cudnnGetVersion() { return CUDNN_VERSION; }
PHANTORA_EXPORT std::size_t cudnnGetMaxDeviceVersion() { return CUDNN_MAX_DEVICE_VERSION; }
// The CUDA that cuDNN 9.19 for CUDA 13 was built with; cudnnGetCudartVersion() of the real one.
PHANTORA_EXPORT std::size_t cudnnGetCudartVersion() { return 13010; }

// The parts of the library are of one version.
PHANTORA_EXPORT cudnnStatus_t cudnnAdvVersionCheck() { return CUDNN_STATUS_SUCCESS; }
PHANTORA_EXPORT cudnnStatus_t cudnnCnnVersionCheck() { return CUDNN_STATUS_SUCCESS; }
PHANTORA_EXPORT cudnnStatus_t cudnnGraphVersionCheck() { return CUDNN_STATUS_SUCCESS; }
PHANTORA_EXPORT cudnnStatus_t cudnnOpsVersionCheck() { return CUDNN_STATUS_SUCCESS; }

PHANTORA_EXPORT cudnnStatus_t cudnnGetProperty(libraryPropertyType type, int* value) {
  if (!value || type < MAJOR_VERSION || type > PATCH_LEVEL) return CUDNN_STATUS_BAD_PARAM;
  constexpr int version[] = {CUDNN_MAJOR, CUDNN_MINOR, CUDNN_PATCHLEVEL};
  *value = version[type];
  return CUDNN_STATUS_SUCCESS;
}

PHANTORA_EXPORT const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
#define PHANTORA_STATUS(name) \
  case name:                  \
    return #name;
#include "cuda/cudnn/statuses.inc"
#undef PHANTORA_STATUS
    default:
      return "CUDNN_UNKNOWN_STATUS";
  }
}

PHANTORA_EXPORT void cudnnGetLastErrorString(char* message, std::size_t size) {
  if (message && size) message[0] = '\0';
}

PHANTORA_EXPORT cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  return entry(Api::library_setup, [&] {
    if (!handle) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    *handle = new cudnnContext;
    return CUDNN_STATUS_SUCCESS;
  });
}

PHANTORA_EXPORT cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}

PHANTORA_EXPORT cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  return entry(Api::library_setup, [&] {
    if (!handle) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
  });
}

PHANTORA_EXPORT cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  return entry(Api::library_setup, [&] {
    if (!handle || !stream) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    *stream = handle->stream;
    return CUDNN_STATUS_SUCCESS;
  });
}
