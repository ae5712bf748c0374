#include <eigenformer/kernel/epilogue.hpp>
#include <eigenformer/kernel/epilogue.hpp>  // NOLINT
