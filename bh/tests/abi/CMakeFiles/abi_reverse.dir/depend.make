# Empty dependencies file for abi_reverse.
# This may be replaced when dependencies are built.
