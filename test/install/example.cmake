# Installs the library, moves it elsewhere, builds an example as a project of its own against it, and
# compares what it prints. Wants EXAMPLE (its folder), BUILD (our build), ROOT (our source tree), WORK
# (a scratch folder), and RECORD, which what_if asks of.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE error)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGN}\n${out}${error}")
  endif()
  set(output "${out}" PARENT_SCOPE)
endfunction()

set(source ${ROOT}/examples/${EXAMPLE})
file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --component phantora_dev --prefix ${WORK}/installed)
file(RENAME ${WORK}/installed ${WORK}/moved)
run(${CMAKE_COMMAND} -S ${source} -B ${WORK}/build -G Ninja -DCMAKE_BUILD_TYPE=Release
  -DCMAKE_PREFIX_PATH=${WORK}/moved -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF)
run(${CMAKE_COMMAND} --build ${WORK}/build)
set(arguments)
if(EXAMPLE STREQUAL what_if)
  set(arguments ${RECORD})
endif()
run(${WORK}/build/${EXAMPLE} ${arguments})
file(READ ${source}/expected.txt expected)
if(NOT output STREQUAL expected)
  message(FATAL_ERROR "expected\n${expected}got\n${output}")
endif()
