# Device memory and the small data that is real in it. An object library, so that tests can link it
# with stand-ins for process.hpp, timeline.hpp and small_data().
find_package(PkgConfig REQUIRED)
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET GLOBAL libzstd)  # the codec of nvcc 13's fat binaries
set(sources
  memory/cached_operands.cpp
  memory/copies.cpp
  memory/data_queue.cpp
  memory/deferred.cpp
  memory/device_memory.cpp
  memory/host_reach.cpp
  memory/last_writer.cpp
  memory/process_memory.cpp
  memory/sparse_bytes.cpp
  memory/transfers.cpp
  memory/unknown_reads.cpp
  kernels/arithmetic.cpp
  kernels/assumed_choice.cpp
  kernels/assumed_selection.cpp
  kernels/assumed_test.cpp
  kernels/attention.cpp
  kernels/batch_norm.cpp
  kernels/block_schedule.cpp
  kernels/block_top_k.cpp
  kernels/chunk_norms.cpp
  kernels/code_execution.cpp
  kernels/code_walk.cpp kernels/machine_code.cpp kernels/warp_arithmetic.cpp kernels/warp_doubles.cpp kernels/warp_timing.cpp
  kernels/warp_control.cpp kernels/warp_memory.cpp kernels/warp_perform.cpp
  kernels/complex_function.cpp
  kernels/concatenation.cpp
  kernels/contrast.cpp
  kernels/deferred_elements.cpp
  kernels/depthwise.cpp
  kernels/device_code.cpp
  kernels/element_type.cpp
  kernels/elementwise.cpp
  kernels/elementwise_function.cpp
  kernels/embedding.cpp
  kernels/fat_binary.cpp
  kernels/functor.cpp
  kernels/grad_scaler.cpp
  kernels/grouped_product.cpp
  kernels/indexing.cpp
  kernels/jiterated.cpp
  kernels/kernel_effect.cpp
  kernels/kernel_launch.cpp
  kernels/kernel_name.cpp
  kernels/lambda_function.cpp
  kernels/launch_memory.cpp
  kernels/store_origins.cpp
  kernels/lookup.cpp
  kernels/multi_tensor.cpp
  kernels/named_functions.cpp
  kernels/packed_copies.cpp
  kernels/pooling.cpp
  kernels/ptx.cpp
  kernels/random.cpp
  kernels/range.cpp
  kernels/behind_pointers.cpp
  kernels/reduction.cpp
  kernels/rowwise.cpp
  kernels/scan.cpp
  kernels/selection.cpp
  kernels/sort.cpp
  kernels/symmetric_memory.cpp
  kernels/tensor_lists.cpp
)
list(TRANSFORM sources PREPEND ${CMAKE_CURRENT_LIST_DIR}/)  # the fuzz targets include this file too
add_library(phantora_small_data OBJECT ${sources})
target_include_directories(phantora_small_data PUBLIC ${CMAKE_CURRENT_LIST_DIR}/..)
target_compile_options(phantora_small_data PRIVATE -fno-semantic-interposition)
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
