file(REMOVE_RECURSE
  "CMakeFiles/layer_tests.dir/Unity/unity_0_cxx.cxx.o"
  "CMakeFiles/layer_tests.dir/Unity/unity_0_cxx.cxx.o.d"
  "layer_tests"
  "layer_tests.pdb"
)

# Per-language clean rules from dependency scanning.
foreach(lang CXX)
  include(CMakeFiles/layer_tests.dir/cmake_clean_${lang}.cmake OPTIONAL)
endforeach()
