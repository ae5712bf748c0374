#include <eigenformer/kernel/attention_inputs.hpp>
#include <eigenformer/kernel/attention_inputs.hpp>  // NOLINT
