#include <eigenformer/io/slots.hpp>
#include <eigenformer/io/slots.hpp>  // NOLINT
