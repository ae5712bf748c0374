#include <eigenformer/kernel/embedding.hpp>
#include <eigenformer/kernel/embedding.hpp>  // NOLINT
