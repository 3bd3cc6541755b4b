// NVBLAS takes the place of a CPU's BLAS and gives large products to GPUs. Here the BLAS behind it
// does all of them, as NVBLAS itself leaves it the small ones: results are right, and take the
// CPU's time.
#include "rank/runtime/process.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>

#include <dlfcn.h>

/// The function of that name in the libraries that were loaded after this one. Called by the
/// generated definition of every function that NVBLAS has.
extern "C" void* phantora_blas_behind(const char* name) {
  void* const found = dlsym(RTLD_NEXT, name);
  if (found == nullptr) {
    std::fprintf(stderr, "phantora: %s of NVBLAS is not simulated, and no BLAS is behind it\n",
                 name);
    std::abort();
  }
  phantora::rank::warn_once("nvblas", "NVBLAS is not simulated: the CPU's BLAS takes its place");
  return found;
}
