# Empty dependencies file for abi_baseline.
# This may be replaced when dependencies are built.
