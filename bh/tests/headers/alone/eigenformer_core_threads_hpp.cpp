#include <eigenformer/core/threads.hpp>
#include <eigenformer/core/threads.hpp>  // NOLINT
