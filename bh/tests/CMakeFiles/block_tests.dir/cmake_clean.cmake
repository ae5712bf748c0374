file(REMOVE_RECURSE
  "CMakeFiles/block_tests.dir/Unity/unity_0_cxx.cxx.o"
  "CMakeFiles/block_tests.dir/Unity/unity_0_cxx.cxx.o.d"
  "block_tests"
  "block_tests.pdb"
)

# Per-language clean rules from dependency scanning.
foreach(lang CXX)
  include(CMakeFiles/block_tests.dir/cmake_clean_${lang}.cmake OPTIONAL)
endforeach()
