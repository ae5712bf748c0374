#include <eigenformer/kernel/attention_backward.hpp>
#include <eigenformer/kernel/attention_backward.hpp>  // NOLINT
