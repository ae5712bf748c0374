#include <eigenformer/layer/attention/transformer_xl_attention.hpp>
#include <eigenformer/layer/attention/transformer_xl_attention.hpp>  // NOLINT
