# Empty dependencies file for io_tests.
# This may be replaced when dependencies are built.
