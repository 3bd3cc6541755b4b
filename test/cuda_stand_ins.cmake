# Tests of the libraries that take the place of NVIDIA's. Those of label "toolkit" compare them with
# the real ones, and exist where a CUDA 13 toolkit is installed.
find_package(CUDAToolkit 13 QUIET)

get_property(stand_ins GLOBAL PROPERTY PHANTORA_STAND_INS)
phantora_test(stand_ins ${CMAKE_DL_LIBS})
add_dependencies(stand_ins_test ${stand_ins})
target_compile_definitions(stand_ins_test PRIVATE
  PHANTORA_HOOKS="$<TARGET_FILE_DIR:phantora_cudart>"
  PHANTORA_EXPORTS="${PROJECT_SOURCE_DIR}/adapters/exports")

phantora_test(cudnn_operations phantora::phantora phantora_cuda_headers)
target_sources(cudnn_operations_test PRIVATE
  ${PROJECT_SOURCE_DIR}/adapters/cuda/cudnn/operations.cpp)
target_include_directories(cudnn_operations_test PRIVATE ${PROJECT_SOURCE_DIR}/adapters)

phantora_test(nvrtc_source rank_fakes phantora_small_data)
target_sources(nvrtc_source_test PRIVATE ${PROJECT_SOURCE_DIR}/adapters/cuda/nvrtc/source.cpp)

if(CUDAToolkit_FOUND)
  target_compile_definitions(stand_ins_test PRIVATE
    PHANTORA_TOOLKIT_LIBRARIES="${CUDAToolkit_LIBRARY_DIR}")
  add_test(NAME exports.cover_the_toolkit
    COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/adapters/exports/collect.py --check
      ${CUDAToolkit_LIBRARY_DIR} ${CUDAToolkit_LIBRARY_DIR}/stubs
      --typedefs ${CUDAToolkit_INCLUDE_DIRS}/cudaTypedefs.h)
  set_tests_properties(exports.cover_the_toolkit PROPERTIES LABELS toolkit)

  # A native CUDA C++ program under the hooks: one rank that sees both GPUs.
  add_custom_command(OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/runtime_api
    COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} -std=c++17 -cudart shared -arch=sm_90
      -o ${CMAKE_CURRENT_BINARY_DIR}/runtime_api ${CMAKE_CURRENT_SOURCE_DIR}/programs/runtime_api.cu
    DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/programs/runtime_api.cu VERBATIM)
  add_custom_target(runtime_api_program ALL DEPENDS ${CMAKE_CURRENT_BINARY_DIR}/runtime_api)
  add_test(NAME programs.runtime_api
    COMMAND phantora_program run --cluster h200:1x2 --per run
      -- ${CMAKE_CURRENT_BINARY_DIR}/runtime_api)
  set_tests_properties(programs.runtime_api PROPERTIES LABELS toolkit TIMEOUT 120)
endif()
