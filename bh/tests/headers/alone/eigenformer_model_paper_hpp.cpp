#include <eigenformer/model/paper.hpp>
#include <eigenformer/model/paper.hpp>  // NOLINT
