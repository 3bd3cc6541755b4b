find_package(Python3 REQUIRED COMPONENTS Interpreter)

# phantora_jobs(FILE CLASSES... [TORCH] [HEAVY] [TIMEOUT s]) registers unittest classes of
# test/jobs/FILE_test.py as one test. Jobs run one at a time: each uses every core.
function(phantora_jobs file)
  cmake_parse_arguments(arg "TORCH;HEAVY" "TIMEOUT" "" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  foreach(class IN LISTS arg_UNPARSED_ARGUMENTS)
    set(name jobs.${file}.${class})
    add_test(NAME ${name}
      COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/jobs/${file}_test.py ${class})
    set(labels jobs)
    if(arg_TORCH)
      list(APPEND labels torch)
    endif()
    if(arg_HEAVY)
      list(APPEND labels heavy)
    endif()
    set_tests_properties(${name} PROPERTIES
      LABELS "${labels}" TIMEOUT ${arg_TIMEOUT} RUN_SERIAL TRUE
      ENVIRONMENT "PHANTORA=$<TARGET_FILE:phantora_program>;PHANTORA_PYTHON=${PROJECT_SOURCE_DIR}/build/venv/bin/python")
  endforeach()
endfunction()

phantora_jobs(failure DyingRank MissingRank OutOfMemory BadArguments FailedRunWritesNoReport Stopped)
phantora_jobs(failure OutOfMemoryInTorch StoppedTorch TORCH)
