# CMake generated Testfile for 
# Source directory: /tmp/w/format/main/tests/fuzz
# Build directory: /tmp/w/format/main/bh/tests/fuzz
# 
# This file includes the relevant testing commands required for 
# testing this directory and lists subdirectories to be tested as well.
