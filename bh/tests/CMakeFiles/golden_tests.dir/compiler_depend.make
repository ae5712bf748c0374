# Empty compiler generated dependencies file for golden_tests.
# This may be replaced when dependencies are built.
