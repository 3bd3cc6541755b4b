# Programs and libraries with a runtime linked into them, of several releases, and stripped of its names.
set(work ${CMAKE_CURRENT_BINARY_DIR}/static_runtime)

function(static_runtime name)
  set(sources programs/static_calls.cpp programs/static_runtime.c)
  add_library(phantora_test_static_${name} SHARED ${sources})
  add_executable(phantora_test_static_${name}_program programs/static_main.cpp ${sources})
  add_executable(phantora_test_static_${name}_user programs/static_main.cpp)
  target_link_libraries(phantora_test_static_${name}_user PRIVATE phantora_test_static_${name})
  foreach(target phantora_test_static_${name} phantora_test_static_${name}_program phantora_test_static_${name}_user)
    target_compile_definitions(${target} PRIVATE ${ARGN})
    set_target_properties(${target} PROPERTIES
      LIBRARY_OUTPUT_DIRECTORY ${work} RUNTIME_OUTPUT_DIRECTORY ${work})
    target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS})
  endforeach()
endfunction()
static_runtime(13)
static_runtime(12 CUDA_12)
static_runtime(11 CUDA_11)
static_runtime(stripped)
target_link_options(phantora_test_static_stripped_program PRIVATE -s)

list(APPEND job_environment PHANTORA_STATIC_RUNTIME=${work})
