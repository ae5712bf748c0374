file(REMOVE_RECURSE
  "CMakeFiles/abi_forward.dir/main.cpp.o"
  "CMakeFiles/abi_forward.dir/main.cpp.o.d"
  "abi_forward"
  "abi_forward.pdb"
)

# Per-language clean rules from dependency scanning.
foreach(lang CXX)
  include(CMakeFiles/abi_forward.dir/cmake_clean_${lang}.cmake OPTIONAL)
endforeach()
