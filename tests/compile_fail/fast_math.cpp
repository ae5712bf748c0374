// flags: -ffast-math
// error: eigenformer: -ffast-math
// errors: 2
#include <eigenformer/core/error.hpp>
