file(REMOVE_RECURSE
  "CMakeFiles/kernel_tests.dir/Unity/unity_0_cxx.cxx.o"
  "CMakeFiles/kernel_tests.dir/Unity/unity_0_cxx.cxx.o.d"
  "kernel_tests"
  "kernel_tests.pdb"
)

# Per-language clean rules from dependency scanning.
foreach(lang CXX)
  include(CMakeFiles/kernel_tests.dir/cmake_clean_${lang}.cmake OPTIONAL)
endforeach()
