# Empty dependencies file for examples_tests.
# This may be replaced when dependencies are built.
