// flags: -std=c++17
// error: eigenformer needs C\+\+20: compile with -std=c\+\+20 or later
// errors: 2
#include <eigenformer/eigenformer.hpp>
