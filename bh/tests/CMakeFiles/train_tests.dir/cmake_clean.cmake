file(REMOVE_RECURSE
  "CMakeFiles/train_tests.dir/Unity/unity_0_cxx.cxx.o"
  "CMakeFiles/train_tests.dir/Unity/unity_0_cxx.cxx.o.d"
  "CMakeFiles/train_tests.dir/train/allocations_test.cpp.o"
  "CMakeFiles/train_tests.dir/train/allocations_test.cpp.o.d"
  "train_tests"
  "train_tests.pdb"
)

# Per-language clean rules from dependency scanning.
foreach(lang CXX)
  include(CMakeFiles/train_tests.dir/cmake_clean_${lang}.cmake OPTIONAL)
endforeach()
