#include <eigenformer/text/added_pieces.hpp>
#include <eigenformer/text/added_pieces.hpp>  // NOLINT
