#include <eigenformer/kernel/operand.hpp>
#include <eigenformer/kernel/operand.hpp>  // NOLINT
