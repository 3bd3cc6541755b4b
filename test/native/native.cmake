# phantora_native_test(NAME LIBRARIES...) runs test/native/NAME.cpp, linked with these stand-ins as a
# native program is with NVIDIA's libraries, once, where it sees two H200.
function(phantora_native_test name)
  add_executable(native_${name} native/${name}.cpp)
  target_link_libraries(native_${name} PRIVATE ${ARGN} phantora_cuda_headers phantora_options)
  add_test(NAME native.${name}
    COMMAND phantora_program run --cluster h200:1x2 --per run --host-time off -- $<TARGET_FILE:native_${name}>)
  set_tests_properties(native.${name} PROPERTIES LABELS native TIMEOUT 120)
endfunction()

phantora_native_test(arrays phantora_cudart phantora_cuda)
phantora_native_test(child_graphs phantora_cudart phantora_cuda)
phantora_native_test(cudnn_engines phantora_cudart phantora_cudnn)
phantora_native_test(driver_pools phantora_cudart phantora_cuda)
phantora_native_test(libraries
  phantora_cudart phantora_cufft12 phantora_curand phantora_cusparse phantora_cusolver12)
phantora_native_test(loaded_libraries phantora_cudart phantora_cuda)
phantora_native_test(older_names phantora_cuda)
phantora_native_test(memory phantora_cudart phantora_cuda)
phantora_native_test(host_functions phantora_cudart)
phantora_native_test(host_results phantora_cudart phantora_cublas13)
set_tests_properties(native.host_results PROPERTIES
  PASS_REGULAR_EXPRESSION "reads 4 bytes that are not computed; it sees zeros")
phantora_native_test(host_writes phantora_cudart phantora_cufft12)
set_tests_properties(native.host_writes PROPERTIES
  PASS_REGULAR_EXPRESSION "a library operation may write page-locked or managed memory; it is not executed")

phantora_native_test(pool_handles phantora_cudart)
set_tests_properties(native.pool_handles PROPERTIES
  PASS_REGULAR_EXPRESSION "handles of memory pools are not simulated")
# NVBLAS before the BLAS of the program, which is to do the work.
add_library(native_blas SHARED native/blas.cpp)
phantora_native_test(nvblas phantora_nvblas13 native_blas)
target_link_options(native_nvblas PRIVATE -Wl,--no-as-needed)
set_tests_properties(native.nvblas PROPERTIES
  PASS_REGULAR_EXPRESSION "NVBLAS is not simulated: the CPU's BLAS takes its place")

# The table of entry points is of this build, and torch imports nothing that no list has.
file(GLOB torch_libraries ${PROJECT_SOURCE_DIR}/build/venv/lib/python3*/site-packages/torch/lib)
if(torch_libraries)
  set(imports --imports ${torch_libraries})
endif()
add_test(NAME exports.entry_points
  COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/adapters/exports/entry_points.py --check
    $<TARGET_FILE_DIR:phantora_cudart> ${imports})
