# Device memory and the small data that is real in it. An object library, so that tests can link it
# with stand-ins for process.hpp and timeline.hpp.
find_package(PkgConfig REQUIRED)
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd)  # the codec of nvcc 13's fat binaries
set(sources
  arithmetic.cpp
  attention.cpp
  batch_norm.cpp
  block_top_k.cpp
  complex_function.cpp
  concatenation.cpp
  contrast.cpp
  copies.cpp
  data_queue.cpp
  device_code.cpp
  device_memory.cpp
  element_type.cpp
  elementwise.cpp
  elementwise_function.cpp
  embedding.cpp
  fat_binary.cpp
  indexing.cpp
  jiterated.cpp
  kernel_effect.cpp
  kernel_launch.cpp
  kernel_name.cpp
  last_writer.cpp
  lookup.cpp
  multi_tensor.cpp
  packed_copies.cpp
  pooling.cpp
  ptx.cpp
  random.cpp
  range.cpp
  reduction.cpp
  rowwise.cpp
  scan.cpp
  selection.cpp
  sort.cpp
  sparse_bytes.cpp
  symmetric_memory.cpp
  unknown_reads.cpp
)
list(TRANSFORM sources PREPEND ${CMAKE_CURRENT_LIST_DIR}/)  # the fuzz targets include this file too
add_library(phantora_small_data OBJECT ${sources})
target_include_directories(phantora_small_data PUBLIC ${CMAKE_CURRENT_LIST_DIR}/..)
target_link_libraries(phantora_small_data PUBLIC phantora::phantora PkgConfig::zstd
                      PRIVATE phantora_options)
