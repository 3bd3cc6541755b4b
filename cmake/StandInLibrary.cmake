# phantora_stand_in(NAME SONAME SOURCES...) builds the library that takes the place of NVIDIA's
# SONAME: file name, SONAME and ELF version node are the real ones, every symbol of the committed
# list adapters/exports/SONAME.txt is exported, and those that SOURCES do not define answer
# "not supported". Anything else would be refused or overlooked by the dynamic linker.
# FOLDER NAME puts it in a folder of that name, apart from the others. OVER LIBRARIES: what it is linked
# with in the place of the simulated rank.
find_package(Python3 REQUIRED COMPONENTS Interpreter)

function(phantora_stand_in name soname)
  cmake_parse_arguments(arg "" "FOLDER" "OVER" ${ARGN})
  if(NOT arg_OVER)
    set(arg_OVER phantora_driver phantora_rank)
  endif()
  set(origin "$ORIGIN")
  if(arg_FOLDER)
    string(PREPEND arg_FOLDER "/")
    set(origin "$ORIGIN/..")
  endif()
  set(list ${PROJECT_SOURCE_DIR}/adapters/exports/${soname}.txt)
  set(script ${PROJECT_SOURCE_DIR}/adapters/exports/generate.py)
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/${name})
  add_custom_command(
    OUTPUT ${generated}/stubs.c ${generated}/exports.map
    COMMAND Python3::Interpreter ${script} ${list} ${generated}
    DEPENDS ${list} ${script} ${PROJECT_SOURCE_DIR}/adapters/exports/collect.py VERBATIM)
  set_source_files_properties(${generated}/stubs.c PROPERTIES
    COMPILE_OPTIONS "-w" OBJECT_DEPENDS ${generated}/exports.map)

  string(REGEX MATCH "^(.*)(\\.so\\..*)$" matched ${soname})
  set(target phantora_${name})
  add_library(${target} SHARED ${generated}/stubs.c
    ${PROJECT_SOURCE_DIR}/adapters/cuda/unsupported.cpp ${arg_UNPARSED_ARGUMENTS})
  set_target_properties(${target} PROPERTIES
    PREFIX "" OUTPUT_NAME ${CMAKE_MATCH_1} SUFFIX ${CMAKE_MATCH_2} NO_SONAME ON
    LIBRARY_OUTPUT_DIRECTORY ${PHANTORA_HOOK_DIR}${arg_FOLDER}
    C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    BUILD_RPATH_USE_ORIGIN ON BUILD_RPATH "${origin}" INSTALL_RPATH "${origin}"
    LINK_DEPENDS ${generated}/exports.map)
  # -Bsymbolic-functions: a call from one function of ours to another stays inside.
  target_link_options(${target} PRIVATE
    -Wl,-soname,${soname} -Wl,--version-script=${generated}/exports.map
    -Wl,-Bsymbolic-functions -Wl,--no-undefined -Wl,-z,now)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/adapters)
  target_link_libraries(${target} PRIVATE ${arg_OVER} phantora_cuda_headers phantora_options)
  set_property(GLOBAL APPEND PROPERTY PHANTORA_STAND_INS ${target})
  install(TARGETS ${target} LIBRARY DESTINATION ${PHANTORA_HOOK_INSTALL_DIR}${arg_FOLDER}
    COMPONENT phantora_program)
endfunction()
