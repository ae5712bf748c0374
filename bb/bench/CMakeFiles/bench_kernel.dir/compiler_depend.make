# Empty compiler generated dependencies file for bench_kernel.
# This may be replaced when dependencies are built.
