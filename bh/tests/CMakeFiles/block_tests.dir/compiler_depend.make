# Empty compiler generated dependencies file for block_tests.
# This may be replaced when dependencies are built.
