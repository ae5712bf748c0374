file(REMOVE_RECURSE
  "CMakeFiles/model_tests.dir/Unity/unity_0_cxx.cxx.o"
  "CMakeFiles/model_tests.dir/Unity/unity_0_cxx.cxx.o.d"
  "CMakeFiles/model_tests.dir/model/visit_test.cpp.o"
  "CMakeFiles/model_tests.dir/model/visit_test.cpp.o.d"
  "model_tests"
  "model_tests.pdb"
)

# Per-language clean rules from dependency scanning.
foreach(lang CXX)
  include(CMakeFiles/model_tests.dir/cmake_clean_${lang}.cmake OPTIONAL)
endforeach()
