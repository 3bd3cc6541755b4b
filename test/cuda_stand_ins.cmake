# Tests of the libraries that take the place of NVIDIA's. test/toolkit compares them with the real
# ones.
get_property(stand_ins GLOBAL PROPERTY PHANTORA_STAND_INS)
# No unit test: it is about what the linker makes, and needs all of them built.
add_executable(stand_ins_test stand_ins_test.cpp)
target_link_libraries(stand_ins_test PRIVATE ${CMAKE_DL_LIBS} GTest::gtest_main phantora_options)
gtest_discover_tests(stand_ins_test TEST_PREFIX stand_ins. DISCOVERY_TIMEOUT 60)
add_dependencies(stand_ins_test ${stand_ins})
target_compile_definitions(stand_ins_test PRIVATE
  PHANTORA_HOOKS="$<TARGET_FILE_DIR:phantora_cudart>"
  PHANTORA_EXPORTS="${PROJECT_SOURCE_DIR}/adapters/exports")

phantora_test(cudnn_operations phantora::phantora phantora_cuda_headers)
target_sources(cudnn_operations_test PRIVATE
  ${PROJECT_SOURCE_DIR}/adapters/cuda/cudnn/operations.cpp)
target_include_directories(cudnn_operations_test PRIVATE ${PROJECT_SOURCE_DIR}/adapters)

phantora_test(recurrent_spaces)
target_sources(recurrent_spaces_test PRIVATE
  ${PROJECT_SOURCE_DIR}/adapters/cuda/cudnn/recurrent_spaces.cpp)
target_include_directories(recurrent_spaces_test PRIVATE ${PROJECT_SOURCE_DIR}/adapters)
target_compile_definitions(recurrent_spaces_test PRIVATE
  PHANTORA_TEST_DATA="${CMAKE_CURRENT_SOURCE_DIR}/data")

phantora_test(nvrtc_source rank_fakes phantora_small_data)
target_sources(nvrtc_source_test PRIVATE ${PROJECT_SOURCE_DIR}/adapters/cuda/nvrtc/source.cpp)
