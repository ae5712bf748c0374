# Each of HEADERS, compiled as C++17: the first error says what is needed, and compilation ends there.
cmake_minimum_required(VERSION 3.22)
list(REMOVE_ITEM HEADERS eigenformer/version.hpp)
foreach(header ${HEADERS})
  execute_process(COMMAND "${COMPILER}" -std=c++17 -fsyntax-only ${INCLUDE_FLAGS} -include ${header} -x c++ /dev/null
    RESULT_VARIABLE code OUTPUT_VARIABLE text ERROR_VARIABLE text)
  string(REGEX MATCHALL "error:[^\n]*" errors "${text}")
  list(LENGTH errors count)
  list(POP_FRONT errors first)
  if(NOT code OR NOT first MATCHES "eigenformer needs C\\+\\+20: compile with -std=c\\+\\+20" OR count GREATER 2)
    message(FATAL_ERROR "${header}: expected one clear error, got\n${text}")
  endif()
endforeach()
