// Entry points of cuSOLVER's dense routines that the stand-in prices (../cuda/cusolver/dense.cpp).
// Sizes of workspaces are the real library's.
#include "measure/mirror.hpp"

#include <cstddef>
#include <cstdint>

#define PHANTORA_MIRROR(name, type)                               \
  PHANTORA_MIRROR_IN(cusolver11, "libcusolver.so.11", name, type) \
  PHANTORA_MIRROR_IN(cusolver12, "libcusolver.so.12", name, type)

using phantora::measure::SolverHandle;

PHANTORA_MIRROR(cusolverDnCreate, int(SolverHandle**))
PHANTORA_MIRROR(cusolverDnDestroy, int(SolverHandle*))
PHANTORA_MIRROR(cusolverDnSetStream, int(SolverHandle*, cudaStream_t))

#define PHANTORA_OF_LETTER(L, ORG, ORM, SYEV)                                                      \
  PHANTORA_MIRROR(cusolverDn##L##getrf,                                                            \
                  int(SolverHandle*, int, int, void*, int, void*, int*, int*))                     \
  PHANTORA_MIRROR(cusolverDn##L##getrs, int(SolverHandle*, int, int, int, const void*, int,        \
                                            const int*, void*, int, int*))                         \
  PHANTORA_MIRROR(cusolverDn##L##geqrf,                                                            \
                  int(SolverHandle*, int, int, void*, int, void*, void*, int, int*))               \
  PHANTORA_MIRROR(cusolverDn##L##potrf,                                                            \
                  int(SolverHandle*, int, int, void*, int, void*, int, int*))                      \
  PHANTORA_MIRROR(cusolverDn##L##potri,                                                            \
                  int(SolverHandle*, int, int, void*, int, void*, int, int*))                      \
  PHANTORA_MIRROR(cusolverDn##L##potrs,                                                            \
                  int(SolverHandle*, int, int, int, const void*, int, void*, int, int*))           \
  PHANTORA_MIRROR(cusolverDn##L##potrfBatched,                                                     \
                  int(SolverHandle*, int, int, void**, int, int*, int))                            \
  PHANTORA_MIRROR(cusolverDn##L##potrsBatched,                                                     \
                  int(SolverHandle*, int, int, int, void**, int, void**, int, int*, int))          \
  PHANTORA_MIRROR(cusolverDn##L##sytrf,                                                            \
                  int(SolverHandle*, int, int, void*, int, int*, void*, int, int*))                \
  PHANTORA_MIRROR(cusolverDn##L##ORG##gqr,                                                         \
                  int(SolverHandle*, int, int, int, void*, int, const void*, void*, int, int*))    \
  PHANTORA_MIRROR(cusolverDn##L##ORM##mqr,                                                         \
                  int(SolverHandle*, int, int, int, int, int, const void*, int, const void*,       \
                      void*, int, void*, int, int*))                                               \
  PHANTORA_MIRROR(cusolverDn##L##SYEV##d,                                                          \
                  int(SolverHandle*, int, int, int, void*, int, void*, void*, int, int*))          \
  PHANTORA_MIRROR(cusolverDn##L##SYEV##j,                                                          \
                  int(SolverHandle*, int, int, int, void*, int, void*, void*, int, int*, void*))   \
  PHANTORA_MIRROR(cusolverDn##L##SYEV##jBatched, int(SolverHandle*, int, int, int, void*, int,     \
                                                     void*, void*, int, int*, void*, int))         \
  PHANTORA_MIRROR(cusolverDn##L##gesvd,                                                            \
                  int(SolverHandle*, signed char, signed char, int, int, void*, int, void*, void*, \
                      int, void*, int, void*, int, void*, int*))                                   \
  PHANTORA_MIRROR(cusolverDn##L##gesvdj, int(SolverHandle*, int, int, int, int, void*, int, void*, \
                                             void*, int, void*, int, void*, int, int*, void*))     \
  PHANTORA_MIRROR(cusolverDn##L##gesvdjBatched,                                                    \
                  int(SolverHandle*, int, int, int, void*, int, void*, void*, int, void*, int,     \
                      void*, int, int*, void*, int))                                               \
  PHANTORA_MIRROR(                                                                                 \
      cusolverDn##L##gesvdaStridedBatched,                                                         \
      int(SolverHandle*, int, int, int, int, const void*, int, long long, void*, long long, void*, \
          int, long long, void*, int, long long, void*, int, int*, double*, int))
PHANTORA_OF_LETTER(S, or, or, syev)
PHANTORA_OF_LETTER(D, or, or, syev)
PHANTORA_OF_LETTER(C, un, un, heev)
PHANTORA_OF_LETTER(Z, un, un, heev)

PHANTORA_MIRROR(cusolverDnXgetrf, int(SolverHandle*, void*, std::int64_t, std::int64_t,
                                      cudaDataType, void*, std::int64_t, std::int64_t*,
                                      cudaDataType, void*, std::size_t, void*, std::size_t, int*))
PHANTORA_MIRROR(cusolverDnXgetrs, int(SolverHandle*, void*, int, std::int64_t, std::int64_t,
                                      cudaDataType, const void*, std::int64_t, const std::int64_t*,
                                      cudaDataType, void*, std::int64_t, int*))
PHANTORA_MIRROR(cusolverDnXgeqrf, int(SolverHandle*, void*, std::int64_t, std::int64_t,
                                      cudaDataType, void*, std::int64_t, cudaDataType, void*,
                                      cudaDataType, void*, std::size_t, void*, std::size_t, int*))
PHANTORA_MIRROR(cusolverDnXpotrf,
                int(SolverHandle*, void*, int, std::int64_t, cudaDataType, void*, std::int64_t,
                    cudaDataType, void*, std::size_t, void*, std::size_t, int*))
PHANTORA_MIRROR(cusolverDnXpotrs,
                int(SolverHandle*, void*, int, std::int64_t, std::int64_t, cudaDataType,
                    const void*, std::int64_t, cudaDataType, void*, std::int64_t, int*))
PHANTORA_MIRROR(cusolverDnXsytrs,
                int(SolverHandle*, int, std::int64_t, std::int64_t, cudaDataType, const void*,
                    std::int64_t, const std::int64_t*, cudaDataType, void*, std::int64_t, void*,
                    std::size_t, void*, std::size_t, int*))
PHANTORA_MIRROR(cusolverDnXsyevd, int(SolverHandle*, void*, int, int, std::int64_t, cudaDataType,
                                      void*, std::int64_t, cudaDataType, void*, cudaDataType, void*,
                                      std::size_t, void*, std::size_t, int*))
PHANTORA_MIRROR(cusolverDnXsyevBatched,
                int(SolverHandle*, void*, int, int, std::int64_t, cudaDataType, void*, std::int64_t,
                    cudaDataType, void*, cudaDataType, void*, std::size_t, void*, std::size_t, int*,
                    std::int64_t))
PHANTORA_MIRROR(cusolverDnXgeev,
                int(SolverHandle*, void*, int, int, std::int64_t, cudaDataType, void*, std::int64_t,
                    cudaDataType, void*, cudaDataType, void*, std::int64_t, cudaDataType, void*,
                    std::int64_t, cudaDataType, void*, std::size_t, void*, std::size_t, int*))
