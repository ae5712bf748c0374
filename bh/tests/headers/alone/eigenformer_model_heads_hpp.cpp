#include <eigenformer/model/heads.hpp>
#include <eigenformer/model/heads.hpp>  // NOLINT
