# Tests of the libraries that take the place of NVIDIA's. test/toolkit compares them with the real
# ones.
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
