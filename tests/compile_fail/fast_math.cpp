// flags: -ffast-math
// error: eigenformer: -ffast-math
#include <eigenformer/core/error.hpp>
