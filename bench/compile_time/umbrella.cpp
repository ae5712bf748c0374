// What including everything costs.
#include <eigenformer/eigenformer.hpp>
