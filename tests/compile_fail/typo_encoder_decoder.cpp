// A field that is not there, by its name.
// error: (member named|field designator) .+source_vocab
#include "eigenformer/model/encoder_decoder.hpp"
const eigenformer::EncoderDecoder<>::Config config{.source_vocab = 1};
