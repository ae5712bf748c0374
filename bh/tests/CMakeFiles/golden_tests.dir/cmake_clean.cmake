file(REMOVE_RECURSE
  "CMakeFiles/golden_tests.dir/Unity/unity_0_cxx.cxx.o"
  "CMakeFiles/golden_tests.dir/Unity/unity_0_cxx.cxx.o.d"
  "golden_tests"
  "golden_tests.pdb"
)

# Per-language clean rules from dependency scanning.
foreach(lang CXX)
  include(CMakeFiles/golden_tests.dir/cmake_clean_${lang}.cmake OPTIONAL)
endforeach()
