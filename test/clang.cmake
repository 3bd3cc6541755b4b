# Builds the library, each of its headers alone, and the C library with clang++. Wants SOURCE, CLANG and WORK (a
# folder that is kept: only what changed is built again).
foreach(step
    "-S;${SOURCE};-B;${WORK};-G;Ninja;-DCMAKE_CXX_COMPILER=${CLANG};-DCMAKE_BUILD_TYPE=;-DCMAKE_CXX_FLAGS=-Werror;-DPHANTORA_ADAPTERS=OFF;-DPHANTORA_TESTS=OFF"
    "--build;${WORK};--target;phantora;phantora_c;all_verify_interface_header_sets")
  execute_process(COMMAND ${CMAKE_COMMAND} ${step}
    RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${out}")
  endif()
endforeach()
