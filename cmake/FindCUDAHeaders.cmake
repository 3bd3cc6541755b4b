# Defines phantora_cuda_headers: the public headers of CUDA 13, cuBLAS, cuDNN, CUPTI and NCCL. They
# come from an installed toolkit, or from NVIDIA's header-bearing
# wheels, which cmake/fetch_cuda_headers.sh unpacks once under build/cuda-headers.
# Only headers are used: nothing of NVIDIA's is linked.
find_package(CUDAToolkit 13 QUIET)
set(unpacked ${PROJECT_SOURCE_DIR}/build/cuda-headers/include)

set(CUDAHeaders_INCLUDE_DIRS)
set(missing)
foreach(header cuda.h cuda_runtime_api.h cublas_v2.h cublasLt.h cudnn.h cupti.h nccl.h nv/target
               crt/host_defines.h)
  string(MAKE_C_IDENTIFIER "CUDAHeaders_${header}" cached)
  find_path(${cached} ${header} PATHS ${CUDAToolkit_INCLUDE_DIRS} ${unpacked} NO_DEFAULT_PATH)
  mark_as_advanced(${cached})
  if(${cached})
    list(APPEND CUDAHeaders_INCLUDE_DIRS ${${cached}})
  else()
    list(APPEND missing ${header})
  endif()
endforeach()
list(REMOVE_DUPLICATES CUDAHeaders_INCLUDE_DIRS)

if(missing)
  list(JOIN missing ", " missing)
  set(reason "not found: ${missing}. Run cmake/fetch_cuda_headers.sh, or install a CUDA 13 toolkit.")
endif()
include(FindPackageHandleStandardArgs)
if(missing)
  set(CUDAHeaders_INCLUDE_DIRS "CUDAHeaders_INCLUDE_DIRS-NOTFOUND")
endif()
find_package_handle_standard_args(CUDAHeaders REQUIRED_VARS CUDAHeaders_INCLUDE_DIRS
  REASON_FAILURE_MESSAGE "${reason}")

if(CUDAHeaders_FOUND AND NOT TARGET phantora_cuda_headers)
  add_library(phantora_cuda_headers INTERFACE)
  target_include_directories(phantora_cuda_headers SYSTEM INTERFACE ${CUDAHeaders_INCLUDE_DIRS})
endif()
