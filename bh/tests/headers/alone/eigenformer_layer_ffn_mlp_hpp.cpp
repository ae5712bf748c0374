#include <eigenformer/layer/ffn/mlp.hpp>
#include <eigenformer/layer/ffn/mlp.hpp>  // NOLINT
