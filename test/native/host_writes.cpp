// A transform into page-locked memory, which is not executed: the program hears so.
#include "expect.hpp"

extern "C" {
int cufftPlan1d(int*, int, int, int);
int cufftExecC2C(int, void*, void*, int);
}

int main() {
  void* memory = nullptr;
  WORKS(cudaMallocHost(&memory, 4096));
  int plan = 0;
  WORKS(cufftPlan1d(&plan, 512, 0x29, 1));
  WORKS(cufftExecC2C(plan, memory, memory, 1));
  WORKS(cudaDeviceSynchronize());
  return failures != 0;
}
