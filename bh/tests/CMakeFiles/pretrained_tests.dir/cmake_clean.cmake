file(REMOVE_RECURSE
  "CMakeFiles/pretrained_tests.dir/Unity/unity_0_cxx.cxx.o"
  "CMakeFiles/pretrained_tests.dir/Unity/unity_0_cxx.cxx.o.d"
  "pretrained_tests"
  "pretrained_tests.pdb"
)

# Per-language clean rules from dependency scanning.
foreach(lang CXX)
  include(CMakeFiles/pretrained_tests.dir/cmake_clean_${lang}.cmake OPTIONAL)
endforeach()
