// The paper's two models (table 3), counted by hand.
#include "eigenformer/model/paper.hpp"

#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

struct Sizes {
  Index width, hidden, vocabulary;

  Index attention() const { return 4 * (width * width + width); }
  Index feed_forward() const { return 2 * width * hidden + hidden + width; }
  Index norm() const { return 2 * width; }
  Index encoder_block() const { return attention() + feed_forward() + 2 * norm(); }
  Index decoder_block() const { return 2 * attention() + feed_forward() + 3 * norm(); }
  Index whole() const { return vocabulary * width + 6 * encoder_block() + 6 * decoder_block(); }
};

TEST(PaperBase, HasTheSizesOfTable3) {
  const EncoderDecoder<>::Config config = paper_base();
  EXPECT_EQ(config.encoder_layers, 6);
  EXPECT_EQ(config.decoder_layers, 6);
  EXPECT_EQ(config.block.dropout, 0.1);

  const Sizes base{512, 2048, 37000};
  const PaperTransformer model(config);
  EXPECT_EQ(model.encoder.blocks[0].attention.head_width, 64);
  EXPECT_EQ(parameter_count(model.encoder.blocks[0].attention), 1'048'576 + 4 * 512);  // weights + biases
  EXPECT_EQ(parameter_count(model.encoder.blocks[0].feed_forward), 2'097'152 + 2048 + 512);
  EXPECT_EQ(parameter_count(model.encoder.blocks[0]), base.encoder_block());
  EXPECT_EQ(parameter_count(model.decoder.blocks[0]), base.decoder_block());
  EXPECT_EQ(parameter_count(model), base.whole());
  EXPECT_EQ(base.whole(), 63'082'496);  // "65 × 10⁶"
}

/// One layer of each kind instead of six, to spare memory.
TEST(PaperBig, HasTheSizesOfTable3) {
  EncoderDecoder<>::Config config = paper_big();
  EXPECT_EQ(config.encoder_layers, 6);
  EXPECT_EQ(config.decoder_layers, 6);
  EXPECT_EQ(config.block.dropout, 0.3);
  config.encoder_layers = config.decoder_layers = 1;

  const Sizes big{1024, 4096, 37000};
  const PaperTransformer model(config);
  EXPECT_EQ(model.encoder.blocks[0].attention.head_width, 64);
  EXPECT_EQ(parameter_count(model.encoder.blocks[0]), big.encoder_block());
  EXPECT_EQ(parameter_count(model.decoder.blocks[0]), big.decoder_block());
  EXPECT_EQ(parameter_count(model), big.whole() - 5 * big.encoder_block() - 5 * big.decoder_block());
  EXPECT_EQ(big.whole(), 214'245'376);  // "213 × 10⁶"
}

TEST(PaperTransformer, CountsATableOnceWhoeverSharesIt) {
  EncoderDecoder<>::Config config{.source_vocabulary = 11,
                                  .target_vocabulary = 11,
                                  .encoder_layers = 0,
                                  .decoder_layers = 0,
                                  .block = {.width = 8}};
  EXPECT_EQ(parameter_count(PaperTransformer(config)), 88);
  config.target_vocabulary = 7;
  config.sharing = Sharing::target_and_output;
  EXPECT_EQ(parameter_count(PaperTransformer(config)), 88 + 56);
  config.sharing = Sharing::none;
  EXPECT_EQ(parameter_count(PaperTransformer(config)), 88 + 56 + 56);
  config.sharing = Sharing::all;
  EXPECT_THROW(PaperTransformer{config}, Error);
}

}  // namespace
}  // namespace eigenformer::test
