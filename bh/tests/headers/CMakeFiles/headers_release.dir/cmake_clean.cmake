file(REMOVE_RECURSE
  "CMakeFiles/headers_release.dir/unit.cpp.o"
  "CMakeFiles/headers_release.dir/unit.cpp.o.d"
)

# Per-language clean rules from dependency scanning.
foreach(lang CXX)
  include(CMakeFiles/headers_release.dir/cmake_clean_${lang}.cmake OPTIONAL)
endforeach()
