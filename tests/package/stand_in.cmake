# Writes a package into `folder` that provides `target` with headers from `include`, and, as Eigen 5 does, refuses
# requests for another major version.
include(CMakePackageConfigHelpers)
function(write_stand_in folder package version target include)
  file(WRITE "${folder}/${package}Config.cmake" "
if(NOT TARGET ${target})
  add_library(${target} INTERFACE IMPORTED)
  target_include_directories(${target} INTERFACE \"${include}\")
endif()
")
  write_basic_package_version_file("${folder}/${package}ConfigVersion.cmake"
    VERSION ${version} COMPATIBILITY SameMajorVersion ARCH_INDEPENDENT)
endfunction()
