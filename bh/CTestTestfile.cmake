# CMake generated Testfile for 
# Source directory: /tmp/w/format/main
# Build directory: /tmp/w/format/main/bh
# 
# This file includes the relevant testing commands required for 
# testing this directory and lists subdirectories to be tested as well.
subdirs("tests")
