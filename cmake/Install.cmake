# What `cmake --install` puts down: headers, the libraries and the package that find_package finds.
include(CMakePackageConfigHelpers)
set(PHANTORA_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/phantora)

set_target_properties(phantora_core PROPERTIES EXPORT_NAME core)
foreach(component core phantora)
  set(target phantora)
  if(component STREQUAL core)
    set(target phantora_core)
  endif()
  install(TARGETS ${target} EXPORT phantora-${component}-targets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT phantora_dev
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT phantora_dev)
  install(EXPORT phantora-${component}-targets NAMESPACE phantora::
    DESTINATION ${PHANTORA_PACKAGE_DIR} COMPONENT phantora_dev)
endforeach()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/phantora
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT phantora_dev)

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/phantora-config.cmake.in
  ${PROJECT_BINARY_DIR}/phantora-config.cmake INSTALL_DESTINATION ${PHANTORA_PACKAGE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/phantora-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/phantora-config.cmake
  ${PROJECT_BINARY_DIR}/phantora-config-version.cmake
  DESTINATION ${PHANTORA_PACKAGE_DIR} COMPONENT phantora_dev)
