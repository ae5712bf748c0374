# Empty dependencies file for train_tests.
# This may be replaced when dependencies are built.
