file(REMOVE_RECURSE
  "CMakeFiles/decode_tests.dir/Unity/unity_0_cxx.cxx.o"
  "CMakeFiles/decode_tests.dir/Unity/unity_0_cxx.cxx.o.d"
  "CMakeFiles/decode_tests.dir/decode/allocations_test.cpp.o"
  "CMakeFiles/decode_tests.dir/decode/allocations_test.cpp.o.d"
  "decode_tests"
  "decode_tests.pdb"
)

# Per-language clean rules from dependency scanning.
foreach(lang CXX)
  include(CMakeFiles/decode_tests.dir/cmake_clean_${lang}.cmake OPTIONAL)
endforeach()
