#include <eigenformer/layer/embedding.hpp>
#include <eigenformer/layer/embedding.hpp>  // NOLINT
