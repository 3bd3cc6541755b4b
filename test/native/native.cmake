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
phantora_native_test(libraries
  phantora_cudart phantora_cufft12 phantora_curand phantora_cusparse phantora_cusolver12)
