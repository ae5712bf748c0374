#include <eigenformer/kernel/loss.hpp>
#include <eigenformer/kernel/loss.hpp>  // NOLINT
