#include <eigenformer/kernel/angle_recurrence.hpp>
#include <eigenformer/kernel/angle_recurrence.hpp>  // NOLINT
