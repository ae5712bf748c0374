# Installed files name no absolute path: the tree can be moved, and serves every architecture.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(package_dir ${CMAKE_INSTALL_DATADIR}/cmake/eigenformer)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/eigenformer" DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.hpp")

install(TARGETS eigenformer eigenformer_native EXPORT eigenformer-targets
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
set(exports eigenformer-targets)
if(TARGET eigenformer_io)
  install(TARGETS eigenformer_io EXPORT eigenformer-io-targets)
  list(APPEND exports eigenformer-io-targets)
endif()
if(TARGET eigenformer_text)
  install(TARGETS eigenformer_text EXPORT eigenformer-text-targets)
  list(APPEND exports eigenformer-text-targets)
endif()
foreach(name ${exports})
  install(EXPORT ${name} NAMESPACE eigenformer:: DESTINATION ${package_dir})
  export(EXPORT ${name} NAMESPACE eigenformer:: FILE "${PROJECT_BINARY_DIR}/${name}.cmake")
endforeach()

configure_file(cmake/sentencepiece.cmake sentencepiece.cmake COPYONLY)  # for those who use the build tree
configure_package_config_file(cmake/eigenformer-config.cmake.in eigenformer-config.cmake
  INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(eigenformer-config-version.cmake
  VERSION ${eigenformer_VERSION} COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES
  "${PROJECT_BINARY_DIR}/eigenformer-config.cmake"
  "${PROJECT_BINARY_DIR}/eigenformer-config-version.cmake"
  cmake/sentencepiece.cmake
  DESTINATION ${package_dir})

# For builds without CMake. Headers that need more than Eigen say which package.
set(pkgconfig_dir ${CMAKE_INSTALL_DATADIR}/pkgconfig)
file(RELATIVE_PATH relative_prefix "/${pkgconfig_dir}" /)
configure_file(cmake/eigenformer.pc.in eigenformer.pc @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/eigenformer.pc" DESTINATION ${pkgconfig_dir})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/licenses/eigenformer)
