file(REMOVE_RECURSE
  "CMakeFiles/headers_alone.dir/macros.cpp.o"
  "CMakeFiles/headers_alone.dir/macros.cpp.o.d"
)

# Per-language clean rules from dependency scanning.
foreach(lang CXX)
  include(CMakeFiles/headers_alone.dir/cmake_clean_${lang}.cmake OPTIONAL)
endforeach()
