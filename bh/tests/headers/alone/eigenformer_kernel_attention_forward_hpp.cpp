#include <eigenformer/kernel/attention_forward.hpp>
#include <eigenformer/kernel/attention_forward.hpp>  // NOLINT
