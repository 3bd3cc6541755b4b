#pragma once

#include <cstdio>

#include <cuda.h>
#include <cuda_runtime_api.h>

// Programs that use the libraries as native programs do: linked with them, compiled without a
// toolkit. Each prints what failed, and its exit status is 1 if anything did.

inline int failures = 0;

#define EXPECT(condition)                                                  \
  do {                                                                     \
    if (!(condition)) {                                                    \
      std::printf("%s:%d: expected %s\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                          \
    }                                                                      \
  } while (0)

#define EXPECT_STATUS(expected, call)                                                      \
  do {                                                                                     \
    const long status_ = static_cast<long>(call);                                          \
    if (status_ != static_cast<long>(expected)) {                                          \
      std::printf("%s:%d: %s gave %ld, expected %s\n", __FILE__, __LINE__, #call, status_, \
                  #expected);                                                              \
      ++failures;                                                                          \
    }                                                                                      \
  } while (0)

#define WORKS(call) EXPECT_STATUS(0, call)
