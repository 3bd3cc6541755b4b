# Tests of the bindings.
add_executable(c_test bindings/c_test.c)
set_target_properties(c_test PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF)
target_compile_options(c_test PRIVATE -Wall -Wextra -Wpedantic)
target_compile_definitions(c_test PRIVATE PHANTORA_TEST_VERSION="${PROJECT_VERSION}")
target_link_libraries(c_test PRIVATE phantora::c)
add_test(NAME bindings.c COMMAND c_test)
find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_test(NAME bindings.c_exports COMMAND Python3::Interpreter
  ${CMAKE_CURRENT_SOURCE_DIR}/bindings/exports_test.py $<TARGET_FILE:phantora_c> ${PROJECT_SOURCE_DIR})
add_test(NAME bindings.c_readme COMMAND Python3::Interpreter
  ${CMAKE_CURRENT_SOURCE_DIR}/bindings/readme.py ${PROJECT_SOURCE_DIR}/bindings/c/README.md c
  sh -c "${CMAKE_C_COMPILER} -std=c11 -Wall -Wextra -Wpedantic -Werror -I${PROJECT_SOURCE_DIR}/bindings/c {} -o main $<TARGET_FILE:phantora_c> && LD_LIBRARY_PATH=$<TARGET_FILE_DIR:phantora_c> ./main")
