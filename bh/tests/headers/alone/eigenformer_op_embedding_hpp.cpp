#include <eigenformer/op/embedding.hpp>
#include <eigenformer/op/embedding.hpp>  // NOLINT
