// Eigen's core.
#pragma once

#include "eigenformer/core/language.hpp"

// g++ 12 takes registers that its own AVX-512 intrinsics leave undefined for uninitialised variables (its bug 105593),
// where Eigen uses them and we use Eigen: a program with -Wall -Werror must compile all the same.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <Eigen/Core>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
