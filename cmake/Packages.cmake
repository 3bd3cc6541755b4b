# Debian packages, by `cpack --config build/release/CPackConfig.cmake`: phantora has the program with
# its hooks, libphantora-dev what find_package and pkg-config find, the C library too.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "The Phantora authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Simulation of GPU clusters that runs real, unmodified programs")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_COMPONENTS_ALL phantora_dev)
if(PHANTORA_ADAPTERS)
  list(PREPEND CPACK_COMPONENTS_ALL phantora_program)
endif()

set(CPACK_DEBIAN_PHANTORA_PROGRAM_PACKAGE_NAME phantora)
set(CPACK_DEBIAN_PHANTORA_PROGRAM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PHANTORA_DEV_PACKAGE_NAME libphantora-dev)
set(CPACK_DEBIAN_PHANTORA_DEV_PACKAGE_SECTION libdevel)
# What the libraries need of Debian's; ours need one another too.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/lib ${PROJECT_BINARY_DIR}/lib/phantora)
include(CPack)
