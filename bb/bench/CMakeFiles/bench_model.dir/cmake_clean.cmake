file(REMOVE_RECURSE
  "CMakeFiles/bench_model.dir/model/llama.cpp.o"
  "CMakeFiles/bench_model.dir/model/llama.cpp.o.d"
  "CMakeFiles/bench_model.dir/model/paper.cpp.o"
  "CMakeFiles/bench_model.dir/model/paper.cpp.o.d"
  "CMakeFiles/bench_model.dir/model/speculative.cpp.o"
  "CMakeFiles/bench_model.dir/model/speculative.cpp.o.d"
  "CMakeFiles/bench_model.dir/model/translate.cpp.o"
  "CMakeFiles/bench_model.dir/model/translate.cpp.o.d"
  "model"
  "model.pdb"
)

# Per-language clean rules from dependency scanning.
foreach(lang CXX)
  include(CMakeFiles/bench_model.dir/cmake_clean_${lang}.cmake OPTIONAL)
endforeach()
