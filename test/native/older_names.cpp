// Functions of the driver by the names that older headers compile: as a program does that looks
// them up itself.
#include "expect.hpp"

#include <cstring>

#include <dlfcn.h>

namespace {

template <class Function>
Function* named(const char* name) {
  void* const address = dlsym(RTLD_DEFAULT, name);
  if (!address) std::printf("%s is missing\n", name), ++failures;
  return reinterpret_cast<Function*>(address);
}

#define NAMED(name) named<decltype(name)>(#name)

}  // namespace

// The strings of NAMED are the names before the header's macros: its argument is not expanded.
int main() {
  WORKS(cuInit(0));
  const auto create = named<CUresult(CUcontext*, unsigned, CUdevice)>("cuCtxCreate_v2");
  const auto create_v3 =
      named<CUresult(CUcontext*, CUexecAffinityParam*, int, unsigned, CUdevice)>("cuCtxCreate_v3");
  CUcontext context = nullptr, popped = nullptr;
  WORKS(create(&context, 0, 0));
  WORKS(NAMED(cuCtxPopCurrent)(&popped));
  EXPECT(popped == context);
  WORKS(NAMED(cuCtxPushCurrent)(context));

  CUevent start = nullptr, end = nullptr;
  float milliseconds = -1;
  WORKS(cuEventCreate(&start, CU_EVENT_DEFAULT));
  WORKS(cuEventCreate(&end, CU_EVENT_DEFAULT));
  CUstream stream = nullptr;
  WORKS(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUdeviceptr memory = 0;
  WORKS(cuMemAlloc(&memory, 1 << 20));
  WORKS(cuEventRecord(start, stream));
  WORKS(cuMemsetD8Async(memory, 0, 1 << 20, stream));
  WORKS(cuEventRecord(end, stream));
  WORKS(cuEventSynchronize(end));
  WORKS(NAMED(cuEventElapsedTime)(&milliseconds, start, end));
  EXPECT(milliseconds > 0);
  WORKS(NAMED(cuEventDestroy)(start));
  WORKS(NAMED(cuStreamDestroy)(stream));

  CUuuid old_id{}, id{};
  WORKS(NAMED(cuDeviceGetUuid)(&old_id, 0));
  WORKS(cuDeviceGetUuid(&id, 0));
  EXPECT(std::memcmp(&old_id, &id, sizeof id) == 0);

  char page[4096];
  WORKS(NAMED(cuMemHostRegister)(page, sizeof page, 0));
  CUlinkState link = nullptr;
  WORKS(NAMED(cuLinkCreate)(0, nullptr, nullptr, &link));
  WORKS(cuLinkDestroy(link));
  WORKS(NAMED(cuCtxDestroy)(context));

  CUexecAffinityParam affinity{};
  EXPECT_STATUS(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, create_v3(&context, &affinity, 1, 0, 0));
  WORKS(create_v3(&context, nullptr, 0, 0, 0));
  WORKS(NAMED(cuDevicePrimaryCtxSetFlags)(1, CU_CTX_SCHED_SPIN));
  WORKS(NAMED(cuDevicePrimaryCtxReset)(1));
  return failures != 0;
}
