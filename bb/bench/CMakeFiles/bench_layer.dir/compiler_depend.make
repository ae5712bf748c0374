# Empty compiler generated dependencies file for bench_layer.
# This may be replaced when dependencies are built.
