#include <eigenformer/layer/attention/attention.hpp>
#include <eigenformer/layer/attention/attention.hpp>  // NOLINT
