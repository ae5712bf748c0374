# cmake -P cmake/demo.cmake [-- arguments of the program]
# Builds examples/translate and runs it: a Transformer learns to translate, then translates what you type.
# Settings, before -P: -DBUILD_DIR=build -DJOBS=n -DCMAKE_ARGS="-D...;-D..."
cmake_minimum_required(VERSION 3.22)
include("${CMAKE_CURRENT_LIST_DIR}/setup.cmake")
eigenformer_build(--target translate)

set(arguments "")
set(forward FALSE)
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(i RANGE ${last})
  if(forward)
    list(APPEND arguments "${CMAKE_ARGV${i}}")
  elseif(CMAKE_ARGV${i} STREQUAL "--")
    set(forward TRUE)
  endif()
endforeach()

# CMake reads what a child prints through a pipe; on a terminal the program is given the terminal itself.
set(terminal "")
if(EXISTS /proc/self/fd/1)
  file(READ_SYMLINK /proc/self/fd/1 stdout)
  if(stdout MATCHES "^/dev/(pts/|tty)")
    set(terminal OUTPUT_FILE "${stdout}")
  endif()
endif()
execute_process(COMMAND "${build_dir}/examples/translate" ${arguments} ${terminal} RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "translate failed: ${failed}")
endif()
