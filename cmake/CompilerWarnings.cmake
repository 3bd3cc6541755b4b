# Compile options of every target of ours. Exactness needs the compiler to keep IEEE arithmetic:
# no contraction into fused multiply-add, no fast-math (design section 3).
add_library(phantora_options INTERFACE)
target_compile_options(phantora_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -ffp-contract=off)
# GCC 12 warns of what cannot be: in std::string's + (its bug 105651), and in <=> of vectors.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(phantora_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict> $<$<COMPILE_LANGUAGE:CXX>:-Wno-stringop-overread>)
endif()
if(PHANTORA_SANITIZE)
  target_compile_options(phantora_options INTERFACE
    -fsanitize=${PHANTORA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  # An index beyond a vector's end lies often within its memory, where no sanitizer sees it.
  target_compile_definitions(phantora_options INTERFACE _GLIBCXX_ASSERTIONS)
  target_link_options(phantora_options INTERFACE -fsanitize=${PHANTORA_SANITIZE})
endif()
