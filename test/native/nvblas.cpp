// All arguments of a product reach the BLAS behind NVBLAS.
#include "expect.hpp"

extern "C" void sgemm_(const char*, const char*, const int*, const int*, const int*, const float*,
                       const float*, const int*, const float*, const int*, const float*, float*,
                       const int*);

int main() {
  const int m = 2, n = 3, k = 4;
  const float alpha = 5, beta = 0;
  float a[8] = {}, b[12] = {}, c[6] = {};
  sgemm_("N", "N", &m, &n, &k, &alpha, a, &m, b, &k, &beta, c, &m);
  for (const float one : c) EXPECT(one == 5);
  return failures != 0;
}
