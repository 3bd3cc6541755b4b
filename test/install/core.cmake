# Installs the library, moves it elsewhere, and builds and runs a consumer against it with CUDA and
# Python hidden. Wants BUILD (our build), SOURCE (this folder) and WORK (a scratch folder).
function(run)
  execute_process(COMMAND ${CMAKE_COMMAND} -E env --unset=CUDA_HOME --unset=CUDA_PATH --unset=CUDACXX
    --unset=PYTHONPATH --unset=VIRTUAL_ENV --unset=LD_LIBRARY_PATH ${ARGN}
    RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGN}\n${out}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --component phantora_dev --prefix ${WORK}/installed)
file(RENAME ${WORK}/installed ${WORK}/moved)
foreach(package CUDA CUDAToolkit NCCL Python Python2 Python3 PythonInterp PythonLibs pybind11)
  list(APPEND hidden -DCMAKE_DISABLE_FIND_PACKAGE_${package}=TRUE)
endforeach()
run(${CMAKE_COMMAND} -S ${SOURCE}/core -B ${WORK}/build -G Ninja
  -DCMAKE_BUILD_TYPE=Debug  # its assert is the test
  -DCMAKE_PREFIX_PATH=${WORK}/moved
  -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF
  ${hidden})
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/core_consumer)

# Nothing of CUDA or Python is needed to load it, nor named in what was installed.
file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${WORK}/build/core_consumer
  RESOLVED_DEPENDENCIES_VAR libraries UNRESOLVED_DEPENDENCIES_VAR missing)
file(GLOB_RECURSE headers ${WORK}/moved/include/*.hpp)
foreach(library ${libraries} ${missing})
  if(library MATCHES "cuda|nccl|python")
    message(FATAL_ERROR "core_consumer needs ${library}")
  endif()
endforeach()
foreach(header ${headers})
  file(STRINGS ${header} includes REGEX "#include.*(cuda|nccl|[Pp]ython)")
  if(includes)
    message(FATAL_ERROR "${header}: ${includes}")
  endif()
endforeach()
