file(REMOVE_RECURSE
  "CMakeFiles/examples_tests.dir/Unity/unity_0_cxx.cxx.o"
  "CMakeFiles/examples_tests.dir/Unity/unity_0_cxx.cxx.o.d"
  "examples_tests"
  "examples_tests.pdb"
)

# Per-language clean rules from dependency scanning.
foreach(lang CXX)
  include(CMakeFiles/examples_tests.dir/cmake_clean_${lang}.cmake OPTIONAL)
endforeach()
