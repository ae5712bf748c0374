#include <eigenformer/train/evaluate.hpp>
#include <eigenformer/train/evaluate.hpp>  // NOLINT
