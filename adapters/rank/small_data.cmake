# Device memory and the small data that is real in it: what the entry points of adapters/cuda share.
# Needs the definitions of process.hpp and timeline.hpp from whoever links it.
find_package(PkgConfig REQUIRED)
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd)  # the codec of nvcc 13's fat binaries
add_library(phantora_small_data STATIC
  ${CMAKE_CURRENT_LIST_DIR}/copies.cpp
  ${CMAKE_CURRENT_LIST_DIR}/data_queue.cpp
  ${CMAKE_CURRENT_LIST_DIR}/device_memory.cpp
  ${CMAKE_CURRENT_LIST_DIR}/sparse_bytes.cpp
)
target_include_directories(phantora_small_data PUBLIC ${CMAKE_CURRENT_LIST_DIR}/..)
target_link_libraries(phantora_small_data PUBLIC phantora::phantora
                      PRIVATE PkgConfig::zstd phantora_options)
