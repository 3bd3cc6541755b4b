// cuFFT, cuRAND, cuSPARSE and cuSOLVER, as native programs and PyTorch call them. Their headers are
// not among those that the build fetches: the functions are declared here, by their documented ABI.
#include "expect.hpp"

#include <cstdint>
#include <vector>

#include <library_types.h>

extern "C" {
int cufftPlan1d(int*, int, int, int);
int cufftPlan2d(int*, int, int, int);
int cufftPlanMany(int*, int, int*, int*, int, int, int*, int, int, int, int);
int cufftGetSize(int, std::size_t*);
int cufftExecC2C(int, void*, void*, int);
int cufftExecR2C(int, void*, void*);
int cufftDestroy(int);
int curandCreateGenerator(void**, int);
int curandCreateGeneratorHost(void**, int);
int curandSetPseudoRandomGeneratorSeed(void*, unsigned long long);
int curandGenerateUniform(void*, float*, std::size_t);
int curandGenerateNormal(void*, float*, std::size_t, float, float);
int curandSetQuasiRandomGeneratorDimensions(void*, unsigned);
int curandDestroyGenerator(void*);
int curandGetDirectionVectors32(unsigned**, int);
int curandGetScrambleConstants64(unsigned long long**);
int cusparseCreate(void**);
int cusparseDestroy(void*);
int cusparseCreateCsr(void**, std::int64_t, std::int64_t, std::int64_t, void*, void*, void*, int,
                      int, int, cudaDataType);
int cusparseCreateDnVec(void**, std::int64_t, void*, cudaDataType);
int cusparseSpMV_bufferSize(void*, int, const void*, const void*, const void*, const void*, void*,
                            cudaDataType, int, std::size_t*);
int cusparseSpMV(void*, int, const void*, const void*, const void*, const void*, void*,
                 cudaDataType, int, void*);
int cusparseDestroySpMat(const void*);
int cusparseDestroyDnVec(const void*);
int cusolverDnCreate(void**);
int cusolverDnDestroy(void*);
int cusolverDnSpotrf_bufferSize(void*, int, int, float*, int, int*);
int cusolverDnSpotrf(void*, int, int, float*, int, float*, int, int*);
}

namespace {

constexpr int c2c = 0x29, r2c = 0x2a;

template <class T>
T* on_device(std::size_t count) {
  void* memory = nullptr;
  WORKS(cudaMalloc(&memory, count * sizeof(T)));
  WORKS(cudaMemset(memory, 0, count * sizeof(T)));
  return static_cast<T*>(memory);
}

/// Simulated milliseconds that `body` takes on the GPU.
template <class Body>
float timed(Body&& body) {
  cudaEvent_t start{}, end{};
  WORKS(cudaEventCreate(&start));
  WORKS(cudaEventCreate(&end));
  WORKS(cudaEventRecord(start, nullptr));
  body();
  WORKS(cudaEventRecord(end, nullptr));
  WORKS(cudaEventSynchronize(end));
  float milliseconds = 0;
  WORKS(cudaEventElapsedTime(&milliseconds, start, end));
  return milliseconds;
}

void transforms() {
  int plan = 0;
  EXPECT_STATUS(8, cufftPlan1d(&plan, 0, c2c, 1));    // CUFFT_INVALID_SIZE
  EXPECT_STATUS(3, cufftPlan1d(&plan, 16, 0x30, 1));  // CUFFT_INVALID_TYPE
  WORKS(cufftPlan1d(&plan, 1 << 20, c2c, 16));
  auto* const data = on_device<float>(std::size_t{2} << 24);
  // In and out, 128 MiB each, at less than 4.8 TB/s.
  EXPECT(timed([&] { WORKS(cufftExecC2C(plan, data, data, -1)); }) > 0.056F);
  EXPECT_STATUS(1, cufftExecR2C(plan, data, data));  // of another type: CUFFT_INVALID_PLAN
  std::size_t size = 0;
  WORKS(cufftGetSize(plan, &size));
  EXPECT(size == std::size_t{16} << 23);  // two kernels, and what the first leaves to the second
  WORKS(cufftDestroy(plan));
  EXPECT_STATUS(1, cufftExecC2C(plan, data, data, -1));
  WORKS(cufftPlan2d(&plan, 64, 32, r2c));
  WORKS(cufftGetSize(plan, &size));
  EXPECT(size == 0);  // each dimension fits an SM
  WORKS(cufftDestroy(plan));
  int sizes[1] = {256};
  WORKS(cufftPlanMany(&plan, 1, sizes, nullptr, 1, 0, nullptr, 1, 0, c2c, 10));
  WORKS(cufftGetSize(plan, &size));
  EXPECT(size == 0);
  WORKS(cufftDestroy(plan));
  WORKS(cudaFree(data));
}

void random_numbers() {
  void* generator = nullptr;
  EXPECT_STATUS(103, curandCreateGenerator(&generator, 7));  // CURAND_STATUS_TYPE_ERROR
  WORKS(curandCreateGenerator(&generator, 100));
  WORKS(curandSetPseudoRandomGeneratorSeed(generator, 1));
  constexpr std::size_t count = std::size_t{1} << 26;
  auto* const numbers = on_device<float>(count);
  // 256 MiB written at less than 4.8 TB/s.
  EXPECT(timed([&] { WORKS(curandGenerateUniform(generator, numbers, count)); }) > 0.056F);
  EXPECT_STATUS(105, curandGenerateNormal(generator, numbers, 3, 0, 1));  // an odd number
  EXPECT_STATUS(103, curandSetQuasiRandomGeneratorDimensions(generator, 3));
  WORKS(curandDestroyGenerator(generator));
  WORKS(cudaFree(numbers));

  unsigned* directions = nullptr;
  EXPECT_STATUS(104, curandGetDirectionVectors32(&directions, 103));  // of 64 bits: out of range
  WORKS(curandGetDirectionVectors32(&directions, 101));
  EXPECT(directions[31] == 1 && directions[32] == 0x80000000U && directions[33] == 0xc0000000U);
  unsigned long long* constants = nullptr;
  WORKS(curandGetScrambleConstants64(&constants));
  EXPECT(constants[0] != constants[19999]);

  WORKS(curandCreateGeneratorHost(&generator, 100));
  std::vector<float> values(10000);
  WORKS(curandGenerateUniform(generator, values.data(), values.size()));
  double sum = 0;
  for (const float value : values) {
    EXPECT(value > 0 && value <= 1);
    sum += value;
  }
  EXPECT(sum > 4800 && sum < 5200);  // 5000 with a standard deviation of 29
  WORKS(curandDestroyGenerator(generator));
}

void sparse() {
  constexpr int rows = 4, entries = 6;
  auto* const offsets = on_device<int>(rows + 1);
  auto* const columns = on_device<int>(entries);
  auto* const values = on_device<float>(entries);
  auto* const x = on_device<float>(rows);
  auto* const y = on_device<float>(rows);
  void *handle = nullptr, *matrix = nullptr, *in = nullptr, *out = nullptr;
  WORKS(cusparseCreate(&handle));
  WORKS(cusparseCreateCsr(&matrix, rows, rows, entries, offsets, columns, values, 2, 2, 0,
                          CUDA_R_32F));
  WORKS(cusparseCreateDnVec(&in, rows, x, CUDA_R_32F));
  WORKS(cusparseCreateDnVec(&out, rows, y, CUDA_R_32F));
  const float one = 1, zero = 0;
  std::size_t size = 0;
  WORKS(cusparseSpMV_bufferSize(handle, 0, &one, matrix, in, &zero, out, CUDA_R_32F, 0, &size));
  WORKS(cusparseSpMV(handle, 0, &one, matrix, in, &zero, out, CUDA_R_32F, 0, nullptr));
  EXPECT_STATUS(1, cusparseSpMV(nullptr, 0, &one, matrix, in, &zero, out, CUDA_R_32F, 0, nullptr));
  WORKS(cusparseDestroySpMat(matrix));
  WORKS(cusparseDestroyDnVec(in));
  WORKS(cusparseDestroyDnVec(out));
  WORKS(cusparseDestroy(handle));
  float read = 0;
  WORKS(cudaMemcpy(&read, y, sizeof read, cudaMemcpyDeviceToHost));  // unknown, and told so
}

void factorisation() {
  constexpr int n = 4096;
  auto* const a = on_device<float>(std::size_t{n} * n);
  auto* const info = on_device<int>(1);
  void* handle = nullptr;
  int work_size = 0;
  WORKS(cusolverDnCreate(&handle));
  WORKS(cusolverDnSpotrf_bufferSize(handle, 0, n, a, n, &work_size));
  EXPECT(work_size > 0);
  auto* const work = on_device<float>(static_cast<std::size_t>(work_size));
  // 2.3e10 operations at less than 67 TFLOP/s.
  EXPECT(timed([&] { WORKS(cusolverDnSpotrf(handle, 0, n, a, n, work, work_size, info)); }) >
         0.34F);
  int status = -1;
  WORKS(cudaMemcpy(&status, info, sizeof status, cudaMemcpyDeviceToHost));
  EXPECT(status == 0);
  WORKS(cusolverDnDestroy(handle));
}

}  // namespace

int main() {
  transforms();
  random_numbers();
  sparse();
  factorisation();
  return failures != 0;
}
