# The code in READMEs is run as it stands there, and prints what they say.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
find_package(fmt REQUIRED)

# phantora_readme(NAME FILE LANGUAGE COMMAND...): {} in COMMAND is the file with the code.
function(phantora_readme name file language)
  add_test(NAME readme.${name} COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/test/readme.py
    ${PROJECT_SOURCE_DIR}/${file} ${language} ${ARGN})
endfunction()

if(NOT PHANTORA_SANITIZE)  # a user's program is built without
  # phantora_cpp_readme(NAME FILE): each block is a program on the library.
  function(phantora_cpp_readme name file)
    phantora_readme(${name} ${file} cpp sh -c
      "${CMAKE_CXX_COMPILER} -std=c++20 -Wall -Wextra -Werror -I${PROJECT_SOURCE_DIR}/include {} -o main $<TARGET_FILE:phantora> $<TARGET_FILE:phantora_core> $<TARGET_FILE:fmt::fmt> -pthread && ./main")
    set_tests_properties(readme.${name} PROPERTIES TIMEOUT 600)
  endfunction()
  phantora_cpp_readme(library README.md)
  phantora_cpp_readme(simulation include/phantora/simulation/README.md)
  phantora_cpp_readme(network include/phantora/network/README.md)
endif()
if(PHANTORA_ADAPTERS AND no_torch EQUAL 0)
  get_filename_component(bin ${PHANTORA_TEST_PYTHON} DIRECTORY)
  phantora_readme(pytorch examples/pytorch/README.md sh sh -c
    "ln -s ${PROJECT_SOURCE_DIR}/examples . && PATH=$<TARGET_FILE_DIR:phantora_program>:${bin}:$PATH && sh -e {}")
  set_tests_properties(readme.pytorch PROPERTIES LABELS torch TIMEOUT 600 RUN_SERIAL TRUE)
endif()
