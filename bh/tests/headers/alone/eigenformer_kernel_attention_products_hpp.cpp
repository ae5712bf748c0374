#include <eigenformer/kernel/attention_products.hpp>
#include <eigenformer/kernel/attention_products.hpp>  // NOLINT
