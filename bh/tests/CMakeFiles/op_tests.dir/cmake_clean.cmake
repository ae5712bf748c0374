file(REMOVE_RECURSE
  "CMakeFiles/op_tests.dir/Unity/unity_0_cxx.cxx.o"
  "CMakeFiles/op_tests.dir/Unity/unity_0_cxx.cxx.o.d"
  "op_tests"
  "op_tests.pdb"
)

# Per-language clean rules from dependency scanning.
foreach(lang CXX)
  include(CMakeFiles/op_tests.dir/cmake_clean_${lang}.cmake OPTIONAL)
endforeach()
