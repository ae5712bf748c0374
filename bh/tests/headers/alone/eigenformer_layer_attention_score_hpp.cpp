#include <eigenformer/layer/attention/score.hpp>
#include <eigenformer/layer/attention/score.hpp>  // NOLINT
