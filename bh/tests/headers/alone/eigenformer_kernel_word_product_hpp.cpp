#include <eigenformer/kernel/word_product.hpp>
#include <eigenformer/kernel/word_product.hpp>  // NOLINT
