file(REMOVE_RECURSE
  "CMakeFiles/abi_avx512.dir/unit.cpp.o"
  "CMakeFiles/abi_avx512.dir/unit.cpp.o.d"
)

# Per-language clean rules from dependency scanning.
foreach(lang CXX)
  include(CMakeFiles/abi_avx512.dir/cmake_clean_${lang}.cmake OPTIONAL)
endforeach()
