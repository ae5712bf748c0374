// flags: -fno-exceptions
// error: eigenformer throws eigenformer::Error: compile without -fno-exceptions
// errors: 2
#include <eigenformer/eigenformer.hpp>
