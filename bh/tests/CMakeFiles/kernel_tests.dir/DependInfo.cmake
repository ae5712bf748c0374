
# Consider dependencies only in project.
set(CMAKE_DEPENDS_IN_PROJECT_ONLY OFF)

# The set of languages for which implicit dependencies are needed:
set(CMAKE_DEPENDS_LANGUAGES
  )

# The set of dependency files which are needed:
set(CMAKE_DEPENDS_DEPENDENCY_FILES
  "/tmp/w/format/main/bh/tests/CMakeFiles/kernel_tests.dir/Unity/unity_0_cxx.cxx" "tests/CMakeFiles/kernel_tests.dir/Unity/unity_0_cxx.cxx.o" "gcc" "tests/CMakeFiles/kernel_tests.dir/Unity/unity_0_cxx.cxx.o.d"
  )

# Targets to which this target links.
set(CMAKE_TARGET_LINKED_INFO_FILES
  )

# Fortran module output directory.
set(CMAKE_Fortran_TARGET_MODULE_DIR "")
