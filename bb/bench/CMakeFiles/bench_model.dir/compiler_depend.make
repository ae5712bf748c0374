# Empty compiler generated dependencies file for bench_model.
# This may be replaced when dependencies are built.
