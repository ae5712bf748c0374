file(REMOVE_RECURSE
  "CMakeFiles/abi_reverse.dir/main.cpp.o"
  "CMakeFiles/abi_reverse.dir/main.cpp.o.d"
  "abi_reverse"
  "abi_reverse.pdb"
)

# Per-language clean rules from dependency scanning.
foreach(lang CXX)
  include(CMakeFiles/abi_reverse.dir/cmake_clean_${lang}.cmake OPTIONAL)
endforeach()
