// A field that is not there, by its name.
// error: (member named|field designator) .+max_length
#include "eigenformer/decode/generate.hpp"
const eigenformer::GenerateConfig config{.max_length = 1};
