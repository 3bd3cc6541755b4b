// Names that CUDA's headers have since mapped to later revisions, which older headers, and programs
// that look functions up by name, still ask for. Those here take the same arguments as the later
// revision, and what that does holds for them. cuCtxCreate is not among them: its contexts, of CUDA
// 3.1, take no later calls (an H200: cuMemAlloc_v2 gives 201 in one).
#include "cuda/libcuda/entry.hpp"

#undef cuCtxDestroy
#undef cuCtxPopCurrent
#undef cuCtxPushCurrent
#undef cuDeviceGetUuid
#undef cuDevicePrimaryCtxRelease
#undef cuDevicePrimaryCtxReset
#undef cuDevicePrimaryCtxSetFlags
#undef cuEventDestroy
#undef cuEventElapsedTime
#undef cuIpcOpenMemHandle
#undef cuLinkAddData
#undef cuLinkAddFile
#undef cuLinkCreate
#undef cuMemHostRegister
#undef cuStreamDestroy

PHANTORA_EXPORT CUresult cuCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice device);

PHANTORA_EXPORT CUresult cuCtxCreate_v3(CUcontext* context, CUexecAffinityParam*, int affinities,
                                        unsigned flags, CUdevice device) {
  if (affinities != 0) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;  // parts of a GPU, of MPS
  return cuCtxCreate_v2(context, flags, device);
}

PHANTORA_EXPORT CUresult cuCtxDestroy(CUcontext context) { return cuCtxDestroy_v2(context); }

PHANTORA_EXPORT CUresult cuCtxPopCurrent(CUcontext* context) { return cuCtxPopCurrent_v2(context); }

PHANTORA_EXPORT CUresult cuCtxPushCurrent(CUcontext context) {
  return cuCtxPushCurrent_v2(context);
}

PHANTORA_EXPORT CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  return cuDeviceGetUuid_v2(uuid, device);
}

PHANTORA_EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  return cuDevicePrimaryCtxRelease_v2(device);
}

PHANTORA_EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice device) {
  return cuDevicePrimaryCtxReset_v2(device);
}

PHANTORA_EXPORT CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags) {
  return cuDevicePrimaryCtxSetFlags_v2(device, flags);
}

PHANTORA_EXPORT CUresult cuEventDestroy(CUevent event) { return cuEventDestroy_v2(event); }

PHANTORA_EXPORT CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  return cuEventElapsedTime_v2(milliseconds, start, end);
}

PHANTORA_EXPORT CUresult cuIpcOpenMemHandle(CUdeviceptr* address, CUipcMemHandle handle,
                                            unsigned flags) {
  return cuIpcOpenMemHandle_v2(address, handle, flags);
}

PHANTORA_EXPORT CUresult cuLinkCreate(unsigned count, CUjit_option* options, void** values,
                                      CUlinkState* state) {
  return cuLinkCreate_v2(count, options, values, state);
}

PHANTORA_EXPORT CUresult cuLinkAddData(CUlinkState state, CUjitInputType type, void* data,
                                       std::size_t bytes, const char* name, unsigned count,
                                       CUjit_option* options, void** values) {
  return cuLinkAddData_v2(state, type, data, bytes, name, count, options, values);
}

PHANTORA_EXPORT CUresult cuLinkAddFile(CUlinkState state, CUjitInputType type, const char* path,
                                       unsigned count, CUjit_option* options, void** values) {
  return cuLinkAddFile_v2(state, type, path, count, options, values);
}

PHANTORA_EXPORT CUresult cuMemHostRegister(void* memory, std::size_t bytes, unsigned flags) {
  return cuMemHostRegister_v2(memory, bytes, flags);
}

PHANTORA_EXPORT CUresult cuStreamDestroy(CUstream stream) { return cuStreamDestroy_v2(stream); }
