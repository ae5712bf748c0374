#include <eigenformer/train/schedule.hpp>
#include <eigenformer/train/schedule.hpp>  // NOLINT
