file(REMOVE_RECURSE
  "CMakeFiles/bench_layer.dir/layer/layers.cpp.o"
  "CMakeFiles/bench_layer.dir/layer/layers.cpp.o.d"
  "layer"
  "layer.pdb"
)

# Per-language clean rules from dependency scanning.
foreach(lang CXX)
  include(CMakeFiles/bench_layer.dir/cmake_clean_${lang}.cmake OPTIONAL)
endforeach()
