# Empty dependencies file for op_tests.
# This may be replaced when dependencies are built.
