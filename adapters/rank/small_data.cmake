# Device memory and the small data that is real in it. An object library, so that tests can link it
# with stand-ins for process.hpp, timeline.hpp and small_data().
find_package(PkgConfig REQUIRED)
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET GLOBAL libzstd)  # the codec of nvcc 13's fat binaries
set(sources
  code/behind_pointers.cpp
  code/block_schedule.cpp
  code/code_execution.cpp
  code/code_walk.cpp
  code/device_code.cpp
  code/fat_binary.cpp
  code/launch_memory.cpp
  code/machine_code.cpp
  code/ptx.cpp
  code/store_origins.cpp
  code/warp_arithmetic.cpp
  code/warp_control.cpp
  code/warp_doubles.cpp
  code/warp_memory.cpp
  code/warp_perform.cpp
  code/warp_timing.cpp
  kernels/assumed_choice.cpp
  kernels/assumed_selection.cpp
  kernels/assumed_test.cpp
  kernels/contrast.cpp
  kernels/deferred_elements.cpp
  kernels/families/arithmetic.cpp
  kernels/families/attention.cpp
  kernels/families/batch_norm.cpp
  kernels/families/block_top_k.cpp
  kernels/families/chunk_norms.cpp
  kernels/families/complex_function.cpp
  kernels/families/concatenation.cpp
  kernels/families/depthwise.cpp
  kernels/families/element_type.cpp
  kernels/families/elementwise.cpp
  kernels/families/elementwise_function.cpp
  kernels/families/embedding.cpp
  kernels/families/functor.cpp
  kernels/families/grad_scaler.cpp
  kernels/families/grouped_product.cpp
  kernels/families/indexing.cpp
  kernels/families/jiterated.cpp
  kernels/families/lambda_function.cpp
  kernels/families/lookup.cpp
  kernels/families/multi_tensor.cpp
  kernels/families/named_functions.cpp
  kernels/families/packed_copies.cpp
  kernels/families/pooling.cpp
  kernels/families/random.cpp
  kernels/families/range.cpp
  kernels/families/reduction.cpp
  kernels/families/router.cpp
  kernels/families/rowwise.cpp
  kernels/families/scan.cpp
  kernels/families/selection.cpp
  kernels/families/sort.cpp
  kernels/families/symmetric_memory.cpp
  kernels/families/tensor_lists.cpp
  kernels/gpus_met.cpp
  kernels/kernel_effect.cpp
  kernels/kernel_launch.cpp
  kernels/kernel_name.cpp
  memory/cached_operands.cpp
  memory/copies.cpp
  memory/data_queue.cpp
  memory/deferred.cpp
  memory/device_memory.cpp
  memory/host_reach.cpp
  memory/last_writer.cpp
  memory/process_memory.cpp
  memory/sparse_bytes.cpp
  memory/tensor_ends.cpp
  memory/transfers.cpp
  memory/unknown_reads.cpp
)
list(TRANSFORM sources PREPEND ${CMAKE_CURRENT_LIST_DIR}/)  # the fuzz targets include this file too
add_library(phantora_small_data OBJECT ${sources})
target_include_directories(phantora_small_data PUBLIC ${CMAKE_CURRENT_LIST_DIR}/..)
target_compile_options(phantora_small_data PRIVATE -fno-semantic-interposition)
# Registers of a warp have 260 bytes, which GCC copies by an instruction that takes longer to begin than to copy so many.
include(CheckCXXCompilerFlag)
set(by_vectors vector_loop:1024:noalign,libcall:-1:noalign)
check_cxx_compiler_flag(-mmemcpy-strategy=${by_vectors} PHANTORA_HAS_MEMCPY_STRATEGY)
if(PHANTORA_HAS_MEMCPY_STRATEGY)
  target_compile_options(phantora_small_data PRIVATE
    -mmemcpy-strategy=${by_vectors} -mmemset-strategy=${by_vectors})
endif()
set(zstd PkgConfig::zstd)
if(PHANTORA_STATIC_DEPENDENCIES)
  find_library(PHANTORA_ZSTD libzstd.a HINTS ${zstd_LIBRARY_DIRS} REQUIRED)
  set(zstd ${PHANTORA_ZSTD} -Wl,--exclude-libs,libzstd.a)  # a program's own may be another
endif()
add_library(phantora_zstd INTERFACE)
target_link_libraries(phantora_zstd INTERFACE ${zstd})
find_package(Boost REQUIRED GLOBAL)  # Boost.Container: headers only
target_link_libraries(phantora_small_data PUBLIC phantora::phantora phantora_zstd Boost::headers
                      PRIVATE phantora_options)
