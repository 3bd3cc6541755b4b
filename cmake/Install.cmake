# What `cmake --install` puts down: headers, the libraries, and what find_package and pkg-config find.
include(CMakePackageConfigHelpers)

set(PHANTORA_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/phantora)
set(components core graph phantora format)
set(packages phantora-core phantora)
if(TARGET phantora_kernel_database)
  list(APPEND components kernel_database)
endif()
if(PHANTORA_C)
  list(APPEND components c)
  list(APPEND packages phantora-c)
endif()
foreach(component IN LISTS components)
  set(target phantora_${component})
  if(component STREQUAL phantora)
    set(target phantora)
  endif()
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${component})
  install(TARGETS ${target} EXPORT phantora-${component}-targets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT phantora_dev
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT phantora_dev
    FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT phantora_dev)
  install(EXPORT phantora-${component}-targets NAMESPACE phantora::
    DESTINATION ${PHANTORA_PACKAGE_DIR} COMPONENT phantora_dev)
endforeach()
if(PHANTORA_ADAPTERS)
  install(EXPORT phantora-adapters-targets NAMESPACE phantora::
    DESTINATION ${PHANTORA_PACKAGE_DIR} COMPONENT phantora_dev)
endif()
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/phantora-config.cmake.in
  ${PROJECT_BINARY_DIR}/phantora-config.cmake INSTALL_DESTINATION ${PHANTORA_PACKAGE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/phantora-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/phantora-config.cmake
  ${PROJECT_BINARY_DIR}/phantora-config-version.cmake
  DESTINATION ${PHANTORA_PACKAGE_DIR} COMPONENT phantora_dev)

# Paths from where the .pc file lies, so that these move with the tree too.
file(RELATIVE_PATH PHANTORA_PREFIX_FROM_PC
  ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
foreach(package IN LISTS packages)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/${package}.pc.in
    ${PROJECT_BINARY_DIR}/${package}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${package}.pc
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT phantora_dev)
endforeach()
