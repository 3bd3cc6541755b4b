// Answers of an H200, pools, memory that is mapped more than once, managed memory, and what streams
// are told.
#include "expect.hpp"

#include <array>
#include <cstring>

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

std::size_t free_memory() {
  std::size_t free = 0, total = 0;
  WORKS(cudaMemGetInfo(&free, &total));
  return free;
}

unsigned long long reserved(cudaMemPool_t pool) {
  unsigned long long bytes = 0;
  WORKS(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &bytes));
  return bytes;
}

void pools() {
  cudaMemPool_t pool = nullptr;
  WORKS(cudaDeviceGetDefaultMemPool(&pool, 0));
  const std::size_t before = free_memory();
  void* memory = nullptr;
  WORKS(cudaMallocAsync(&memory, 100 * mib, nullptr));
  EXPECT(reserved(pool) == 128 * mib && free_memory() == before - 128 * mib);
  WORKS(cudaFreeAsync(memory, nullptr));
  WORKS(cudaDeviceSynchronize());
  EXPECT(reserved(pool) == 0 && free_memory() == before);  // the threshold is 0 at first

  unsigned long long threshold = 64 * mib;
  WORKS(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  WORKS(cudaMallocAsync(&memory, 100 * mib, nullptr));
  WORKS(cudaFreeAsync(memory, nullptr));
  WORKS(cudaDeviceSynchronize());
  EXPECT(reserved(pool) == 64 * mib && free_memory() == before - 64 * mib);
  WORKS(cudaMallocAsync(&memory, 10 * mib, nullptr));  // out of what the pool has
  EXPECT(reserved(pool) == 64 * mib && free_memory() == before - 64 * mib);
  WORKS(cudaMemPoolTrimTo(pool, 20 * mib));
  EXPECT(reserved(pool) == 32 * mib);  // a whole piece, of which 10 MiB are used
  WORKS(cudaFreeAsync(memory, nullptr));
  WORKS(cudaMemPoolTrimTo(pool, 0));
  EXPECT(reserved(pool) == 0 && free_memory() == before);

  cudaMemPoolProps limited{};
  limited.allocType = cudaMemAllocationTypePinned;
  limited.location = {cudaMemLocationTypeDevice, 0};
  limited.maxSize = 64 * mib;
  cudaMemPool_t small = nullptr;
  WORKS(cudaMemPoolCreate(&small, &limited));
  WORKS(cudaMallocFromPoolAsync(&memory, 40 * mib, small, nullptr));
  void* more = nullptr;
  EXPECT_STATUS(cudaErrorMemoryAllocation,
                cudaMallocFromPoolAsync(&more, 40 * mib, small, nullptr));
  WORKS(cudaFreeAsync(memory, nullptr));
  WORKS(cudaMallocFromPoolAsync(&more, 40 * mib, small, nullptr));
  WORKS(cudaFreeAsync(more, nullptr));
  WORKS(cudaMemPoolDestroy(small));
  limited.location.id = 99;
  EXPECT_STATUS(cudaErrorInvalidValue, cudaMemPoolCreate(&small, &limited));  // as an H200
}

void one_memory_at_two_addresses() {
  CUmemAllocationProp kind{};
  kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  kind.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  kind.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
  CUmemGenericAllocationHandle block = 0, same = 0;
  WORKS(cuMemCreate(&block, 4 * mib, &kind, 0));
  CUdeviceptr range = 0;
  WORKS(cuMemAddressReserve(&range, 16 * mib, 0, 0, 0));
  const CUdeviceptr one = range, other = range + 8 * mib;
  WORKS(cuMemMap(one, 4 * mib, 0, block, 0));
  WORKS(cuMemMap(other, 4 * mib, 0, block, 0));
  CUmemAccessDesc access{};
  access.location = kind.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  cudaPointerAttributes seen{};
  WORKS(cudaPointerGetAttributes(&seen, reinterpret_cast<void*>(one)));
  EXPECT(seen.type == cudaMemoryTypeUnregistered);
  EXPECT_STATUS(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(one, 1, 16));
  WORKS(cuMemSetAccess(one, 4 * mib, &access, 1));
  WORKS(cuMemSetAccess(other, 4 * mib, &access, 1));
  WORKS(cudaPointerGetAttributes(&seen, reinterpret_cast<void*>(one)));
  EXPECT(seen.type == cudaMemoryTypeDevice);
  WORKS(cuMemRetainAllocationHandle(&same, reinterpret_cast<void*>(other)));
  EXPECT(same == block);
  WORKS(cuMemRelease(same));
  CUmemAllocationProp told{};
  WORKS(cuMemGetAllocationPropertiesFromHandle(&told, block));
  EXPECT(told.requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE);

  int value = 7, read = 0;
  WORKS(cuMemcpyHtoD(one + 3 * mib, &value, sizeof value));
  WORKS(cuMemcpyDtoH(&read, other + 3 * mib, sizeof read));
  EXPECT(read == 7);
  value = 8;
  WORKS(cuMemcpyHtoD(other + 3 * mib, &value, sizeof value));
  WORKS(cuMemcpyDtoH(&read, one + 3 * mib, sizeof read));
  EXPECT(read == 8);
  WORKS(cuMemsetD32(other + 2 * mib, 9, mib / 4));  // up to where the 8 is
  WORKS(cuMemcpyDtoH(&read, one + 3 * mib - 4, sizeof read));
  EXPECT(read == 9);
  // The data stay when the address goes through which they were first written.
  EXPECT_STATUS(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(range, 16 * mib));
  WORKS(cuMemUnmap(one, 4 * mib));
  WORKS(cuMemcpyDtoH(&read, other + 3 * mib, sizeof read));
  EXPECT(read == 8);
  WORKS(cuMemMap(one, 4 * mib, 0, block, 0));
  WORKS(cuMemcpyDtoH(&read, one + 3 * mib, sizeof read));
  EXPECT(read == 8);
  WORKS(cuMemUnmap(one, 4 * mib));
  WORKS(cuMemUnmap(other, 4 * mib));
  WORKS(cuMemRelease(block));
  EXPECT_STATUS(CUDA_ERROR_INVALID_VALUE, cuMemRelease(block));
  WORKS(cuMemAddressFree(range, 16 * mib));
}

void compiler_logs() {
  std::array<char, 16> information{}, errors{};
  information.fill('x');
  errors.fill('x');
  std::array options{CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_INFO_LOG_BUFFER,
                     CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_ERROR_LOG_BUFFER};
  std::array<void*, 4> values{reinterpret_cast<void*>(information.size()), information.data(),
                              nullptr, errors.data()};
  CUmodule module = nullptr;
  WORKS(cuModuleLoadDataEx(&module, ".version 8.0\n.target sm_90\n.address_size 64\n",
                           options.size(), options.data(), values.data()));
  EXPECT(information[0] == 0 && values[0] == nullptr);  // an empty string, of length 0
  EXPECT(errors[0] == 'x');                             // which had no room
  WORKS(cuModuleUnload(module));
}

// A program's PTX, which begins with a blank as nvopencc's does.
void modules() {
  CUmodule module = nullptr;
  WORKS(cuModuleLoadData(&module,
                         "\t.version 8.0\n\t.target sm_90\n\t.address_size 64\n"
                         ".visible .global .align 4 .u32 counter = 7;\n"
                         ".visible .entry f(.param .u32 n)\n{\n  ret;\n}\n"));
  CUdeviceptr counter = 0;
  std::size_t size = 0;
  EXPECT_STATUS(CUDA_ERROR_NOT_FOUND, cuModuleGetGlobal(&counter, &size, module, "count"));
  WORKS(cuModuleGetGlobal(&counter, &size, module, "counter"));
  unsigned value = 0;
  WORKS(cuMemcpyDtoH(&value, counter, sizeof value));
  EXPECT(size == 4 && value == 7);
  CUfunction function = nullptr;
  EXPECT_STATUS(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&function, module, "g"));
  WORKS(cuModuleGetFunction(&function, module, "f"));
  unsigned number = 0;
  std::array<void*, 1> arguments{&number};
  WORKS(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments.data(), nullptr));
  WORKS(cuModuleUnload(module));
}

void ranges_of_addresses() {
  CUdeviceptr range = 0;
  WORKS(cuMemAddressReserve(&range, 128 * mib, 64 * mib, 0, 0));
  EXPECT(range % (64 * mib) == 0);
  WORKS(cuMemAddressFree(range, 128 * mib));
  EXPECT_STATUS(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&range, 2 * mib, 3 * mib, 0, 0));
}

void managed() {
  char* memory = nullptr;
  WORKS(cudaMallocManaged(reinterpret_cast<void**>(&memory), mib, cudaMemAttachGlobal));
  int where = -9;
  const auto ask = [&](cudaMemRangeAttribute attribute) {
    WORKS(cudaMemRangeGetAttribute(&where, sizeof where, attribute, memory, mib));
    return where;
  };
  EXPECT(ask(cudaMemRangeAttributePreferredLocation) == cudaInvalidDeviceId);
  const cudaMemLocation gpu{cudaMemLocationTypeDevice, 1};
  WORKS(cudaMemAdvise(memory, mib, cudaMemAdviseSetPreferredLocation, gpu));
  EXPECT(ask(cudaMemRangeAttributePreferredLocation) == 1);
  WORKS(cudaMemAdvise(memory, mib, cudaMemAdviseSetReadMostly, gpu));
  EXPECT(ask(cudaMemRangeAttributeReadMostly) == 1);
  WORKS(cudaMemPrefetchAsync(memory, mib, {cudaMemLocationTypeHost, 0}, 0, nullptr));
  EXPECT(ask(cudaMemRangeAttributeLastPrefetchLocation) == cudaCpuDeviceId);
  WORKS(cudaMemAdvise(memory, mib, cudaMemAdviseSetAccessedBy, gpu));
  int users[2] = {-9, -9};
  WORKS(
      cudaMemRangeGetAttribute(users, sizeof users, cudaMemRangeAttributeAccessedBy, memory, mib));
  EXPECT(users[0] == 1 && users[1] == cudaInvalidDeviceId);
  const cudaMemLocation none{cudaMemLocationTypeDevice, 5};
  EXPECT_STATUS(cudaErrorInvalidDevice,
                cudaMemAdvise(memory, mib, cudaMemAdviseSetPreferredLocation, none));
  WORKS(cudaMemset(memory, 1, mib));
  EXPECT(memory[mib - 1] == 1);
  WORKS(cudaFree(memory));
  EXPECT_STATUS(
      cudaErrorInvalidValue,
      cudaMemRangeGetAttribute(&where, sizeof where, cudaMemRangeAttributeReadMostly, memory, mib));
}

void stream_attributes() {
  cudaStream_t one = nullptr, other = nullptr;
  WORKS(cudaStreamCreateWithPriority(&one, cudaStreamNonBlocking, -2));
  WORKS(cudaStreamCreate(&other));
  cudaStreamAttrValue value{};
  WORKS(cudaStreamGetAttribute(one, cudaStreamAttributePriority, &value));
  EXPECT(value.priority == -2);
  value = {};
  value.accessPolicyWindow.num_bytes = 4096;
  WORKS(cudaStreamSetAttribute(one, cudaStreamAttributeAccessPolicyWindow, &value));
  WORKS(cudaStreamCopyAttributes(other, one));
  value = {};
  WORKS(cudaStreamGetAttribute(other, cudaStreamAttributeAccessPolicyWindow, &value));
  EXPECT(value.accessPolicyWindow.num_bytes == 4096);
  EXPECT_STATUS(cudaErrorInvalidValue,
                cudaStreamGetAttribute(one, cudaLaunchAttributeCooperative, &value));
}

/// What a program sets of a device through one API, the other has too.
void contexts() {
  unsigned flags = 0;
  int active = 0;
  WORKS(cuDevicePrimaryCtxSetFlags(1, CU_CTX_SCHED_YIELD));
  WORKS(cudaSetDevice(1));
  WORKS(cudaGetDeviceFlags(&flags));
  EXPECT(flags == (cudaDeviceScheduleYield | cudaDeviceMapHost));
  WORKS(cudaSetDeviceFlags(cudaDeviceScheduleSpin));
  WORKS(cuDevicePrimaryCtxGetState(1, &flags, &active));
  EXPECT(flags == CU_CTX_SCHED_SPIN && active == 1);

  CUcontext other = nullptr, own = nullptr;
  WORKS(cuDevicePrimaryCtxRetain(&other, 1));
  WORKS(cuDevicePrimaryCtxRetain(&own, 0));
  WORKS(cudaSetDevice(0));
  EXPECT_STATUS(CUDA_ERROR_INVALID_VALUE, cuCtxEnablePeerAccess(other, 1));
  EXPECT_STATUS(CUDA_ERROR_INVALID_CONTEXT, cuCtxEnablePeerAccess(own, 0));
  WORKS(cuCtxEnablePeerAccess(other, 0));
  EXPECT_STATUS(cudaErrorPeerAccessAlreadyEnabled, cudaDeviceEnablePeerAccess(1, 0));
  WORKS(cudaDeviceDisablePeerAccess(1));
  WORKS(cudaDeviceEnablePeerAccess(1, 0));
  EXPECT_STATUS(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cuCtxEnablePeerAccess(other, 0));
  WORKS(cuDevicePrimaryCtxRelease(1));
  EXPECT_STATUS(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease(1));
}

/// Where an H200's answers are not the documentation's (h200/errors.txt, h200/launches.txt).
void answers() {
  char host[16] = {};
  void* memory = nullptr;
  WORKS(cudaMalloc(&memory, std::size_t{4} << 30));
  EXPECT_STATUS(cudaErrorInvalidValue,
                cudaMemcpy2D(memory, 8, host, 8, 16, 1, cudaMemcpyHostToDevice));
  EXPECT_STATUS(cudaErrorInvalidResourceHandle, cudaLaunchKernel(host, 1, 1, nullptr, 0, nullptr));
  EXPECT_STATUS(cudaErrorInvalidResourceHandle, cudaGetLastError());
  WORKS(cudaMemsetAsync(memory, 1, std::size_t{4} << 30, nullptr));
  EXPECT_STATUS(cudaErrorNotReady, cudaStreamQuery(nullptr));
  WORKS(cudaGetLastError());  // "not ready" is not kept
  WORKS(cudaFree(memory));
}

/// Between the memories of two GPUs, through the driver.
void peers() {
  std::array<CUdeviceptr, 2> memory{};
  std::array<CUcontext, 2> contexts{};
  for (int device = 0; device < 2; ++device) {
    const auto at = static_cast<std::size_t>(device);
    WORKS(cudaSetDevice(device));
    WORKS(cuCtxGetCurrent(&contexts[at]));
    WORKS(cuMemAlloc(&memory[at], 4));
    WORKS(cuMemsetD32(memory[at], 10U + static_cast<unsigned>(device), 1));
    WORKS(cudaDeviceSynchronize());
  }
  const auto value = [&](std::size_t device) {
    unsigned found = 0;
    WORKS(cuMemcpyDtoH(&found, memory[device], 4));
    return found;
  };
  EXPECT_STATUS(CUDA_ERROR_INVALID_CONTEXT,
                cuMemcpyPeer(memory[0], nullptr, memory[1], contexts[1], 4));
  EXPECT_STATUS(CUDA_ERROR_INVALID_VALUE, cuMemcpyPeer(memory[0], contexts[0], 0, contexts[1], 4));
  WORKS(cuMemcpyPeer(memory[0], contexts[0], memory[1], contexts[1], 4));
  WORKS(cudaDeviceSynchronize());
  EXPECT(value(0) == 11 && value(1) == 11);
  WORKS(cuMemsetD32(memory[0], 7, 1));
  WORKS(cuMemcpyPeerAsync(memory[1], contexts[1], memory[0], contexts[0], 4, nullptr));
  WORKS(cudaDeviceSynchronize());
  EXPECT(value(1) == 7);
  WORKS(cudaSetDevice(0));
}

}  // namespace

int main() {
  answers();
  pools();
  one_memory_at_two_addresses();
  compiler_logs();
  modules();
  ranges_of_addresses();
  managed();
  stream_attributes();
  contexts();
  peers();
  return failures != 0;
}
