file(REMOVE_RECURSE
  "CMakeFiles/core_tests.dir/Unity/unity_0_cxx.cxx.o"
  "CMakeFiles/core_tests.dir/Unity/unity_0_cxx.cxx.o.d"
  "CMakeFiles/core_tests.dir/core/arena_test.cpp.o"
  "CMakeFiles/core_tests.dir/core/arena_test.cpp.o.d"
  "core_tests"
  "core_tests.pdb"
)

# Per-language clean rules from dependency scanning.
foreach(lang CXX)
  include(CMakeFiles/core_tests.dir/cmake_clean_${lang}.cmake OPTIONAL)
endforeach()
