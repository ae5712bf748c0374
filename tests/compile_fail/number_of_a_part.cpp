// A part's number that is changed would not be what the model's config says, and saves.
// error: no (match for .+operator=|viable overloaded .+=)
// errors: 1
#include "eigenformer/layer/attention/attention.hpp"
void widen(eigenformer::Attention<float>& attention) { attention.window = 3; }
