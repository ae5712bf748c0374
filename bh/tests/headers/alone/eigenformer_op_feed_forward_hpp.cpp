#include <eigenformer/op/feed_forward.hpp>
#include <eigenformer/op/feed_forward.hpp>  // NOLINT
