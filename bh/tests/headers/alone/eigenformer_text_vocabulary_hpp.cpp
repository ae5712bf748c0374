#include <eigenformer/text/vocabulary.hpp>
#include <eigenformer/text/vocabulary.hpp>  // NOLINT
