# SPDX-License-Identifier: MIT
#
# Install rules: headers, package config, pkg-config file. Nothing depends on the architecture.

include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(intq_config_dir "${CMAKE_INSTALL_DATADIR}/cmake/intq")
set(intq_include_dir "${CMAKE_INSTALL_INCLUDEDIR}")

install(TARGETS intq intq_hosted EXPORT intqTargets FILE_SET HEADERS)
install(EXPORT intqTargets NAMESPACE intq:: DESTINATION "${intq_config_dir}")

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/intqConfig.cmake.in"
                              "${PROJECT_BINARY_DIR}/intqConfig.cmake" INSTALL_DESTINATION "${intq_config_dir}" PATH_VARS intq_include_dir)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/intqConfigVersion.cmake" COMPATIBILITY SameMinorVersion
                                 ARCH_INDEPENDENT)
install(FILES "${PROJECT_BINARY_DIR}/intqConfig.cmake" "${PROJECT_BINARY_DIR}/intqConfigVersion.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/IntqDependencies.cmake" "${PROJECT_SOURCE_DIR}/cmake/IntqBackends.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/IntqCompiled.cmake" DESTINATION "${intq_config_dir}")

# The prefix is found from the file's own place, so that an installed tree may be moved.
file(RELATIVE_PATH intq_pc_to_prefix "/${CMAKE_INSTALL_DATADIR}/pkgconfig" "/")
configure_file("${PROJECT_SOURCE_DIR}/cmake/intq.pc.in" "${PROJECT_BINARY_DIR}/intq.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/intq.pc" DESTINATION "${CMAKE_INSTALL_DATADIR}/pkgconfig")

if(TARGET intq_tool)
    install(TARGETS intq_tool RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" OPTIONAL)
endif()
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
