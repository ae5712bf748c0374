#include <eigenformer/kernel/row.hpp>
#include <eigenformer/kernel/row.hpp>  // NOLINT
