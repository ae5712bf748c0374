# Empty compiler generated dependencies file for decode_tests.
# This may be replaced when dependencies are built.
