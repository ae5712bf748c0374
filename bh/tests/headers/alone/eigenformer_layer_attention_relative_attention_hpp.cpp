#include <eigenformer/layer/attention/relative_attention.hpp>
#include <eigenformer/layer/attention/relative_attention.hpp>  // NOLINT
