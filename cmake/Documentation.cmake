# The target `documentation`: HTML in build/*/html of what programs include. A public name that nobody
# has said anything about is an error. Doxygen is a Debian package; without it there is no such target.
find_package(Doxygen QUIET)
if(DOXYGEN_FOUND)
  set(DOXYGEN_QUIET YES)
  set(DOXYGEN_WARN_AS_ERROR FAIL_ON_WARNINGS)
  set(DOXYGEN_WARN_IF_INCOMPLETE_DOC NO)  # names of parameters often say enough
  set(DOXYGEN_FILE_PATTERNS *.hpp *.h)
  set(DOXYGEN_JAVADOC_AUTOBRIEF YES)
  set(DOXYGEN_DISTRIBUTE_GROUP_DOC YES)  # what a group says it says of each member
  set(DOXYGEN_EXCLUDE_SYMBOLS phantora::detail phantora::detail::*)
  set(DOXYGEN_MACRO_EXPANSION YES)
  set(DOXYGEN_EXPAND_ONLY_PREDEF YES)
  set(DOXYGEN_PREDEFINED "PHANTORA_API=" "PHANTORA_ENUM=")
  set(DOXYGEN_INPUT_FILTER "sed -E -f ${PROJECT_SOURCE_DIR}/cmake/doxygen.sed")
  set(DOXYGEN_STRIP_FROM_PATH ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/bindings/c)
  set(DOXYGEN_HAVE_DOT NO)
  set(DOXYGEN_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  doxygen_add_docs(documentation include/phantora bindings/c/phantora.h)
endif()
