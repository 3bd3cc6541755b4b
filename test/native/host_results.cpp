// A result that cuBLAS gives to the host is a read like any other: who gets one that was not
// computed is told.
#include "expect.hpp"

#include <cublas_v2.h>

int main() {
  constexpr int count = 1 << 20;
  float* vector = nullptr;
  WORKS(cudaMalloc(reinterpret_cast<void**>(&vector), count * sizeof(float)));
  cublasHandle_t handle = nullptr;
  WORKS(cublasCreate(&handle));
  float sum = 7;
  WORKS(cublasSdot(handle, count, vector, 1, vector, 1, &sum));
  EXPECT(sum == 0);
  return failures != 0;
}
