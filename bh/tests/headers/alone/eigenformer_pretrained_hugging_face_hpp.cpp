#include <eigenformer/pretrained/hugging_face.hpp>
#include <eigenformer/pretrained/hugging_face.hpp>  // NOLINT
