file(REMOVE_RECURSE
  "CMakeFiles/bench_kernel.dir/kernel/attention.cpp.o"
  "CMakeFiles/bench_kernel.dir/kernel/attention.cpp.o.d"
  "CMakeFiles/bench_kernel.dir/kernel/elementwise.cpp.o"
  "CMakeFiles/bench_kernel.dir/kernel/elementwise.cpp.o.d"
  "CMakeFiles/bench_kernel.dir/kernel/linear.cpp.o"
  "CMakeFiles/bench_kernel.dir/kernel/linear.cpp.o.d"
  "kernel"
  "kernel.pdb"
)

# Per-language clean rules from dependency scanning.
foreach(lang CXX)
  include(CMakeFiles/bench_kernel.dir/cmake_clean_${lang}.cmake OPTIONAL)
endforeach()
