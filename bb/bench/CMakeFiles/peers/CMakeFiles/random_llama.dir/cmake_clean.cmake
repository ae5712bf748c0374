file(REMOVE_RECURSE
  "../../random_llama"
  "../../random_llama.pdb"
  "CMakeFiles/random_llama.dir/random_llama.cpp.o"
  "CMakeFiles/random_llama.dir/random_llama.cpp.o.d"
)

# Per-language clean rules from dependency scanning.
foreach(lang CXX)
  include(CMakeFiles/random_llama.dir/cmake_clean_${lang}.cmake OPTIONAL)
endforeach()
