
# Consider dependencies only in project.
set(CMAKE_DEPENDS_IN_PROJECT_ONLY OFF)

# The set of languages for which implicit dependencies are needed:
set(CMAKE_DEPENDS_LANGUAGES
  )

# The set of dependency files which are needed:
set(CMAKE_DEPENDS_DEPENDENCY_FILES
  "/tmp/w/format/main/bench/peers/random_llama.cpp" "bench/CMakeFiles/peers/CMakeFiles/random_llama.dir/random_llama.cpp.o" "gcc" "bench/CMakeFiles/peers/CMakeFiles/random_llama.dir/random_llama.cpp.o.d"
  )

# Targets to which this target links.
set(CMAKE_TARGET_LINKED_INFO_FILES
  )

# Fortran module output directory.
set(CMAKE_Fortran_TARGET_MODULE_DIR "")
