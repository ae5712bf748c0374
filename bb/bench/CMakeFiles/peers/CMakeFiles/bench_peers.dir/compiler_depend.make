# Empty compiler generated dependencies file for bench_peers.
# This may be replaced when dependencies are built.
