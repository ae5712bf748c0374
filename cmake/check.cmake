# cmake -P cmake/check.cmake
# Builds everything and runs every test; fails if anything does.
# Settings, before -P: -DBUILD_DIR=build -DJOBS=n -DCMAKE_ARGS="-D...;-D..."
cmake_minimum_required(VERSION 3.22)
include("${CMAKE_CURRENT_LIST_DIR}/setup.cmake")
eigenformer_build()

find_program(ctest NAMES ctest REQUIRED NO_CACHE)
execute_process(COMMAND "${ctest}" --test-dir "${build_dir}" --output-on-failure --parallel ${JOBS} --no-tests=error
  COMMAND_ERROR_IS_FATAL ANY)
