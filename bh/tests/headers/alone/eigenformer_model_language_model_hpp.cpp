#include <eigenformer/model/language_model.hpp>
#include <eigenformer/model/language_model.hpp>  // NOLINT
