// Which attributes of a function can be set, to what, and asked for, those among them that CUDA has not.
#include "probe.h"
#include <cuda.h>

__global__ void kernel(int* n) {
  extern __shared__ int room[];
  if (n) room[0] = *n, *n = room[0];
}

int main() {
  cudaFunction_t function = nullptr;
  MUST(cudaFree(nullptr));
  MUST(cudaGetFuncBySymbol(&function, (const void*)kernel));
  for (int attribute = 0; attribute < 20; ++attribute) {
    for (const int value : {-1, 0, 1, 2, 3, 1 << 20}) {
      const int runtime = cudaFuncSetAttribute(kernel, (cudaFuncAttribute)attribute, value);
      (void)cudaGetLastError();
      int got = 0;
      const int driver = cuFuncSetAttribute((CUfunction)function, (CUfunction_attribute)attribute, value);
      const int asked = cuFuncGetAttribute(&got, (CUfunction_attribute)attribute, (CUfunction)function);
      std::printf("attribute %d to %d: runtime %d, driver %d, asked for %d\n", attribute, value, runtime, driver, asked);
    }
  }
  return 0;
}
