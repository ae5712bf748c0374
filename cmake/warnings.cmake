# Our headers are not SYSTEM for our own programs, so their warnings show here.
target_compile_options(eigenformer_portable INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion
  $<$<BOOL:${EIGENFORMER_WERROR}>:-Werror>)

# GCC 12 takes undefined registers in its own AVX-512 intrinsics for uninitialised variables (its bug 105593).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(eigenformer_portable INTERFACE -Wno-uninitialized -Wno-maybe-uninitialized)
endif()
