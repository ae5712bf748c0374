file(REMOVE_RECURSE
  "../../peers"
  "../../peers.pdb"
  "CMakeFiles/bench_peers.dir/eigen.cpp.o"
  "CMakeFiles/bench_peers.dir/eigen.cpp.o.d"
  "CMakeFiles/bench_peers.dir/peers.cpp.o"
  "CMakeFiles/bench_peers.dir/peers.cpp.o.d"
)

# Per-language clean rules from dependency scanning.
foreach(lang CXX)
  include(CMakeFiles/bench_peers.dir/cmake_clean_${lang}.cmake OPTIONAL)
endforeach()
