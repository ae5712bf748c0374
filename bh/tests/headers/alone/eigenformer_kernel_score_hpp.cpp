#include <eigenformer/kernel/score.hpp>
#include <eigenformer/kernel/score.hpp>  // NOLINT
