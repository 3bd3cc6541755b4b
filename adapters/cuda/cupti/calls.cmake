# phantora_cupti_calls(OUTPUT HEADER INTERFACE): the numbers that CUPTI gives to the functions of an
# interface, as its header has them, as lines PHANTORA_CALL(name, number).
function(phantora_cupti_calls output header interface)
  set(call "CUPTI_${interface}_TRACE_CBID_(_*cu[A-Za-z0-9_]+) *= *([0-9]+)")
  file(STRINGS ${header} lines REGEX ${call})
  set(text "")
  foreach(line IN LISTS lines)
    string(REGEX MATCH ${call} matched "${line}")
    string(APPEND text "PHANTORA_CALL(${CMAKE_MATCH_1}, ${CMAKE_MATCH_2})\n")
  endforeach()
  file(CONFIGURE OUTPUT ${output} CONTENT "${text}" @ONLY)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
endfunction()
