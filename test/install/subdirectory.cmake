# A project that has our source tree as a part of its own. Wants ROOT and WORK (a scratch folder).
file(REMOVE_RECURSE ${WORK})
foreach(command
    "-S;${ROOT}/test/install/subdirectory;-B;${WORK};-G;Ninja;-DPHANTORA_SOURCE=${ROOT}"
    "--build;${WORK}")
  execute_process(COMMAND ${CMAKE_COMMAND} ${command} RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${command}\n${out}")
  endif()
endforeach()
execute_process(COMMAND ${WORK}/subdirectory_consumer COMMAND_ERROR_IS_FATAL ANY)
# No more is built than what it links, and nothing but the library is asked for.
file(GLOB_RECURSE more ${WORK}/*test*.o ${WORK}/*rank*.o)
if(more)
  message(FATAL_ERROR "also built: ${more}")
endif()
