# Empty dependencies file for model_tests.
# This may be replaced when dependencies are built.
