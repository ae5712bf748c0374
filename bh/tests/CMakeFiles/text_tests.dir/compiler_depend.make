# Empty compiler generated dependencies file for text_tests.
# This may be replaced when dependencies are built.
