#include <eigenformer/layer/attention/attend.hpp>
#include <eigenformer/layer/attention/attend.hpp>  // NOLINT
