#include <eigenformer/model/marian.hpp>
#include <eigenformer/model/marian.hpp>  // NOLINT
