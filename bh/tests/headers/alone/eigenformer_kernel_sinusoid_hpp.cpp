#include <eigenformer/kernel/sinusoid.hpp>
#include <eigenformer/kernel/sinusoid.hpp>  // NOLINT
