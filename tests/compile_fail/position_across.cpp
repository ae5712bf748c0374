// error: static.assert.*attention to sources knows no positions
#include "eigenformer/layer/position/rotary.hpp"
#include "eigenformer/model/encoder_decoder.hpp"
using namespace eigenformer;
using Heads = Attention<float, RotaryHeads<float>>;
using Mine = BasicEncoderDecoder<EncoderBlock<PostNorm<float>, Heads>, DecoderBlock<PostNorm<float>, Heads, Heads>,
                                 Rotary<float>>;
const Mine model(Mine::Config{.source_vocabulary = 5, .target_vocabulary = 5});
