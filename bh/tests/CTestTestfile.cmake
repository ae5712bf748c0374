# CMake generated Testfile for 
# Source directory: /tmp/w/format/main/tests
# Build directory: /tmp/w/format/main/bh/tests
# 
# This file includes the relevant testing commands required for 
# testing this directory and lists subdirectories to be tested as well.
include("/tmp/w/format/main/bh/tests/core_tests[1]_include.cmake")
include("/tmp/w/format/main/bh/tests/kernel_tests[1]_include.cmake")
include("/tmp/w/format/main/bh/tests/op_tests[1]_include.cmake")
include("/tmp/w/format/main/bh/tests/layer_tests[1]_include.cmake")
include("/tmp/w/format/main/bh/tests/block_tests[1]_include.cmake")
include("/tmp/w/format/main/bh/tests/model_tests[1]_include.cmake")
include("/tmp/w/format/main/bh/tests/train_tests[1]_include.cmake")
include("/tmp/w/format/main/bh/tests/decode_tests[1]_include.cmake")
include("/tmp/w/format/main/bh/tests/io_tests[1]_include.cmake")
include("/tmp/w/format/main/bh/tests/pretrained_tests[1]_include.cmake")
include("/tmp/w/format/main/bh/tests/text_tests[1]_include.cmake")
include("/tmp/w/format/main/bh/tests/golden_tests[1]_include.cmake")
include("/tmp/w/format/main/bh/tests/examples_tests[1]_include.cmake")
subdirs("abi")
subdirs("fuzz")
subdirs("headers")
subdirs("style")
subdirs("package")
subdirs("compile_fail")
