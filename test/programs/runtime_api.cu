// What a CUDA C++ program may rely on by CUDA's documentation, checked from inside one, on two
// H200s. Prints what failed; exit status 1 if anything did.
#include <cstdio>
#include <cstring>
#include <vector>

#include <cuda.h>
#include <cuda_runtime.h>

static int failures = 0;

#define EXPECT(condition)                                                  \
  do {                                                                     \
    if (!(condition)) {                                                    \
      std::printf("%s:%d: expected %s\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                          \
    }                                                                      \
  } while (0)
#define EXPECT_STATUS(expected, call)                                            \
  do {                                                                           \
    const cudaError_t status = (call);                                           \
    if (status != (expected)) {                                                  \
      std::printf("%s:%d: %s gave %s, expected %s\n", __FILE__, __LINE__, #call, \
                  cudaGetErrorName(status), cudaGetErrorName(expected));         \
      ++failures;                                                                \
    }                                                                            \
  } while (0)

__constant__ float table[16];
__device__ int counter;
__device__ int begun = 5;
__managed__ int shared_by_all[4];
__managed__ int begun_everywhere = 7;

__global__ void scale(float* data, float factor, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) data[i] *= factor * table[0];
}

__global__ void __launch_bounds__(256) bounded(float* data) { data[threadIdx.x] = 0; }

__global__ void with_static(float* data) {
  __shared__ float tile[4096];
  tile[threadIdx.x] = data[threadIdx.x];
  __syncthreads();
  data[threadIdx.x] = tile[threadIdx.x ^ 1];
}

__global__ void __cluster_dims__(4, 1, 1) in_cluster(float* data) { data[blockIdx.x] = 0; }

static cudaError_t clustered(unsigned grid, unsigned cluster, float* data) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(grid);
  config.blockDim = dim3(32);
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {cluster, 1, 1};
  config.attrs = &attribute;
  config.numAttrs = 1;
  const cudaError_t status = cudaLaunchKernelEx(&config, scale, data, 2.0f, 1);
  cudaGetLastError();
  return status;
}

static void memory() {
  std::size_t free_before = 0, total = 0, free_after = 0;
  EXPECT_STATUS(cudaSuccess, cudaMemGetInfo(&free_before, &total));
  EXPECT(free_before < total);
  void* block = nullptr;
  EXPECT_STATUS(cudaSuccess, cudaMalloc(&block, 1 << 30));
  EXPECT_STATUS(cudaSuccess, cudaMemGetInfo(&free_after, &total));
  EXPECT(free_before - free_after == std::size_t{1} << 30);
  EXPECT_STATUS(cudaSuccess, cudaFree(block));
  EXPECT_STATUS(cudaSuccess, cudaFree(nullptr));
  EXPECT_STATUS(cudaErrorMemoryAllocation, cudaMalloc(&block, total + 1));
  EXPECT_STATUS(cudaErrorMemoryAllocation, cudaPeekAtLastError());
  EXPECT_STATUS(cudaErrorMemoryAllocation, cudaGetLastError());
  EXPECT_STATUS(cudaSuccess, cudaGetLastError());  // cleared

  std::vector<int> out(1024), in(1024);
  for (int i = 0; i < 1024; ++i) out[static_cast<std::size_t>(i)] = 3 * i;
  int *a = nullptr, *b = nullptr;
  EXPECT_STATUS(cudaSuccess, cudaMalloc(&a, 4096));
  EXPECT_STATUS(cudaSuccess, cudaMalloc(&b, 4096));
  EXPECT_STATUS(cudaSuccess, cudaMemcpy(a, out.data(), 4096, cudaMemcpyHostToDevice));
  EXPECT_STATUS(cudaSuccess, cudaMemcpy(b, a, 4096, cudaMemcpyDefault));
  EXPECT_STATUS(cudaSuccess, cudaMemset(b, 0, 4));
  EXPECT_STATUS(cudaSuccess, cudaMemcpy(in.data(), b, 4096, cudaMemcpyDeviceToHost));
  EXPECT(in[0] == 0 && in[1] == 3 && in[1023] == 3069);
  EXPECT_STATUS(cudaErrorInvalidValue,
                cudaMemcpy(in.data(), out.data(), 64, cudaMemcpyHostToDevice));
  EXPECT_STATUS(cudaErrorInvalidValue, cudaGetLastError());

  // A 4 x 4 corner out of a 32 x 32 matrix.
  int corner[16] = {};
  EXPECT_STATUS(cudaSuccess, cudaMemcpy2D(corner, 16, a, 128, 16, 4, cudaMemcpyDeviceToHost));
  EXPECT(corner[0] == 0 && corner[3] == 9 && corner[4] == 96 && corner[15] == 3 * (3 * 32 + 3));

  cudaPointerAttributes attributes{};
  EXPECT_STATUS(cudaSuccess, cudaPointerGetAttributes(&attributes, a));
  EXPECT(attributes.type == cudaMemoryTypeDevice && attributes.device == 0);
  EXPECT_STATUS(cudaSuccess, cudaPointerGetAttributes(&attributes, out.data()));
  EXPECT(attributes.type == cudaMemoryTypeUnregistered);
  void* pinned = nullptr;
  EXPECT_STATUS(cudaSuccess, cudaMallocHost(&pinned, 8192));
  EXPECT_STATUS(cudaSuccess,
                cudaPointerGetAttributes(&attributes, static_cast<char*>(pinned) + 100));
  EXPECT(attributes.type == cudaMemoryTypeHost);
  EXPECT_STATUS(cudaSuccess, cudaFreeHost(pinned));
  EXPECT_STATUS(cudaSuccess, cudaHostRegister(out.data(), 4096, cudaHostRegisterDefault));
  EXPECT_STATUS(cudaErrorHostMemoryAlreadyRegistered,
                cudaHostRegister(out.data(), 4096, cudaHostRegisterDefault));
  EXPECT_STATUS(cudaSuccess, cudaHostUnregister(out.data()));
  EXPECT_STATUS(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(out.data()));
  cudaGetLastError();
  EXPECT_STATUS(cudaSuccess, cudaFree(a));
  EXPECT_STATUS(cudaSuccess, cudaFree(b));

  const float values[16] = {2.0f};
  float back[16] = {};
  EXPECT_STATUS(cudaSuccess, cudaMemcpyToSymbol(table, values, sizeof values));
  EXPECT_STATUS(cudaSuccess, cudaMemcpyFromSymbol(back, table, sizeof back));
  EXPECT(back[0] == 2.0f && back[15] == 0.0f);
  std::size_t size = 0;
  EXPECT_STATUS(cudaSuccess, cudaGetSymbolSize(&size, counter));
  EXPECT(size == sizeof(int));
  int first = 0;
  EXPECT_STATUS(cudaSuccess, cudaMemcpyFromSymbol(&first, begun, sizeof first));
  EXPECT(first == 5);
  EXPECT_STATUS(cudaSuccess, cudaMemcpyFromSymbol(&first, counter, sizeof first));
  EXPECT(first == 0);
  EXPECT(begun_everywhere == 7);

  cudaMemPool_t pool{};
  EXPECT_STATUS(cudaSuccess, cudaDeviceGetDefaultMemPool(&pool, 0));
  EXPECT_STATUS(cudaSuccess, cudaMallocAsync(&block, 1 << 20, nullptr));
  unsigned long long used = 0;
  EXPECT_STATUS(cudaSuccess, cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  EXPECT(used == 1 << 20);
  EXPECT_STATUS(cudaSuccess, cudaFreeAsync(block, nullptr));
  EXPECT_STATUS(cudaSuccess, cudaDeviceSynchronize());
}

static void launches() {
  float* data = nullptr;
  EXPECT_STATUS(cudaSuccess, cudaMalloc(&data, 1 << 26));
  scale<<<1 << 16, 256>>>(data, 2.0f, 1 << 24);
  EXPECT_STATUS(cudaSuccess, cudaGetLastError());
  // CUDA 13's <<<>>> says no more on an H200 (test/native/h200/launches.txt).
  scale<<<1, 2048>>>(data, 2.0f, 1);
  EXPECT_STATUS(cudaErrorInvalidValue, cudaGetLastError());
  scale<<<0, 32>>>(data, 2.0f, 1);
  EXPECT_STATUS(cudaErrorInvalidValue, cudaGetLastError());
  scale<<<1, 32, 100 * 1024>>>(data, 2.0f, 1);
  EXPECT_STATUS(cudaErrorInvalidValue, cudaGetLastError());
  EXPECT_STATUS(cudaSuccess, cudaFuncSetAttribute(
                                 scale, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 * 1024));
  scale<<<1, 32, 100 * 1024>>>(data, 2.0f, 1);
  EXPECT_STATUS(cudaSuccess, cudaGetLastError());
  bounded<<<1, 512>>>(data);
  EXPECT_STATUS(cudaErrorInvalidValue, cudaGetLastError());

  cudaFuncAttributes attributes{};
  EXPECT_STATUS(cudaSuccess, cudaFuncGetAttributes(&attributes, bounded));
  EXPECT(attributes.maxThreadsPerBlock == 256);
  EXPECT(attributes.numRegs > 0 && attributes.numRegs < 64);
  // A kernel's own shared memory counts towards the 48 KiB.
  with_static<<<1, 32, 32 * 1024>>>(data);
  EXPECT_STATUS(cudaSuccess, cudaGetLastError());
  with_static<<<1, 32, 32 * 1024 + 1>>>(data);
  EXPECT_STATUS(cudaErrorInvalidValue, cudaGetLastError());
  in_cluster<<<8, 32>>>(data);
  EXPECT_STATUS(cudaSuccess, cudaGetLastError());
  in_cluster<<<6, 32>>>(data);
  EXPECT_STATUS(cudaErrorInvalidClusterSize, cudaGetLastError());
  EXPECT_STATUS(cudaSuccess, cudaFuncGetAttributes(&attributes, in_cluster));
  EXPECT(attributes.requiredClusterWidth == 4 && attributes.clusterDimMustBeSet == 1);
  EXPECT_STATUS(cudaSuccess, clustered(8, 8, data));
  EXPECT_STATUS(cudaErrorInvalidClusterSize, clustered(16, 16, data));
  EXPECT_STATUS(cudaSuccess,
                cudaFuncSetAttribute(scale, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  EXPECT_STATUS(cudaSuccess, clustered(16, 16, data));
  EXPECT_STATUS(cudaErrorInvalidClusterSize, clustered(17, 17, data));

  int blocks = 0;
  EXPECT_STATUS(cudaSuccess, cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, scale, 256, 0));
  EXPECT(blocks == 8);  // 2048 threads per SM / 256, with few registers
  EXPECT_STATUS(cudaSuccess,
                cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, scale, 256, 100 * 1024));
  EXPECT(blocks == 2);  // 228 KiB per SM / (100 + 1) KiB
  EXPECT_STATUS(cudaSuccess, cudaFree(data));
  EXPECT_STATUS(cudaSuccess, cudaDeviceSynchronize());
}

static void streams_and_events() {
  float* data = nullptr;
  EXPECT_STATUS(cudaSuccess, cudaMalloc(&data, 1 << 28));
  cudaStream_t one{}, two{};
  cudaEvent_t start{}, end{}, untimed{};
  EXPECT_STATUS(cudaSuccess, cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
  EXPECT_STATUS(cudaSuccess, cudaStreamCreateWithPriority(&two, cudaStreamNonBlocking, -1));
  int priority = 0;
  EXPECT_STATUS(cudaSuccess, cudaStreamGetPriority(two, &priority));
  EXPECT(priority == -1);
  EXPECT_STATUS(cudaSuccess, cudaEventCreate(&start));
  EXPECT_STATUS(cudaSuccess, cudaEventCreate(&end));
  EXPECT_STATUS(cudaSuccess, cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
  EXPECT_STATUS(cudaSuccess, cudaEventQuery(start));  // never recorded: complete
  float ms = 0;
  EXPECT_STATUS(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, start, end));
  EXPECT_STATUS(cudaSuccess, cudaEventRecord(start, one));
  for (int i = 0; i < 10; ++i) scale<<<1 << 18, 256, 0, one>>>(data, 2.0f, 1 << 26);
  EXPECT_STATUS(cudaSuccess, cudaEventRecord(end, one));
  EXPECT_STATUS(cudaErrorNotReady, cudaStreamQuery(one));
  EXPECT_STATUS(cudaErrorNotReady, cudaEventQuery(end));
  EXPECT_STATUS(cudaSuccess, cudaStreamWaitEvent(two, end));
  EXPECT_STATUS(cudaSuccess, cudaStreamSynchronize(two));
  EXPECT_STATUS(cudaSuccess, cudaEventQuery(end));
  EXPECT_STATUS(cudaSuccess, cudaEventElapsedTime(&ms, start, end));
  // 10 kernels that read and write 256 MiB each: at 4.8 TB/s no less than 1.1 ms.
  EXPECT(ms > 1.1f && ms < 11.0f);
  EXPECT_STATUS(cudaSuccess, cudaEventRecord(untimed, one));
  EXPECT_STATUS(cudaSuccess, cudaEventSynchronize(untimed));
  EXPECT_STATUS(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, start, untimed));

  static int called = 0;
  EXPECT_STATUS(cudaSuccess, cudaLaunchHostFunc(
                                 one, [](void* count) { ++*static_cast<int*>(count); }, &called));
  EXPECT_STATUS(cudaSuccess, cudaStreamSynchronize(one));
  EXPECT(called == 1);
  cudaStreamCaptureStatus capture{};
  EXPECT_STATUS(cudaSuccess, cudaStreamIsCapturing(one, &capture));
  EXPECT(capture == cudaStreamCaptureStatusNone);
  EXPECT_STATUS(cudaSuccess, cudaStreamDestroy(one));
  EXPECT_STATUS(cudaSuccess, cudaStreamDestroy(two));
  for (cudaEvent_t event : {start, end, untimed})
    EXPECT_STATUS(cudaSuccess, cudaEventDestroy(event));
  EXPECT_STATUS(cudaSuccess, cudaFree(data));
  cudaGetLastError();
}

static void devices() {
  int count = 0, value = 0;
  EXPECT_STATUS(cudaSuccess, cudaGetDeviceCount(&count));
  EXPECT(count == 2);
  cudaDeviceProp prop{}, other{};
  EXPECT_STATUS(cudaSuccess, cudaGetDeviceProperties(&prop, 0));
  EXPECT_STATUS(cudaSuccess, cudaGetDeviceProperties(&other, 1));
  EXPECT(std::strcmp(prop.name, "NVIDIA H200") == 0);
  EXPECT(prop.totalGlobalMem == 150109880320u && prop.multiProcessorCount == 132);
  EXPECT(prop.major == 9 && prop.minor == 0 && prop.sharedMemPerBlockOptin == 232448u);
  EXPECT(std::memcmp(&prop.uuid, &other.uuid, sizeof prop.uuid) != 0);
  char address[32] = {};
  EXPECT_STATUS(cudaSuccess, cudaDeviceGetPCIBusId(address, sizeof address, 1));
  int device = -1;
  EXPECT_STATUS(cudaSuccess, cudaDeviceGetByPCIBusId(&device, address));
  EXPECT(device == 1);
  EXPECT_STATUS(cudaErrorInvalidDevice, cudaSetDevice(2));
  cudaGetLastError();
  EXPECT_STATUS(cudaSuccess, cudaDeviceGetAttribute(&value, cudaDevAttrClockRate, 0));
  EXPECT(value == 1980000);
  EXPECT_STATUS(cudaSuccess, cudaDeviceCanAccessPeer(&value, 0, 1));
  EXPECT(value == 1);
  EXPECT_STATUS(cudaSuccess, cudaDeviceEnablePeerAccess(1, 0));
  EXPECT_STATUS(cudaErrorPeerAccessAlreadyEnabled, cudaDeviceEnablePeerAccess(1, 0));
  cudaGetLastError();
  int *a = nullptr, *b = nullptr, in = 42, out = 0;
  EXPECT_STATUS(cudaSuccess, cudaMalloc(&a, 4));
  EXPECT_STATUS(cudaSuccess, cudaSetDevice(1));
  EXPECT_STATUS(cudaSuccess, cudaMalloc(&b, 4));
  EXPECT_STATUS(cudaSuccess, cudaMemcpy(a, &in, 4, cudaMemcpyHostToDevice));
  EXPECT_STATUS(cudaSuccess, cudaMemcpyPeer(b, 1, a, 0, 4));
  EXPECT_STATUS(cudaSuccess, cudaMemcpy(&out, b, 4, cudaMemcpyDeviceToHost));
  EXPECT(out == 42);
  EXPECT_STATUS(cudaSuccess, cudaSetDevice(0));
}

/// An entry point of the driver, as libraries get it; null if there is none.
template <class Function>
static Function* driver_function(const char* name, unsigned version,
                                 cudaDriverEntryPointQueryResult expected) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result{};
  EXPECT_STATUS(cudaSuccess, cudaGetDriverEntryPointByVersion(name, &function, version,
                                                              cudaEnableDefault, &result));
  EXPECT(result == expected);
  return reinterpret_cast<Function*>(function);
}

static void driver() {
  constexpr auto found = cudaDriverEntryPointSuccess;
  EXPECT(!driver_function<void()>("cuNoSuchThing", 12000, cudaDriverEntryPointSymbolNotFound));
  EXPECT(!driver_function<void()>("cuMemCreate", 10000, cudaDriverEntryPointVersionNotSufficent));
  const auto create = driver_function<decltype(cuMemCreate)>("cuMemCreate", 12000, found);
  const auto release = driver_function<decltype(cuMemRelease)>("cuMemRelease", 12000, found);
  const auto reserve =
      driver_function<decltype(cuMemAddressReserve)>("cuMemAddressReserve", 12000, found);
  const auto give_back =
      driver_function<decltype(cuMemAddressFree)>("cuMemAddressFree", 12000, found);
  const auto map = driver_function<decltype(cuMemMap)>("cuMemMap", 12000, found);
  const auto unmap = driver_function<decltype(cuMemUnmap)>("cuMemUnmap", 12000, found);
  const auto set_access = driver_function<decltype(cuMemSetAccess)>("cuMemSetAccess", 12000, found);
  const auto text = driver_function<decltype(cuGetErrorName)>("cuGetErrorName", 12000, found);
  const auto attribute =
      driver_function<decltype(cuDeviceGetAttribute)>("cuDeviceGetAttribute", 12000, found);
  if (failures) return;

  int value = 0;
  EXPECT(attribute(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0) == CUDA_SUCCESS);
  EXPECT(value == 132);
  const char* name = nullptr;
  EXPECT(text(CUDA_ERROR_NOT_READY, &name) == CUDA_SUCCESS);
  EXPECT(name && std::strcmp(name, "CUDA_ERROR_NOT_READY") == 0);

  // Two blocks of memory at neighbouring addresses are one piece to the program.
  constexpr std::size_t block = std::size_t{2} << 20;
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUdeviceptr range = 0;
  CUmemGenericAllocationHandle handles[2] = {};
  std::size_t free_before = 0, free_now = 0, total = 0;
  EXPECT_STATUS(cudaSuccess, cudaMemGetInfo(&free_before, &total));
  EXPECT(reserve(&range, 16 * block, 0, 0, 0) == CUDA_SUCCESS);
  EXPECT_STATUS(cudaSuccess, cudaMemGetInfo(&free_now, &total));
  EXPECT(free_now == free_before);  // addresses cost nothing
  for (int i = 0; i < 2; ++i) {
    EXPECT(create(&handles[i], block, &prop, 0) == CUDA_SUCCESS);
    EXPECT(map(range + static_cast<CUdeviceptr>(i) * block, block, 0, handles[i], 0) ==
           CUDA_SUCCESS);
  }
  EXPECT(map(range, block, 0, handles[0], 0) == CUDA_ERROR_INVALID_VALUE);  // taken
  CUmemAccessDesc access{};
  access.location = prop.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  EXPECT(set_access(range, 3 * block, &access, 1) == CUDA_ERROR_INVALID_VALUE);  // not all mapped
  EXPECT(set_access(range, 2 * block, &access, 1) == CUDA_SUCCESS);
  EXPECT_STATUS(cudaSuccess, cudaMemGetInfo(&free_now, &total));
  EXPECT(free_before - free_now == 2 * block);
  const long long out[2] = {7, 8};
  long long in[2] = {};
  void* const middle = reinterpret_cast<void*>(range + block - sizeof(long long));
  EXPECT_STATUS(cudaSuccess, cudaMemcpy(middle, out, sizeof out, cudaMemcpyHostToDevice));
  EXPECT_STATUS(cudaSuccess, cudaMemcpy(in, middle, sizeof in, cudaMemcpyDeviceToHost));
  EXPECT(in[0] == 7 && in[1] == 8);
  for (const auto handle : handles) EXPECT(release(handle) == CUDA_SUCCESS);
  EXPECT_STATUS(cudaSuccess, cudaMemGetInfo(&free_now, &total));
  EXPECT(free_before - free_now == 2 * block);  // the mappings still hold it
  EXPECT(unmap(range, 2 * block) == CUDA_SUCCESS);
  EXPECT_STATUS(cudaSuccess, cudaMemGetInfo(&free_now, &total));
  EXPECT(free_now == free_before);
  EXPECT(give_back(range, 16 * block) == CUDA_SUCCESS);
}

static void managed_variable() {
  shared_by_all[1] = 5;  // the host uses it as its own
  const int seven = 7;
  EXPECT_STATUS(cudaSuccess, cudaMemcpyToSymbol(shared_by_all, &seven, sizeof seven, 8));
  EXPECT_STATUS(cudaSuccess, cudaMemset(shared_by_all, 1, 1));
  EXPECT_STATUS(cudaSuccess, cudaStreamAttachMemAsync(nullptr, shared_by_all));
  EXPECT_STATUS(cudaSuccess, cudaDeviceSynchronize());
  EXPECT(shared_by_all[0] == 1 && shared_by_all[1] == 5 && shared_by_all[2] == 7);
  int back = 0;
  EXPECT_STATUS(cudaSuccess, cudaMemcpyFromSymbol(&back, shared_by_all, sizeof back, 4));
  EXPECT(back == 5);
}

int main() {
  devices();
  driver();
  memory();
  managed_variable();
  launches();
  streams_and_events();
  if (failures == 0) std::printf("all as expected\n");
  return failures ? 1 : 0;
}
