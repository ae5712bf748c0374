
# Consider dependencies only in project.
set(CMAKE_DEPENDS_IN_PROJECT_ONLY OFF)

# The set of languages for which implicit dependencies are needed:
set(CMAKE_DEPENDS_LANGUAGES
  )

# The set of dependency files which are needed:
set(CMAKE_DEPENDS_DEPENDENCY_FILES
  "/tmp/w/format/main/bench/model/llama.cpp" "bench/CMakeFiles/bench_model.dir/model/llama.cpp.o" "gcc" "bench/CMakeFiles/bench_model.dir/model/llama.cpp.o.d"
  "/tmp/w/format/main/bench/model/paper.cpp" "bench/CMakeFiles/bench_model.dir/model/paper.cpp.o" "gcc" "bench/CMakeFiles/bench_model.dir/model/paper.cpp.o.d"
  "/tmp/w/format/main/bench/model/speculative.cpp" "bench/CMakeFiles/bench_model.dir/model/speculative.cpp.o" "gcc" "bench/CMakeFiles/bench_model.dir/model/speculative.cpp.o.d"
  "/tmp/w/format/main/bench/model/translate.cpp" "bench/CMakeFiles/bench_model.dir/model/translate.cpp.o" "gcc" "bench/CMakeFiles/bench_model.dir/model/translate.cpp.o.d"
  )

# Targets to which this target links.
set(CMAKE_TARGET_LINKED_INFO_FILES
  )

# Fortran module output directory.
set(CMAKE_Fortran_TARGET_MODULE_DIR "")
