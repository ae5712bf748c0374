file(REMOVE_RECURSE
  "CMakeFiles/text_tests.dir/Unity/unity_0_cxx.cxx.o"
  "CMakeFiles/text_tests.dir/Unity/unity_0_cxx.cxx.o.d"
  "text_tests"
  "text_tests.pdb"
)

# Per-language clean rules from dependency scanning.
foreach(lang CXX)
  include(CMakeFiles/text_tests.dir/cmake_clean_${lang}.cmake OPTIONAL)
endforeach()
