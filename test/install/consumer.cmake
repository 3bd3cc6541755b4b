# Installs the library, moves it elsewhere, and builds and runs a consumer against it with CUDA and
# Python hidden, and Boost and fmt unless they are the consumer's own. Wants CONSUMER (core, phantora, graph, format, c or adapters),
# BUILD (our build), ROOT (our source tree), and WORK (a scratch folder).
function(run)
  execute_process(COMMAND ${CMAKE_COMMAND} -E env --unset=CUDA_HOME --unset=CUDA_PATH --unset=CUDACXX
    --unset=PYTHONPATH --unset=VIRTUAL_ENV --unset=LD_LIBRARY_PATH --unset=PHANTORA_DATA ${ARGN}
    RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGN}\n${out}")
  endif()
  set(output "${out}" PARENT_SCOPE)
endfunction()

set(source ${ROOT}/test/install/${CONSUMER})
set(program ${WORK}/build/${CONSUMER}_consumer)
file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --component phantora_dev --prefix ${WORK}/installed)
if(CONSUMER STREQUAL adapters)
  run(${CMAKE_COMMAND} --install ${BUILD} --component phantora_program --prefix ${WORK}/installed)
endif()
file(RENAME ${WORK}/installed ${WORK}/moved)
set(foreign CUDA CUDAToolkit NCCL Python Python2 Python3 PythonInterp PythonLibs pybind11)
if(NOT CONSUMER STREQUAL graph)
  list(APPEND foreign Boost)
endif()
if(NOT CONSUMER STREQUAL format)
  list(APPEND foreign fmt)
endif()
foreach(package ${foreign})
  list(APPEND hidden -DCMAKE_DISABLE_FIND_PACKAGE_${package}=TRUE)
endforeach()
run(${CMAKE_COMMAND} -S ${source} -B ${WORK}/build -G Ninja
  -DCMAKE_BUILD_TYPE=Debug  # its assert is the test
  -DCMAKE_PREFIX_PATH=${WORK}/moved
  -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF
  ${hidden})
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${program})

if(CONSUMER STREQUAL adapters)
  return()  # it is no program of ours
endif()

# Nothing of CUDA or Python is needed to load it, nor named in what was installed.
file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${program}
  RESOLVED_DEPENDENCIES_VAR libraries UNRESOLVED_DEPENDENCIES_VAR missing)
foreach(library ${libraries} ${missing})
  if(library MATCHES "cuda|nccl|python")
    message(FATAL_ERROR "${program} needs ${library}")
  endif()
endforeach()
file(GLOB_RECURSE headers ${WORK}/moved/include/*.hpp)
foreach(header ${headers})
  file(STRINGS ${header} includes REGEX "#include.*(cuda|nccl|[Pp]ython)")
  if(NOT header MATCHES topology_graph)
    file(STRINGS ${header} boost REGEX "#include.*boost")
    list(APPEND includes ${boost})
  endif()
  if(includes)
    message(FATAL_ERROR "${header}: ${includes}")
  endif()
endforeach()

# Nothing leads back to where it was built: neither is there any more on another machine.
file(GLOB_RECURSE package ${WORK}/moved/*.cmake ${WORK}/moved/*.pc)
file(GLOB libraries ${WORK}/moved/lib*/libphantora*)
file(STRINGS ${program} data_paths REGEX "^/[^ ]*/h200\\.tsv$")
foreach(file ${package} ${libraries})
  file(STRINGS ${file} places REGEX "^/[^ ]*/h200\\.tsv$|\"(${ROOT}|${BUILD})/")
  list(APPEND data_paths ${places})
endforeach()
if(data_paths)
  message(FATAL_ERROR "what was installed names ${data_paths}")
endif()

# The same program by way of pkg-config.
find_program(pkg_config pkg-config)
if(pkg_config AND CONSUMER MATCHES "^(core|phantora|c)$")
  file(GLOB pc_dir ${WORK}/moved/lib*/pkgconfig ${WORK}/moved/lib/*/pkgconfig)
  set(name phantora-${CONSUMER})
  set(compile c++ -std=c++20 ${source}/main.cpp)
  if(CONSUMER STREQUAL phantora)
    set(name phantora)
  elseif(CONSUMER STREQUAL c)
    file(GLOB shared ${WORK}/moved/lib*/libphantora_c.so ${WORK}/moved/lib/*/libphantora_c.so)
    cmake_path(GET shared PARENT_PATH shared)
    set(compile cc -std=c11 ${source}/main.c -Wl,-rpath,${shared})
  endif()
  run(PKG_CONFIG_PATH=${pc_dir} ${pkg_config} --cflags --libs ${name})
  separate_arguments(flags UNIX_COMMAND "${output}")
  run(${compile} -o ${WORK}/by_pkg_config ${flags})
  run(${WORK}/by_pkg_config)
endif()
