if(EXISTS "/tmp/w/format/main/bh/tests/op_tests")
  if(NOT EXISTS "/tmp/w/format/main/bh/tests/op_tests[1]_tests.cmake" OR
     NOT "/tmp/w/format/main/bh/tests/op_tests[1]_tests.cmake" IS_NEWER_THAN "/tmp/w/format/main/bh/tests/op_tests" OR
     NOT "/tmp/w/format/main/bh/tests/op_tests[1]_tests.cmake" IS_NEWER_THAN "${CMAKE_CURRENT_LIST_FILE}")
    include("/usr/share/cmake-3.25/Modules/GoogleTestAddTests.cmake")
    gtest_discover_tests_impl(
      TEST_EXECUTABLE [==[/tmp/w/format/main/bh/tests/op_tests]==]
      TEST_EXECUTOR [==[]==]
      TEST_WORKING_DIR [==[/tmp/w/format/main/bh/tests]==]
      TEST_EXTRA_ARGS [==[]==]
      TEST_PROPERTIES [==[]==]
      TEST_PREFIX [==[]==]
      TEST_SUFFIX [==[]==]
      TEST_FILTER [==[]==]
      NO_PRETTY_TYPES [==[FALSE]==]
      NO_PRETTY_VALUES [==[TRUE]==]
      TEST_LIST [==[op_tests_TESTS]==]
      CTEST_FILE [==[/tmp/w/format/main/bh/tests/op_tests[1]_tests.cmake]==]
      TEST_DISCOVERY_TIMEOUT [==[5]==]
      TEST_XML_OUTPUT_DIR [==[]==]
    )
  endif()
  include("/tmp/w/format/main/bh/tests/op_tests[1]_tests.cmake")
else()
  add_test(op_tests_NOT_BUILT op_tests_NOT_BUILT)
endif()
