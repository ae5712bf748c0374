#include <eigenformer/layer/attention/config.hpp>
#include <eigenformer/layer/attention/config.hpp>  // NOLINT
