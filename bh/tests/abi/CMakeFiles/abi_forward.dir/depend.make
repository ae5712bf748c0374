# Empty dependencies file for abi_forward.
# This may be replaced when dependencies are built.
