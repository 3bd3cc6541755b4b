// Entry points of cuFFT, of which programs' transforms are made.
#include "measure/mirror.hpp"

#include <cstddef>

#define PHANTORA_MIRROR(name, type)                         \
  PHANTORA_MIRROR_IN(cufft11, "libcufft.so.11", name, type) \
  PHANTORA_MIRROR_IN(cufft12, "libcufft.so.12", name, type)

using phantora::measure::FftPlan;

PHANTORA_MIRROR(cufftCreate, int(FftPlan*))
PHANTORA_MIRROR(cufftDestroy, int(FftPlan))
PHANTORA_MIRROR(cufftSetStream, int(FftPlan, cudaStream_t))
PHANTORA_MIRROR(cufftPlan1d, int(FftPlan*, int, int, int))
PHANTORA_MIRROR(cufftPlan2d, int(FftPlan*, int, int, int))
PHANTORA_MIRROR(cufftPlan3d, int(FftPlan*, int, int, int, int))
PHANTORA_MIRROR(cufftPlanMany, int(FftPlan*, int, int*, int*, int, int, int*, int, int, int, int))
PHANTORA_MIRROR(cufftMakePlan1d, int(FftPlan, int, int, int, std::size_t*))
PHANTORA_MIRROR(cufftMakePlan2d, int(FftPlan, int, int, int, std::size_t*))
PHANTORA_MIRROR(cufftMakePlan3d, int(FftPlan, int, int, int, int, std::size_t*))
PHANTORA_MIRROR(cufftMakePlanMany,
                int(FftPlan, int, int*, int*, int, int, int*, int, int, int, int, std::size_t*))
PHANTORA_MIRROR(cufftMakePlanMany64,
                int(FftPlan, int, long long*, long long*, long long, long long, long long*,
                    long long, long long, int, long long, std::size_t*))
PHANTORA_MIRROR(cufftXtMakePlanMany, int(FftPlan, int, long long*, long long*, long long, long long,
                                         cudaDataType, long long*, long long, long long,
                                         cudaDataType, long long, std::size_t*, cudaDataType))
PHANTORA_MIRROR(cufftXtExec, int(FftPlan, void*, void*, int))
PHANTORA_MIRROR(cufftExecC2C, int(FftPlan, void*, void*, int))
PHANTORA_MIRROR(cufftExecR2C, int(FftPlan, void*, void*))
PHANTORA_MIRROR(cufftExecC2R, int(FftPlan, void*, void*))
PHANTORA_MIRROR(cufftExecZ2Z, int(FftPlan, void*, void*, int))
PHANTORA_MIRROR(cufftExecD2Z, int(FftPlan, void*, void*))
PHANTORA_MIRROR(cufftExecZ2D, int(FftPlan, void*, void*))
