// Replays the files that make.py wrote: what PyTorch computes, in double, from the same weights and inputs.
#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>

#include "eigenformer/block/deep_norm.hpp"
#include "eigenformer/block/gated_residual.hpp"
#include "eigenformer/block/pre_norm.hpp"
#include "eigenformer/block/sandwich.hpp"
#include "eigenformer/io/safetensors.hpp"
#include "eigenformer/layer/norm/dynamic_tanh.hpp"
#include "eigenformer/layer/norm/scale_norm.hpp"
#include "eigenformer/layer/position/relative.hpp"
#include "eigenformer/model/bert.hpp"
#include "eigenformer/model/decoders.hpp"
#include "eigenformer/model/encoder_decoder.hpp"
#include "eigenformer/model/heads.hpp"
#include "eigenformer/model/t5.hpp"
#include "eigenformer/train/trainer.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

const std::string cases[] = {"layer_norm",
                             "attention_self",
                             "attention_causal",
                             "attention_lengths",
                             "attention_mask",
                             "attention_cross",
                             "attention_empty_row",
                             "encoder_block_pre",
                             "encoder_block_pre_lengths",
                             "encoder_block_post",
                             "encoder_block_post_lengths",
                             "decoder_block_pre",
                             "decoder_block_post",
                             "transformer_pre",
                             "transformer_post",
                             "gpt2",
                             "llama",
                             "mistral_window",
                             "rotary_interleaved",
                             "qwen2",
                             "qwen3",
                             "gemma2",
                             "phi2",
                             "bloom",
                             "bert",
                             "bert_pooled",
                             "roberta_masked",
                             "t5",
                             "t5v11",
                             "bart",
                             "relative_both",
                             "relative_causal",
                             "scale_norm",
                             "dynamic_tanh",
                             "block_layer_scale",
                             "block_deep_norm",
                             "block_sandwich",
                             "block_re_zero"};

std::filesystem::path folder() { return std::filesystem::path(EIGENFORMER_TEST_DATA) / "golden"; }
std::filesystem::path path_of(const std::string& name) { return folder() / (name + ".safetensors"); }

/// How far from the file's values, relative to the tensor's largest; in double they are as exact as the file (2⁻²⁴).
template <class T>
constexpr double tolerance = std::is_same_v<T, float> ? 2e-5 : 1e-7;

void expect_close(const auto& actual, const auto& expected, double limit, const std::string& name) {
  EXPECT_LE(difference(actual, expected), limit * magnitude(expected)) << name;
}

/// Weights of the file, all of which the model must have.
template <class Model>
void read_weights(Safetensors& file, const std::string& prefix, Model& model) {
  std::set<std::string> names;
  walk(
      [&](const std::string& path, const Leaf&, auto& weight) {
        file.read(prefix + path, weight.view());
        names.insert(prefix + path);
      },
      model);
  for (const auto& [name, stored] : file.tensors())
    EXPECT_TRUE(!name.starts_with(prefix) || names.contains(name)) << name;
}

/// Compares the model with the file's tensors. Unless positions turn the keys, a key bias adds the same to all scores
/// of a query, which changes nothing: its gradient is zero and what is computed is the rounding error of sums as large
/// as the query bias's.
template <class Model>
void expect_gradient(Safetensors& file, const std::string& prefix, const Model& gradient, double limit) {
  std::map<std::string, double> scale;
  walk([&](const std::string& path, const Leaf&, const auto& slope) { scale[path] = magnitude(slope); }, gradient);
  walk(
      [&](const std::string& path, const Leaf&, const auto& slope) {
        using Slope = std::remove_cvref_t<decltype(slope)>;
        const auto expected = file.read<typename Slope::Value, Slope::rank>(prefix + path);
        if (path.ends_with("key.bias") && magnitude(expected) == 0) {
          EXPECT_LE(magnitude(slope), limit * scale.at(path.substr(0, path.size() - 8) + "query.bias")) << path;
        } else {
          expect_close(slope, expected, limit, prefix + path);
        }
      },
      gradient);
}

/// nn.Transformer: two stacks and nothing around them.
template <class Residual>
struct Stacks {
  Encoder<Residual> encoder;
  Decoder<Residual> decoder;

  Stacks(Index layers, const typename EncoderBlock<Residual>::Config& block,
         const typename DecoderBlock<Residual>::Config& decoder_block)
      : encoder({layers, block, true}), decoder({layers, decoder_block, true}) {}

  static void visit(auto&& f, auto&... m) {
    f("encoder", m.encoder...);
    f("decoder", m.decoder...);
  }
};

/// T5's attention, with its own table of biases.
template <class T, bool Bidirectional>
struct Biased {
  Attention<T, PlainHeads<T>, BiasedScores<T>> attention;
  Relative<T, Bidirectional> position;

  Biased(const AttentionConfig& config, Index buckets, Index furthest)
      : attention(config), position({.heads = *config.heads, .buckets = buckets, .furthest = furthest}) {}

  static void visit(auto&& f, auto&... m) {
    f("attention", m.attention...);
    f("position", m.position...);
  }

  ConstView<T, 3> operator()(Context& ctx, ConstView<T, 3> x, AttentionCall<T> call) const {
    position.attend(ctx, x.extent(0), x.extent(1), {}, call);
    return attention(ctx, x, call);
  }
};

template <class T>
struct MaskedRoberta {
  Roberta<T> bert;
  MaskedLanguageHead<T> head;

  explicit MaskedRoberta(const Roberta<>::Config& config)
      : bert(config), head(config.block.width, config.vocabulary, config.block.residual.norm.epsilon) {}

  static void visit(auto&& f, auto&... m) {
    f("bert", m.bert...);
    f("head", m.head...);
  }
};

/// One file, its inputs read as T.
template <class T>
class Case {
 public:
  explicit Case(const std::string& name) : file_(path_of(name)) {
    for (const char* const input : {"x", "memory", "source", "target"})
      if (file_.find(std::string("input/") + input)) inputs_[input] = file_.read<T, 3>(std::string("input/") + input);
    if (file_.find("input/ids")) ids_ = file_.read<Id, 2>("input/ids");
    if (file_.find("input/target_ids")) target_ids_ = file_.read<Id, 2>("input/target_ids");
    if (file_.find("input/types")) types_ = file_.read<Id, 2>("input/types");
    for (const char* const input : {"lengths", "memory_lengths", "source_lengths"})
      if (file_.find(std::string("input/") + input)) lengths_ = file_.read<Index, 1>(std::string("input/") + input);
    if (const StoredTensor* const mask = file_.find("input/mask")) {
      if (mask->shape.size() == 3) mask3_ = file_.read<bool, 3>("input/mask");
      else mask2_ = file_.read<bool, 2>("input/mask");
    }
  }

  void replay() {
    const std::string kind = file_.metadata().at("kind");
    if (kind == "layer_norm") {
      check(LayerNorm<T>(LayerNormConfig{number("width")}),
            [&](Context& ctx, const auto& m) { return m(ctx, input("x")); });
    } else if (kind == "attention") {
      check(Attention<T>(AttentionConfig{.width = number("width"), .heads = number("heads")}),
            [&](Context& ctx, const auto& m) {
              Mask mask = padded() ? to_self() : to_memory();
              mask.causal = number("causal") == 1;
              return m(ctx, input("x"), {.memory = input("memory"), .mask = mask});
            });
    } else if (kind == "encoder_block") {
      check_arrangement<EncoderBlock>([&](Context& ctx, const auto& m) { return m(ctx, input("x"), to_self()); },
                                      block<EncoderBlock<>::Config>());
    } else if (kind == "decoder_block") {
      check_arrangement<DecoderBlock>(
          [&](Context& ctx, const auto& m) {
            return m(ctx, input("x"), input("memory"), Mask{.causal = true}, to_memory());
          },
          block<DecoderBlock<>::Config>());
    } else if (kind == "transformer") {
      check_arrangement<Stacks>(
          [&](Context& ctx, const auto& m) {
            const auto memory = m.encoder(ctx, input("source"), to_self());
            return m.decoder(ctx, input("target"), memory, Mask{.causal = true}, to_memory());
          },
          number("layers"), block<EncoderBlock<>::Config>(), block<DecoderBlock<>::Config>());
    } else if (kind == "gpt2") {
      check_language_model<Gpt2<T>>();
    } else if (kind == "llama") {
      check_language_model<Llama<T>>();
    } else if (kind == "qwen3") {
      check_language_model<Qwen3<T>>();
    } else if (kind == "gemma2") {
      auto config = language<Gemma2<>::Config>();
      config.each_layer.assign(static_cast<std::size_t>(config.layers), config.block);
      for (std::size_t layer = 1; layer < config.each_layer.size(); layer += 2)
        config.each_layer[layer].attention.window = 0;
      check_language_model<Gemma2<T>>(config);
    } else if (kind == "phi2") {
      check_language_model<Phi2<T>>();
    } else if (kind == "bloom") {
      check_language_model<Bloom<T>>();
    } else if (kind == "bert") {
      check(Bert<T>(bert(false)), [&](Context& ctx, const auto& m) { return m(ctx, bert_call()); });
    } else if (kind == "bert_pooled") {
      check(Bert<T>(bert(true)), [&](Context& ctx, const auto& m) { return m.pool(ctx, m(ctx, bert_call())); });
    } else if (kind == "roberta_masked") {
      check(MaskedRoberta<T>(bert(false)),
            [&](Context& ctx, const auto& m) { return m.head(ctx, m.bert(ctx, bert_call()), m.bert.embedding); });
    } else if (kind == "t5") {
      check_encoder_decoder<T5<T>>();
    } else if (kind == "t5v11") {
      check_encoder_decoder<T5v11<T>>();
    } else if (kind == "bart") {
      check_encoder_decoder<Bart<T>>();
    } else if (kind == "relative_both") {
      check_relative<true>();
    } else if (kind == "relative_causal") {
      check_relative<false>();
    } else if (kind == "scale_norm") {
      check_part(ScaleNorm<T>({.width = number("width")}));
    } else if (kind == "dynamic_tanh") {
      check_part(DynamicTanh<T>({.width = number("width")}));
    } else if (kind == "block_layer_scale") {
      check_block<EncoderBlock<LayerScale<T>, Attention<T>, Mlp<T, SquaredRelu>>>();
    } else if (kind == "block_deep_norm") {
      check_block<EncoderBlock<DeepNorm<T>, Attention<T>, GeGlu<T>>>();
    } else if (kind == "block_sandwich") {
      check_block<EncoderBlock<Sandwich<T, ScaleNorm<T>>>>();
    } else if (kind == "block_re_zero") {
      check_block<EncoderBlock<ReZero<T>, Attention<T>, Mlp<T, GeluSigmoid>>>();
    } else {
      FAIL() << "no such kind: " << kind;
    }
  }

 private:
  Index number(const std::string& key) const { return std::stoi(file_.metadata().at(key)); }
  /// What a file need not say.
  std::optional<double> given(const std::string& key) const {
    const auto found = file_.metadata().find(key);
    return found == file_.metadata().end() ? std::optional<double>() : std::stod(found->second);
  }
  Index number(const std::string& key, Index otherwise) const { return given(key) ? number(key) : otherwise; }
  bool flag(const std::string& key, bool otherwise = false) const { return number(key, otherwise) == 1; }

  void set_attention(auto& config) const {
    config.kv_heads = number("kv_heads", 0);
    config.head_width = number("head_width", 0);
    config.bias = flag("attention_bias", true);
    config.output_bias = flag("output_bias", true);
    config.scale = given("scale");
    config.window = number("window", 0);
    if constexpr (requires { config.scores.cap; }) config.scores.cap = given("cap").value_or(0);
    if constexpr (requires { config.per_head.norm; }) set_norm(config.per_head.norm);
  }
  void set_norm(auto& config) const { config.epsilon = given("norm_epsilon").value_or(config.epsilon); }
  /// The config of any block.
  template <class Config>
  Config block() const {
    Config config{.width = number("width"), .hidden = number("hidden", 1), .heads = number("heads"), .dropout = 0};
    if constexpr (requires { config.cross_attention; })
      set_attention(config.self_attention), set_attention(config.cross_attention);
    else set_attention(config.attention);
    config.feed_forward.bias = flag("feed_forward_bias", config.feed_forward.bias);
    if constexpr (requires { config.norm; }) set_norm(config.norm);
    else set_norm(config.residual.norm);
    if constexpr (requires { config.residual.alpha; }) config.residual.alpha = given("alpha").value_or(1);
    return config;
  }
  template <class Config>
  Config language() const {
    Config config{.vocabulary = number("vocabulary"),
                  .max_positions = number("max_positions", 0),
                  .layers = number("layers"),
                  .block = block<decltype(Config::block)>(),
                  .tied = flag("tied", true),
                  .head_bias = flag("head_bias"),
                  .scaled_embedding = flag("scaled_embedding"),
                  .embedding_norm = flag("embedding_norm"),
                  .logit_cap = given("logit_cap").value_or(0)};
    if constexpr (requires { config.position.rotated; })
      config.position = {.rotated = number("rotated", 0),
                         .layout = flag("interleaved") ? RotaryLayout::interleaved : RotaryLayout::halves};
    return config;
  }
  Bert<>::Config bert(bool pooler) const {
    return {.vocabulary = number("vocabulary"),
            .max_positions = number("max_positions"),
            .layers = number("layers"),
            .block = block<Bert<>::Block::Config>(),
            .pooler = pooler};
  }
  BertCall bert_call() const { return {.ids = ids_, .types = types_, .lengths = lengths_}; }
  bool padded() const { return file_.find("input/lengths"); }
  ConstView<T, 3> input(const std::string& name) const {
    const auto found = inputs_.find(name);
    return found == inputs_.end() ? ConstView<T, 3>() : found->second.view();
  }
  Mask to_self() const { return {.key_lengths = lengths_, .query_lengths = lengths_}; }
  Mask to_memory() const {
    Mask mask{.key_lengths = lengths_};
    if (mask2_.data()) mask.allowed = mask2_.view();
    if (mask3_.data()) mask.allowed = mask3_.view();
    return mask;
  }

  template <template <class...> class Part>
  void check_arrangement(const auto& forward, const auto&... config) {
    if (file_.metadata().at("norm") == "pre") check(Part<PreNorm<T>>(config...), forward);
    else check(Part<PostNorm<T>>(config...), forward);
  }

  template <class Model>
  void check_language_model() {
    check_language_model<Model>(language<typename Model::Config>());
  }
  template <class Model>
  void check_language_model(const typename Model::Config& config) {
    check(Model(config), [&](Context& ctx, const auto& m) { return m(ctx, {.ids = ids_, .lengths = lengths_}); });
  }
  template <class Model>
  void check_encoder_decoder() {
    using Config = typename Model::Config;
    const Config config{.source_vocabulary = number("vocabulary"),
                        .target_vocabulary = number("vocabulary"),
                        .encoder_layers = number("layers"),
                        .decoder_layers = number("layers"),
                        .block = block<decltype(Config::block)>(),
                        .sharing = flag("tied", true) ? Sharing::all : Sharing::source_and_target,
                        .max_positions = number("max_positions", 0),
                        .scaled_embedding = false,
                        .embedding_norm = flag("embedding_norm"),
                        .logit_scale = given("logit_scale").value_or(1)};
    check(Model(config), [&](Context& ctx, const auto& m) {
      return m(ctx, {.source = ids_, .source_lengths = lengths_, .target = target_ids_});
    });
  }
  template <bool Bidirectional>
  void check_relative() {
    Mask mask = to_self();
    mask.causal = !Bidirectional;
    check(Biased<T, Bidirectional>(block<EncoderBlock<>::Config>().completed().attention, number("buckets"),
                                   number("furthest")),
          [&](Context& ctx, const auto& m) { return m(ctx, input("x"), {.mask = mask}); });
  }
  template <class Block>
  void check_block() {
    check_part(Block(block<typename Block::Config>()));
  }
  /// A layer of one sequence; a block has lengths too.
  template <class Part>
  void check_part(Part part) {
    check(std::move(part), [&](Context& ctx, const auto& m) {
      if constexpr (std::is_invocable_v<const Part&, Context&, ConstView<T, 3>, Mask>)
        return m(ctx, input("x"), to_self());
      else return m(ctx, input("x"));
    });
  }

  template <class Model>
  void check(Model model, const auto& forward) {
    read_weights(file_, "weight/", model);
    Model gradient = zeros_like(model);
    std::map<std::string, Tensor<T, 3>> input_gradients;
    Tape tape;
    Context ctx;
    ctx.tape = &tape;
    tape.watch(model, gradient);
    for (const auto& [name, value] : inputs_)
      tape.watch(value.view(), (input_gradients[name] = Tensor<T, 3>(value.shape())).view());

    const ConstView<T, 3> y = forward(ctx, std::as_const(model));
    Tensor<T, 3> output(y);
    if (padded())  // the file has zeros past the lengths
      for (Index b = 0; b < output.extent(0); ++b)
        for (Index n = lengths_(b); n < output.extent(1); ++n) output.view()[b].slice(0, n, 1).matrix().setZero();
    expect_close(output, file_.template read<T, 3>("output"), tolerance<T>, "output");

    backward(ctx, y, file_.template read<T, 3>("seed"));
    for (const auto& [name, slope] : input_gradients)
      expect_close(slope, file_.template read<T, 3>("gradient/input/" + name), tolerance<T>, "gradient/input/" + name);
    expect_gradient(file_, "gradient/weight/", gradient, tolerance<T>);
  }

  Safetensors file_;
  std::map<std::string, Tensor<T, 3>> inputs_;
  Tensor<Id, 2> ids_, target_ids_, types_;
  Tensor<Index, 1> lengths_;  // of the only padded input
  Tensor<bool, 2> mask2_;
  Tensor<bool, 3> mask3_;
};

class Golden : public testing::TestWithParam<std::string> {};
TEST_P(Golden, Float) { Case<float>(GetParam()).replay(); }
TEST_P(Golden, Double) { Case<double>(GetParam()).replay(); }
INSTANTIATE_TEST_SUITE_P(, Golden, testing::ValuesIn(cases), [](const auto& test) { return test.param; });

TEST(GoldenFiles, AreAllReplayed) {
  std::set<std::string> expected(std::begin(cases), std::end(cases)), found;
  expected.insert({"trajectory", "rotary_tables"});
  for (const auto& entry : std::filesystem::directory_iterator(folder()))
    if (entry.path().extension() == ".safetensors") found.insert(entry.path().stem().string());
  EXPECT_EQ(found, expected);
}

/// The ways to stretch rotary positions beyond the length of training, here 16 tokens.
template <class T>
void replay_rotary_tables() {
  const std::map<std::string, decltype(RotaryConfig::scaling)> scalings{
      {"linear", LinearScaling{4}},
      {"ntk", NtkScaling{4}},
      {"dynamic_ntk", DynamicNtkScaling{.factor = 4, .original = 16}},
      {"yarn", YarnScaling{.factor = 4, .original = 16, .fast = 2, .slow = 0.01}},
      {"yarn_given",
       YarnScaling{.factor = 4, .original = 16, .fast = 2, .slow = 0.01, .attention_factor = 1.25, .truncated = false}},
      {"long", LongScaling{std::vector<double>(8, 1), {0.75, 1.5, 2.25, 3, 3.75, 4.5, 5.25, 6}, 16, 64}},
      {"llama3", Llama3Scaling{.factor = 4, .low = 0.05, .high = 0.5, .original = 16}}};
  Safetensors file(path_of("rotary_tables"));
  EXPECT_EQ(file.tensors().size(), 2 * scalings.size());
  for (const auto& scaling : scalings) {
    Context ctx;
    AttentionCall<T> call;
    Rotary<T>({.head_width = 16, .scaling = scaling.second}).attend(ctx, 1, 21, {}, call);
    constexpr double limit = std::is_same_v<T, float> ? 1e-7 : 1e-14;
    expect_close(call.rotary.cosine[0], file.read<double, 2>(scaling.first + "/cosine"), limit, scaling.first);
    expect_close(call.rotary.sine[0], file.read<double, 2>(scaling.first + "/sine"), limit, scaling.first);
  }
}

TEST(GoldenRotaryTables, Float) { replay_rotary_tables<float>(); }
TEST(GoldenRotaryTables, Double) { replay_rotary_tables<double>(); }

/// Ten steps of Adam on the whole model.
template <class T>
void replay_trajectory(double loss_limit, double final_limit) {
  Safetensors file(path_of("trajectory"));
  const auto real = [&](const std::string& key) { return std::stod(file.metadata().at(key)); };
  const auto number = [&](const std::string& key) { return static_cast<Index>(real(key)); };
  const EncoderDecoder<>::Config config{
      .source_vocabulary = number("vocabulary"),
      .target_vocabulary = number("vocabulary"),
      .encoder_layers = number("layers"),
      .decoder_layers = number("layers"),
      .block = {.width = number("width"), .hidden = number("hidden"), .heads = number("heads"), .dropout = 0}};
  EncoderDecoder<PostNorm<T>> model(config);
  read_weights(file, "weight/", model);
  Trainer trainer(model, {.optimiser = {real("beta1"), real("beta2"), real("epsilon")},
                          .learning_rate = WarmUp{number("width"), number("warm_up")}});

  const auto source = file.read<Id, 3>("input/source"), target_in = file.read<Id, 3>("input/target_in");
  const auto target_out = file.read<Id, 3>("input/target_out");
  const auto source_lengths = file.read<Index, 2>("input/source_lengths"),
             target_lengths = file.read<Index, 2>("input/target_lengths");
  const auto losses = file.read<double, 1>("output"), norms = file.read<double, 1>("norms");
  ASSERT_EQ(losses.size(), 10);
  for (Index s = 0; s < losses.size(); ++s) {
    trainer.accumulate([&](Context& ctx, const auto& m) {
      const auto logits = m(ctx, {.source = source.view()[s],
                                  .source_lengths = source_lengths.view()[s],
                                  .target = target_in.view()[s],
                                  .target_lengths = target_lengths.view()[s]});
      return op::cross_entropy(ctx, logits, target_out.view()[s],
                               {.smoothing = real("smoothing"), .ignore = static_cast<Id>(number("pad"))});
    });
    const StepReport report = trainer.step();
    EXPECT_NEAR(report.loss, losses(s), loss_limit) << "step " << s + 1;
    EXPECT_NEAR(report.gradient_norm, norms(s), loss_limit * norms(s)) << "step " << s + 1;
  }
  walk(
      [&](const std::string& path, const Leaf&, const auto& weight) {
        using Weight = std::remove_cvref_t<decltype(weight)>;
        // Adam makes full steps of the rounding errors that are a key bias's gradient; in double they are below its
        // epsilon.
        if (std::is_same_v<T, float> && path.ends_with("key.bias")) return;
        expect_close(weight, file.read<typename Weight::Value, Weight::rank>("final/" + path), final_limit, path);
      },
      trainer.model);
}

TEST(GoldenTrajectory, Float) { replay_trajectory<float>(1e-4, 2e-4); }
TEST(GoldenTrajectory, Double) { replay_trajectory<double>(1e-6, 1e-6); }

}  // namespace
}  // namespace eigenformer::test
