#include <eigenformer/layer/ffn/gated_mlp.hpp>
#include <eigenformer/layer/ffn/gated_mlp.hpp>  // NOLINT
