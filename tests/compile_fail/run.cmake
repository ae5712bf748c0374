# Compiles UNIT, which must fail with the error that it asks for before any other.
cmake_minimum_required(VERSION 3.22)
file(STRINGS "${UNIT}" flags REGEX "^// flags: ")
string(REPLACE "// flags: " "" flags "${flags}")
separate_arguments(flags UNIX_COMMAND "${flags}")
file(STRINGS "${UNIT}" expected REGEX "^// error: ")
string(REPLACE "// error: " "" expected "${expected}")
if(expected STREQUAL "")
  message(FATAL_ERROR "${UNIT} does not say which error it expects")
endif()

execute_process(
  COMMAND "${COMPILER}" -std=c++20 -fsyntax-only ${flags} ${INCLUDE_FLAGS} "${UNIT}"
  RESULT_VARIABLE code OUTPUT_VARIABLE text ERROR_VARIABLE text)
if(code EQUAL 0)
  message(FATAL_ERROR "${UNIT} compiles")
endif()
string(REGEX MATCH "error:[^\n]*" first "${text}")
if(NOT first MATCHES "${expected}")
  message(FATAL_ERROR "expected first \"${expected}\", got:\n${text}")
endif()
message("${first}")
