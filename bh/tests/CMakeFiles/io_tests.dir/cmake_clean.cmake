file(REMOVE_RECURSE
  "CMakeFiles/io_tests.dir/Unity/unity_0_cxx.cxx.o"
  "CMakeFiles/io_tests.dir/Unity/unity_0_cxx.cxx.o.d"
  "CMakeFiles/io_tests.dir/io/allocations_test.cpp.o"
  "CMakeFiles/io_tests.dir/io/allocations_test.cpp.o.d"
  "io_tests"
  "io_tests.pdb"
)

# Per-language clean rules from dependency scanning.
foreach(lang CXX)
  include(CMakeFiles/io_tests.dir/cmake_clean_${lang}.cmake OPTIONAL)
endforeach()
