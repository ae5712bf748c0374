file(REMOVE_RECURSE
  "CMakeFiles/abi_baseline.dir/unit.cpp.o"
  "CMakeFiles/abi_baseline.dir/unit.cpp.o.d"
)

# Per-language clean rules from dependency scanning.
foreach(lang CXX)
  include(CMakeFiles/abi_baseline.dir/cmake_clean_${lang}.cmake OPTIONAL)
endforeach()
