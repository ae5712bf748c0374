# CMake generated Testfile for 
# Source directory: /tmp/w/format/main/tests/abi
# Build directory: /tmp/w/format/main/bh/tests/abi
# 
# This file includes the relevant testing commands required for 
# testing this directory and lists subdirectories to be tested as well.
add_test([=[abi.forward]=] "/tmp/w/format/main/bh/tests/abi/abi_forward")
set_tests_properties([=[abi.forward]=] PROPERTIES  RESOURCE_LOCK "abi_files" _BACKTRACE_TRIPLES "/tmp/w/format/main/tests/abi/CMakeLists.txt;26;add_test;/tmp/w/format/main/tests/abi/CMakeLists.txt;0;")
add_test([=[abi.reverse]=] "/tmp/w/format/main/bh/tests/abi/abi_reverse")
set_tests_properties([=[abi.reverse]=] PROPERTIES  RESOURCE_LOCK "abi_files" _BACKTRACE_TRIPLES "/tmp/w/format/main/tests/abi/CMakeLists.txt;26;add_test;/tmp/w/format/main/tests/abi/CMakeLists.txt;0;")
