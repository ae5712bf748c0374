file(REMOVE_RECURSE
  "CMakeFiles/headers_debug.dir/unit.cpp.o"
  "CMakeFiles/headers_debug.dir/unit.cpp.o.d"
)

# Per-language clean rules from dependency scanning.
foreach(lang CXX)
  include(CMakeFiles/headers_debug.dir/cmake_clean_${lang}.cmake OPTIONAL)
endforeach()
