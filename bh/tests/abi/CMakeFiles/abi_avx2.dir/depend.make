# Empty dependencies file for abi_avx2.
# This may be replaced when dependencies are built.
