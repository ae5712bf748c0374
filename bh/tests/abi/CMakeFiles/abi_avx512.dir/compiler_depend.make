# Empty compiler generated dependencies file for abi_avx512.
# This may be replaced when dependencies are built.
