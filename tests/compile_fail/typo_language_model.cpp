// A field that is not there, by its name.
// error: (member named|field designator) .+vocab
#include "eigenformer/model/language_model.hpp"
const eigenformer::LanguageModel<eigenformer::EncoderBlock<>>::Config config{.vocab = 1};
