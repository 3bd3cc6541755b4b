# PROGRAM.py ARGUMENTS prints what PROGRAM.txt says. Wants PYTHON too.
execute_process(COMMAND ${PYTHON} ${PROGRAM}.py ${ARGUMENTS}
  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE error)
file(READ ${PROGRAM}.txt expected)
if(NOT result EQUAL 0 OR NOT output STREQUAL expected)
  message(FATAL_ERROR "expected\n${expected}got\n${output}${error}")
endif()
