#include <eigenformer/layer/attention/heads.hpp>
#include <eigenformer/layer/attention/heads.hpp>  // NOLINT
