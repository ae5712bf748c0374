# Empty dependencies file for layer_tests.
# This may be replaced when dependencies are built.
