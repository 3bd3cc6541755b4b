# Installs the library, moves it elsewhere, and builds and runs a consumer against it with CUDA and
# Python hidden. Wants BUILD (our build), SOURCE (this folder) and WORK (a scratch folder).
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGN}\n${out}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --component phantora_dev --prefix ${WORK}/installed)
file(RENAME ${WORK}/installed ${WORK}/moved)
run(${CMAKE_COMMAND} -S ${SOURCE}/core -B ${WORK}/build -G Ninja
  -DCMAKE_BUILD_TYPE=Debug  # its assert is the test
  -DCMAKE_PREFIX_PATH=${WORK}/moved
  -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF
  -DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=TRUE
  -DCMAKE_DISABLE_FIND_PACKAGE_Python3=TRUE)
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/core_consumer)
