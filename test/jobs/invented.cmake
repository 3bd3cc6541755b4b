# Libraries and a program that import names which no release of NVIDIA's libraries has. They are linked
# with libraries that lie where nobody looks at run time.
set(work ${CMAKE_CURRENT_BINARY_DIR}/invented)
file(WRITE ${work}/cudart.map "libcudart.so.13 { global: cudaInventedCall; local: *; };\n")
file(WRITE ${work}/nccl.map "{ global: ncclInvented*; local: *; };\n")
file(WRITE ${work}/nvrtc.map "libnvrtc.so.13 { global: nvrtcInventedCall; local: *; };\n")

function(invented_library name soname)
  add_library(invented_${name} SHARED programs/invented_functions.c)
  string(REGEX MATCH "^([^.]*)(.*)$" matched ${soname})
  set_target_properties(invented_${name} PROPERTIES PREFIX "" OUTPUT_NAME ${CMAKE_MATCH_1} SUFFIX ${CMAKE_MATCH_2} NO_SONAME ON
    LIBRARY_OUTPUT_DIRECTORY ${work}/link)
  target_link_options(invented_${name} PRIVATE
    -Wl,-soname,${soname} -Wl,--version-script=${work}/${name}.map)
endfunction()
invented_library(cudart libcudart.so.13)
invented_library(nccl libnccl.so.2)
invented_library(nvrtc libnvrtc.so.13)

# Bound when it is loaded, and when a function is first called; and one that only needs the other two.
foreach(binding now lazy)
  add_library(phantora_test_invented_${binding} SHARED programs/invented_calls.cpp)
  target_link_options(phantora_test_invented_${binding} PRIVATE -Wl,-z,${binding})
  target_link_libraries(phantora_test_invented_${binding} PRIVATE invented_cudart invented_nccl)
  set_target_properties(phantora_test_invented_${binding} PROPERTIES
    SKIP_BUILD_RPATH ON LIBRARY_OUTPUT_DIRECTORY ${work})
endforeach()
add_library(phantora_test_invented_outer SHARED programs/origin_neighbour.cpp)
target_link_options(phantora_test_invented_outer PRIVATE -Wl,--no-as-needed)
target_link_libraries(phantora_test_invented_outer PRIVATE phantora_test_invented_now)
set_target_properties(phantora_test_invented_outer PROPERTIES
  LIBRARY_OUTPUT_DIRECTORY ${work}/outer BUILD_RPATH "$ORIGIN/..")

add_library(phantora_test_invented_nvrtc SHARED programs/invented_nvrtc.cpp)
target_link_libraries(phantora_test_invented_nvrtc PRIVATE invented_nvrtc)
set_target_properties(phantora_test_invented_nvrtc PROPERTIES SKIP_BUILD_RPATH ON LIBRARY_OUTPUT_DIRECTORY ${work})

add_executable(phantora_test_invented_main programs/invented_main.cpp programs/invented_calls.cpp)
target_link_options(phantora_test_invented_main PRIVATE -Wl,-z,lazy)
target_link_libraries(phantora_test_invented_main PRIVATE invented_cudart invented_nccl)
set_target_properties(phantora_test_invented_main PROPERTIES SKIP_BUILD_RPATH ON RUNTIME_OUTPUT_DIRECTORY ${work})

list(APPEND job_environment PHANTORA_INVENTED=${work})
