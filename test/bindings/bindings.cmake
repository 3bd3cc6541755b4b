# Tests of the bindings.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
if(PHANTORA_C)
  add_executable(c_test bindings/c_test.c)
  set_target_properties(c_test PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF)
  target_compile_definitions(c_test PRIVATE PHANTORA_TEST_VERSION="${PROJECT_VERSION}")
  target_link_libraries(c_test PRIVATE phantora::c phantora_options)
  add_test(NAME bindings.c COMMAND c_test ${CMAKE_CURRENT_BINARY_DIR})
  set_tests_properties(bindings.c PROPERTIES LABELS unit)
  add_dependencies(unit_tests c_test)
  add_test(NAME bindings.c_exports COMMAND Python3::Interpreter
    ${CMAKE_CURRENT_SOURCE_DIR}/bindings/exports_test.py $<TARGET_FILE:phantora_c> ${PROJECT_SOURCE_DIR})
  if(NOT PHANTORA_SANITIZE)  # a user's program is built without
    phantora_readme(c bindings/c/README.md c sh -c
      "${CMAKE_C_COMPILER} -std=c11 -Wall -Wextra -Wpedantic -Werror -I${PROJECT_SOURCE_DIR}/bindings/c {} -o main $<TARGET_FILE:phantora_c> && LD_LIBRARY_PATH=$<TARGET_FILE_DIR:phantora_c> ./main")
  endif()
endif()

# The Python package as it is installed, which is what its wheel holds.
if(PHANTORA_PYTHON AND PHANTORA_ADAPTERS)
  find_package(Python 3.10 REQUIRED COMPONENTS Interpreter)
  set(package ${PROJECT_BINARY_DIR}/python)
  set(install ${CMAKE_COMMAND} --install ${PROJECT_BINARY_DIR} --prefix ${package}/phantora --component)
  add_test(NAME bindings.python_program COMMAND ${install} phantora_program)
  add_test(NAME bindings.python_package COMMAND ${install} phantora_python)
  set_tests_properties(bindings.python_program bindings.python_package PROPERTIES
    FIXTURES_SETUP python_package)
  # phantora_python_test(NAME COMMAND...) runs a command with the package.
  function(phantora_python_test name)
    add_test(NAME ${name} COMMAND ${ARGN})
    set_tests_properties(${name} PROPERTIES ENVIRONMENT "PYTHONPATH=${package};MYPYPATH=${package}"
      FIXTURES_REQUIRED python_package TIMEOUT 300)
  endfunction()
  phantora_python_test(bindings.python ${Python_EXECUTABLE}
    ${CMAKE_CURRENT_SOURCE_DIR}/bindings/python_test.py)
  phantora_python_test(readme.python ${Python_EXECUTABLE}
    ${CMAKE_CURRENT_SOURCE_DIR}/readme.py ${PROJECT_SOURCE_DIR}/bindings/python/README.md python
    ${Python_EXECUTABLE} {})
  # What a type checker sees of the package, in programs that use much of it.
  phantora_python_test(bindings.python_types ${Python_EXECUTABLE} -m mypy --strict
    --follow-imports=silent --cache-dir=${PROJECT_BINARY_DIR}/mypy ${PROJECT_SOURCE_DIR}/examples/python)
  foreach(example autotuner what_if)
    phantora_python_test(example.python_${example} ${CMAKE_COMMAND} -DPYTHON=${Python_EXECUTABLE}
      -DPROGRAM=${PROJECT_SOURCE_DIR}/examples/python/${example}
      -P ${CMAKE_CURRENT_SOURCE_DIR}/bindings/example.cmake)
  endforeach()
  # What Python asks of a real job that was recorded.
  if(no_torch EQUAL 0)
    phantora_python_test(example.python_what_if_recorded ${CMAKE_COMMAND}
      -DPYTHON=${Python_EXECUTABLE} -DPROGRAM=${PROJECT_SOURCE_DIR}/examples/python/what_if_recorded
      -DARGUMENTS=${PHANTORA_TEST_RECORD} -P ${CMAKE_CURRENT_SOURCE_DIR}/bindings/example.cmake)
    set_tests_properties(example.python_what_if_recorded PROPERTIES
      LABELS torch FIXTURES_REQUIRED "python_package;record")
  endif()
  add_test(NAME bindings.python_wheel COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/bindings/wheel_test.sh
    ${Python_EXECUTABLE} ${PROJECT_BINARY_DIR}/wheel_test ${PHANTORA_TEST_PYTHON})
  set_tests_properties(bindings.python_wheel PROPERTIES LABELS heavy TIMEOUT 3600)  # it builds all
endif()
