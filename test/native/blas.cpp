// A BLAS of one function: what a program has behind NVBLAS.

extern "C" void sgemm_(const char*, const char*, const int* m, const int* n, const int*,
                       const float* alpha, const float*, const int*, const float*, const int*,
                       const float*, float* c, const int*) {
  for (int i = 0; i < *m * *n; ++i) c[i] = *alpha;
}
