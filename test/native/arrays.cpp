// Arrays, copies of boxes, and the objects through which kernels see them.
#include "expect.hpp"

#include <cstring>
#include <numeric>
#include <vector>

namespace {

constexpr cudaChannelFormatDesc floats{32, 0, 0, 0, cudaChannelFormatKindFloat};

std::vector<float> counting(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0F);
  return values;
}

void descriptions() {
  const cudaChannelFormatDesc desc =
      cudaCreateChannelDesc(8, 8, 8, 8, cudaChannelFormatKindUnsigned);
  EXPECT(desc.x == 8 && desc.w == 8 && desc.f == cudaChannelFormatKindUnsigned);
  cudaArray_t array = nullptr;
  WORKS(cudaMallocArray(&array, &desc, 64, 32, cudaArraySurfaceLoadStore));
  cudaChannelFormatDesc got{};
  cudaExtent extent{};
  unsigned flags = 0;
  WORKS(cudaArrayGetInfo(&got, &extent, &flags, array));
  EXPECT(std::memcmp(&got, &desc, sizeof got) == 0);
  EXPECT(extent.width == 64 && extent.height == 32 && extent.depth == 0);
  EXPECT(flags == cudaArraySurfaceLoadStore);
  CUDA_ARRAY3D_DESCRIPTOR driver{};
  WORKS(cuArray3DGetDescriptor(&driver, reinterpret_cast<CUarray>(array)));
  EXPECT(driver.Format == CU_AD_FORMAT_UNSIGNED_INT8 && driver.NumChannels == 4);
  WORKS(cudaFreeArray(array));
  EXPECT_STATUS(cudaErrorInvalidResourceHandle, cudaFreeArray(array));

  const cudaChannelFormatDesc uneven{32, 16, 0, 0, cudaChannelFormatKindFloat};
  EXPECT_STATUS(cudaErrorInvalidChannelDescriptor, cudaMallocArray(&array, &uneven, 8, 8, 0));
  EXPECT_STATUS(cudaErrorInvalidValue, cudaMallocArray(&array, &floats, 0, 8, 0));
  EXPECT_STATUS(cudaErrorInvalidValue,
                cudaMalloc3DArray(&array, &floats, {8, 8, 5}, cudaArrayCubemap));
  const cudaChannelFormatDesc blocks{8, 8, 8, 8, cudaChannelFormatKindUnsignedBlockCompressed1};
  EXPECT_STATUS(cudaErrorNotSupported, cudaMallocArray(&array, &blocks, 8, 8, 0));

  std::size_t before = 0, during = 0, after = 0, total = 0;
  WORKS(cudaMemGetInfo(&before, &total));
  WORKS(cudaMallocArray(&array, &floats, 4096, 4096, 0));
  WORKS(cudaMemGetInfo(&during, &total));
  WORKS(cudaFreeArray(array));
  WORKS(cudaMemGetInfo(&after, &total));
  EXPECT(before - during == std::size_t{64} << 20);
  EXPECT(after == before);
}

void rectangles() {
  constexpr std::size_t width = 32, height = 8;
  const std::vector<float> values = counting(width * height);
  cudaArray_t array = nullptr, other = nullptr;
  WORKS(cudaMallocArray(&array, &floats, width, height, 0));
  WORKS(cudaMallocArray(&other, &floats, width, height, 0));
  WORKS(cudaMemcpy2DToArray(array, 0, 0, values.data(), width * 4, width * 4, height,
                            cudaMemcpyHostToDevice));
  std::vector<float> back(width * height);
  WORKS(cudaMemcpy2DFromArray(back.data(), width * 4, array, 0, 0, width * 4, height,
                              cudaMemcpyDeviceToHost));
  EXPECT(back == values);
  // A corner into the middle of the other array, and out of it in one piece.
  WORKS(cudaMemcpy2DArrayToArray(other, 16, 2, array, 8, 1, 8, 3, cudaMemcpyDeviceToDevice));
  float corner[6] = {};
  WORKS(cudaMemcpy2DFromArrayAsync(corner, 8, other, 16, 2, 8, 3, cudaMemcpyDeviceToHost, nullptr));
  WORKS(cudaDeviceSynchronize());
  for (int row = 0; row < 3; ++row) {
    EXPECT(corner[2 * row] == static_cast<float>((1 + row) * 32 + 2));
    EXPECT(corner[2 * row + 1] == static_cast<float>((1 + row) * 32 + 3));
  }
  EXPECT_STATUS(cudaErrorInvalidValue,
                cudaMemcpy2DToArray(array, 4, 0, values.data(), width * 4, width * 4, height,
                                    cudaMemcpyHostToDevice));
  EXPECT_STATUS(cudaErrorInvalidResourceHandle,
                cudaMemcpy2DToArray(nullptr, 0, 0, values.data(), 4, 4, 1, cudaMemcpyHostToDevice));
  WORKS(cudaFreeArray(array));
  WORKS(cudaFreeArray(other));
}

void boxes() {
  constexpr std::size_t width = 6, height = 5, depth = 4;
  std::vector<float> values = counting(width * height * depth);
  cudaArray_t array = nullptr;
  WORKS(cudaMalloc3DArray(&array, &floats, {width, height, depth}, 0));
  cudaMemcpy3DParms in{};
  in.srcPtr = {values.data(), width * 4, width, height};
  in.dstArray = array;
  in.extent = {width, height, depth};
  in.kind = cudaMemcpyHostToDevice;
  WORKS(cudaMemcpy3D(&in));

  cudaPitchedPtr pitched{};
  WORKS(cudaMalloc3D(&pitched, {width * 4, height, depth}));
  EXPECT(pitched.pitch == 512 && pitched.ysize == height);
  WORKS(cudaMemset3D(pitched, 0, {width * 4, height, depth}));
  cudaMemcpy3DParms inside{};  // elements (1, 2, 1) to (4, 4, 3)
  inside.srcArray = array;
  inside.srcPos = {1, 2, 1};
  inside.dstPtr = pitched;
  inside.dstPos = {2, 1, 0};
  inside.extent = {3, 2, 2};
  inside.kind = cudaMemcpyDeviceToDevice;
  WORKS(cudaMemcpy3DAsync(&inside, nullptr));
  std::vector<float> back(width * height * depth, -1.0F);
  cudaMemcpy3DParms out{};
  out.srcPtr = pitched;
  out.dstPtr = {back.data(), width * 4, width, height};
  out.extent = {width * 4, height, depth};
  out.kind = cudaMemcpyDeviceToHost;
  WORKS(cudaMemcpy3D(&out));
  for (std::size_t z = 0; z < depth; ++z) {
    for (std::size_t y = 0; y < height; ++y) {
      for (std::size_t x = 0; x < width; ++x) {
        const bool moved = x >= 2 && x < 5 && y >= 1 && y < 3 && z < 2;
        const std::size_t from = ((z + 1) * height + y + 1) * width + x - 1;
        EXPECT(back[(z * height + y) * width + x] == (moved ? static_cast<float>(from) : 0.0F));
      }
    }
  }
  out.extent.depth = 5;
  out.srcPtr = {};
  out.srcArray = array;
  out.extent = {width, height, depth + 1};
  EXPECT_STATUS(cudaErrorInvalidValue, cudaMemcpy3D(&out));
  WORKS(cudaFree(pitched.ptr));
  WORKS(cudaFreeArray(array));
}

void driver_copies() {
  constexpr std::size_t width = 16, height = 4;
  const std::vector<float> values = counting(width * height);
  CUDA_ARRAY_DESCRIPTOR desc{};
  desc.Width = width;
  desc.Height = height;
  desc.Format = CU_AD_FORMAT_FLOAT;
  desc.NumChannels = 1;
  CUarray array = nullptr;
  WORKS(cuArrayCreate(&array, &desc));
  CUDA_MEMCPY2D in{};
  in.srcMemoryType = CU_MEMORYTYPE_HOST;
  in.srcHost = values.data();
  in.srcPitch = width * 4;
  in.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  in.dstArray = array;
  in.WidthInBytes = width * 4;
  in.Height = height;
  WORKS(cuMemcpy2D(&in));
  float row[width] = {};
  WORKS(cuMemcpyAtoH(row, array, 8, 16));
  EXPECT(row[0] == 2 && row[3] == 5);
  CUdeviceptr memory = 0;
  WORKS(cuMemAlloc(&memory, 1024));
  WORKS(cuMemsetD2D32(memory, 256, 7, 4, 4));
  CUDA_MEMCPY2D out{};
  out.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  out.srcArray = array;
  out.srcY = 3;
  out.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  out.dstDevice = memory;
  out.dstXInBytes = 8;
  out.WidthInBytes = 8;
  out.Height = 1;
  WORKS(cuMemcpy2D(&out));
  float four[4] = {};
  int seven = 0;
  WORKS(cuMemcpyDtoH(four, memory, sizeof four));
  WORKS(cuMemcpyDtoH(&seven, memory + 3 * 256 + 12, sizeof seven));
  EXPECT(four[2] == 48 && four[3] == 49);
  EXPECT(seven == 7);
  WORKS(cuArrayDestroy(array));
  EXPECT_STATUS(CUDA_ERROR_INVALID_HANDLE, cuArrayDestroy(array));
  WORKS(cuMemFree(memory));
}

void objects() {
  cudaArray_t array = nullptr;
  WORKS(cudaMallocArray(&array, &floats, 64, 64, cudaArraySurfaceLoadStore));
  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaTextureDesc texture{};
  texture.filterMode = cudaFilterModeLinear;
  cudaTextureObject_t object = 0;
  WORKS(cudaCreateTextureObject(&object, &resource, &texture, nullptr));
  EXPECT(object != 0);
  cudaTextureDesc got{};
  WORKS(cudaGetTextureObjectTextureDesc(&got, object));
  EXPECT(got.filterMode == cudaFilterModeLinear);
  WORKS(cudaDestroyTextureObject(object));
  EXPECT_STATUS(cudaErrorInvalidValue, cudaGetTextureObjectTextureDesc(&got, object));
  cudaSurfaceObject_t surface = 0;
  WORKS(cudaCreateSurfaceObject(&surface, &resource));
  WORKS(cudaDestroySurfaceObject(surface));
  EXPECT_STATUS(cudaErrorInvalidValue, cudaDestroySurfaceObject(surface));
  WORKS(cudaFreeArray(array));
  EXPECT_STATUS(cudaErrorInvalidValue,
                cudaCreateTextureObject(&object, &resource, &texture, nullptr));

  void* memory = nullptr;
  WORKS(cudaMalloc(&memory, 4096));
  cudaResourceDesc linear{};
  linear.resType = cudaResourceTypeLinear;
  linear.res.linear.devPtr = static_cast<char*>(memory) + 4;
  linear.res.linear.desc = floats;
  linear.res.linear.sizeInBytes = 1024;
  EXPECT_STATUS(cudaErrorInvalidValue,
                cudaCreateTextureObject(&object, &linear, &texture, nullptr));
  linear.res.linear.devPtr = memory;
  WORKS(cudaCreateTextureObject(&object, &linear, &texture, nullptr));
  WORKS(cudaDestroyTextureObject(object));
  WORKS(cudaFree(memory));
}

/// An object that one API made is the other's too.
void objects_of_either() {
  cudaArray_t array = nullptr;
  WORKS(cudaMallocArray(&array, &floats, 64, 64, cudaArraySurfaceLoadStore));
  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaTextureDesc texture{};
  texture.addressMode[1] = cudaAddressModeMirror;
  texture.normalizedCoords = 1;
  texture.borderColor[2] = 0.5F;
  cudaResourceViewDesc view{};
  view.format = cudaResViewFormatFloat1;
  view.width = 64;
  cudaTextureObject_t object = 0;
  WORKS(cudaCreateTextureObject(&object, &resource, &texture, &view));
  CUDA_TEXTURE_DESC told{};
  WORKS(cuTexObjectGetTextureDesc(&told, object));
  EXPECT(told.addressMode[1] == CU_TR_ADDRESS_MODE_MIRROR && told.borderColor[2] == 0.5F);
  EXPECT(told.flags == (CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES));
  CUDA_RESOURCE_DESC told_resource{};
  WORKS(cuTexObjectGetResourceDesc(&told_resource, object));
  EXPECT(told_resource.res.array.hArray == reinterpret_cast<CUarray>(array));
  CUDA_RESOURCE_VIEW_DESC told_view{};
  WORKS(cuTexObjectGetResourceViewDesc(&told_view, object));
  EXPECT(told_view.format == CU_RES_VIEW_FORMAT_FLOAT_1X32 && told_view.width == 64);
  cudaTextureDesc same{};
  WORKS(cudaGetTextureObjectTextureDesc(&same, object));
  EXPECT(std::memcmp(&same, &texture, sizeof same) == 0);
  WORKS(cuTexObjectDestroy(object));
  EXPECT_STATUS(cudaErrorInvalidValue, cudaDestroyTextureObject(object));

  CUsurfObject surface = 0;
  WORKS(cuSurfObjectCreate(&surface, &told_resource));
  cudaResourceDesc back{};
  WORKS(cudaGetSurfaceObjectResourceDesc(&back, surface));
  EXPECT(back.resType == cudaResourceTypeArray && back.res.array.array == array);
  WORKS(cudaDestroySurfaceObject(surface));
  WORKS(cudaFreeArray(array));

  CUdeviceptr memory = 0;
  WORKS(cuMemAlloc(&memory, 65536));
  CUDA_RESOURCE_DESC rows{};
  rows.resType = CU_RESOURCE_TYPE_PITCH2D;
  rows.res.pitch2D = {memory, CU_AD_FORMAT_HALF, 2, 16, 8, 512};
  told = {};
  WORKS(cuTexObjectCreate(&object, &rows, &told, nullptr));
  WORKS(cudaGetTextureObjectResourceDesc(&back, object));
  EXPECT(back.resType == cudaResourceTypePitch2D && back.res.pitch2D.pitchInBytes == 512);
  EXPECT(back.res.pitch2D.desc.y == 16 && back.res.pitch2D.desc.z == 0 &&
         back.res.pitch2D.desc.f == cudaChannelFormatKindFloat);
  EXPECT_STATUS(cudaErrorInvalidValue, cudaGetTextureObjectResourceViewDesc(&view, object));
  WORKS(cudaDestroyTextureObject(object));
  EXPECT_STATUS(CUDA_ERROR_INVALID_VALUE, cuTexObjectDestroy(object));
  WORKS(cuMemFree(memory));
}

void mipmaps() {
  cudaMipmappedArray_t array = nullptr;
  WORKS(cudaMallocMipmappedArray(&array, &floats, {16, 8, 0}, 5, 0));
  cudaArray_t level = nullptr;
  WORKS(cudaGetMipmappedArrayLevel(&level, array, 2));
  cudaExtent extent{};
  WORKS(cudaArrayGetInfo(nullptr, &extent, nullptr, level));
  EXPECT(extent.width == 4 && extent.height == 2 && extent.depth == 0);
  EXPECT_STATUS(cudaErrorInvalidValue, cudaGetMipmappedArrayLevel(&level, array, 5));
  WORKS(cudaFreeMipmappedArray(array));
  EXPECT_STATUS(cudaErrorInvalidValue, cudaMallocMipmappedArray(&array, &floats, {16, 8, 0}, 6, 0));
}

void fills() {
  char* memory = nullptr;
  WORKS(cudaMalloc(reinterpret_cast<void**>(&memory), 1000));
  WORKS(cudaMemset(memory, 1, 1000));
  EXPECT_STATUS(cudaErrorInvalidValue, cudaMemset(memory, 1, 1001));
  EXPECT_STATUS(cudaErrorInvalidValue, cudaMemset(memory + 500, 1, 501));
  EXPECT_STATUS(cudaErrorInvalidValue, cudaMemset2D(memory, 100, 1, 50, 11));
  WORKS(cudaMemset2D(memory, 100, 1, 50, 10));
  WORKS(cudaFree(memory));
}

template <class Work>
float milliseconds(cudaStream_t stream, Work&& work) {
  cudaEvent_t start = nullptr, end = nullptr;
  WORKS(cudaEventCreate(&start));
  WORKS(cudaEventCreate(&end));
  WORKS(cudaEventRecord(start, stream));
  work();
  WORKS(cudaEventRecord(end, stream));
  WORKS(cudaEventSynchronize(end));
  float time = 0;
  WORKS(cudaEventElapsedTime(&time, start, end));
  WORKS(cudaEventDestroy(start));
  WORKS(cudaEventDestroy(end));
  return time;
}

// A copy is priced by the bytes that it moves, however they lie, and once whatever its dimensions.
void prices() {
  constexpr std::size_t width = 1024, rows = 256, slices = 64, pitch = 2 * width;
  constexpr std::size_t bytes = width * rows * slices;
  char *from = nullptr, *to = nullptr;
  WORKS(cudaMalloc(reinterpret_cast<void**>(&from), pitch * rows * slices));
  WORKS(cudaMalloc(reinterpret_cast<void**>(&to), pitch * rows * slices));
  cudaStream_t stream = nullptr;
  WORKS(cudaStreamCreate(&stream));
  const float plain = milliseconds(
      stream, [&] { WORKS(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream)); });
  EXPECT(plain > 0);
  EXPECT(plain == milliseconds(stream, [&] {
           WORKS(cudaMemcpy2DAsync(to, pitch, from, pitch, width, rows * slices,
                                   cudaMemcpyDeviceToDevice, stream));
         }));
  cudaMemcpy3DParms box{};
  box.srcPtr = {from, pitch, width, rows};
  box.dstPtr = {to, pitch, width, rows};
  box.extent = {width, rows, slices};
  box.kind = cudaMemcpyDeviceToDevice;
  EXPECT(plain == milliseconds(stream, [&] { WORKS(cudaMemcpy3DAsync(&box, stream)); }));

  // As a graph's node it is one copy too, and is told as it was captured.
  cudaGraph_t graph = nullptr;
  WORKS(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  WORKS(cudaMemcpy3DAsync(&box, stream));
  WORKS(cudaStreamEndCapture(stream, &graph));
  cudaGraphNode_t node = nullptr;
  std::size_t nodes = 1;
  WORKS(cudaGraphGetNodes(graph, &node, &nodes));
  EXPECT(nodes == 1);
  cudaMemcpy3DParms told{};
  WORKS(cudaGraphMemcpyNodeGetParams(node, &told));
  EXPECT(told.extent.width == width && told.extent.height == rows && told.extent.depth == slices);
  EXPECT(told.srcPtr.ptr == from && told.srcPtr.pitch == pitch && told.srcPtr.ysize == rows);
  cudaGraphExec_t run = nullptr;
  WORKS(cudaGraphInstantiate(&run, graph, 0));
  EXPECT(plain == milliseconds(stream, [&] { WORKS(cudaGraphLaunch(run, stream)); }));
  WORKS(cudaGraphExecDestroy(run));
  WORKS(cudaGraphDestroy(graph));
  WORKS(cudaStreamDestroy(stream));
  WORKS(cudaFree(from));
  WORKS(cudaFree(to));
}

}  // namespace

int main() {
  descriptions();
  rectangles();
  boxes();
  driver_copies();
  objects();
  objects_of_either();
  mipmaps();
  fills();
  prices();
  return failures != 0;
}
