// What a GPU has and a simulated one has not is said to who asks.
#include "expect.hpp"

int main() {
  int kinds = -1;
  WORKS(cudaDeviceGetAttribute(&kinds, cudaDevAttrMemoryPoolSupportedHandleTypes, 0));
  EXPECT(kinds == cudaMemHandleTypeNone);
  if (failures == 0) std::puts("none");
  return failures != 0;
}
