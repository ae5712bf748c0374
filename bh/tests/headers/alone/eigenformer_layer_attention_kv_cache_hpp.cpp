#include <eigenformer/layer/attention/kv_cache.hpp>
#include <eigenformer/layer/attention/kv_cache.hpp>  // NOLINT
