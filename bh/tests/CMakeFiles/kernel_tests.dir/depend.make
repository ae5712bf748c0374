# Empty dependencies file for kernel_tests.
# This may be replaced when dependencies are built.
