// All headers, for clang-tidy.
#include <eigenformer/eigenformer.hpp>
