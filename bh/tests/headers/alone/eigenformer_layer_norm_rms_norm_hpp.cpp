#include <eigenformer/layer/norm/rms_norm.hpp>
#include <eigenformer/layer/norm/rms_norm.hpp>  // NOLINT
