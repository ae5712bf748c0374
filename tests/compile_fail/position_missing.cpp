// error: static.assert.*the position and the attention do not go together: Rotary needs RotaryHeads
#include "eigenformer/block/pre_norm.hpp"
#include "eigenformer/model/language_model.hpp"
using namespace eigenformer;
using Mine = LanguageModel<EncoderBlock<PreNorm<float>, Attention<float, RotaryHeads<float>>, Mlp<float>>>;
const Mine model(Mine::Config{.vocabulary = 5});
