file(REMOVE_RECURSE
  "CMakeFiles/headers_two_units.dir/two_units.cpp.o"
  "CMakeFiles/headers_two_units.dir/two_units.cpp.o.d"
  "headers_two_units"
  "headers_two_units.pdb"
)

# Per-language clean rules from dependency scanning.
foreach(lang CXX)
  include(CMakeFiles/headers_two_units.dir/cmake_clean_${lang}.cmake OPTIONAL)
endforeach()
