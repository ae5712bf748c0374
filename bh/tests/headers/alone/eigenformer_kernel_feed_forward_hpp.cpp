#include <eigenformer/kernel/feed_forward.hpp>
#include <eigenformer/kernel/feed_forward.hpp>  // NOLINT
