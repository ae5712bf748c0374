
# Consider dependencies only in project.
set(CMAKE_DEPENDS_IN_PROJECT_ONLY OFF)

# The set of languages for which implicit dependencies are needed:
set(CMAKE_DEPENDS_LANGUAGES
  )

# The set of dependency files which are needed:
set(CMAKE_DEPENDS_DEPENDENCY_FILES
  "/tmp/w/format/main/bench/kernel/attention.cpp" "bench/CMakeFiles/bench_kernel.dir/kernel/attention.cpp.o" "gcc" "bench/CMakeFiles/bench_kernel.dir/kernel/attention.cpp.o.d"
  "/tmp/w/format/main/bench/kernel/elementwise.cpp" "bench/CMakeFiles/bench_kernel.dir/kernel/elementwise.cpp.o" "gcc" "bench/CMakeFiles/bench_kernel.dir/kernel/elementwise.cpp.o.d"
  "/tmp/w/format/main/bench/kernel/linear.cpp" "bench/CMakeFiles/bench_kernel.dir/kernel/linear.cpp.o" "gcc" "bench/CMakeFiles/bench_kernel.dir/kernel/linear.cpp.o.d"
  )

# Targets to which this target links.
set(CMAKE_TARGET_LINKED_INFO_FILES
  )

# Fortran module output directory.
set(CMAKE_Fortran_TARGET_MODULE_DIR "")
