# Empty dependencies file for pretrained_tests.
# This may be replaced when dependencies are built.
