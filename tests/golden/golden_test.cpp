// Replays the files that make.py wrote: what PyTorch computes, in double, from the same weights and inputs.
#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <type_traits>
#include <utility>

#include "eigenformer/block/pre_norm.hpp"
#include "eigenformer/io/safetensors.hpp"
#include "eigenformer/model/encoder_decoder.hpp"
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
                             "transformer_post"};

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

/// Compares the model with the file's tensors. A key bias adds the same to all scores of a query, which changes
/// nothing: its gradient is zero and what is computed is the rounding error of sums as large as the query bias's.
template <class Model>
void expect_gradient(Safetensors& file, const std::string& prefix, const Model& gradient, double limit) {
  std::map<std::string, double> scale;
  walk([&](const std::string& path, const Leaf&, const auto& slope) { scale[path] = magnitude(slope); }, gradient);
  walk(
      [&](const std::string& path, const Leaf&, const auto& slope) {
        using Slope = std::remove_cvref_t<decltype(slope)>;
        const auto expected = file.read<typename Slope::Value, Slope::rank>(prefix + path);
        if (path.ends_with("key.bias")) {
          EXPECT_EQ(magnitude(expected), 0) << path;
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

  explicit Stacks(const StackConfig& config) : encoder(config), decoder(config) {}

  static void visit(auto&& f, auto&... m) {
    f("encoder", m.encoder...);
    f("decoder", m.decoder...);
  }
};

/// One file, its inputs read as T.
template <class T>
class Case {
 public:
  explicit Case(const std::string& name) : file_(path_of(name)) {
    for (const char* const input : {"x", "memory", "source", "target"})
      if (file_.find(std::string("input/") + input)) inputs_[input] = file_.read<T, 3>(std::string("input/") + input);
    for (const char* const input : {"lengths", "memory_lengths", "source_lengths"})
      if (file_.find(std::string("input/") + input)) lengths_ = file_.read<Index, 1>(std::string("input/") + input);
    if (const StoredTensor* const mask = file_.find("input/mask")) {
      if (mask->shape.size() == 3)
        mask3_ = file_.read<bool, 3>("input/mask");
      else
        mask2_ = file_.read<bool, 2>("input/mask");
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
      check_arrangement<EncoderBlock>(block(),
                                      [&](Context& ctx, const auto& m) { return m(ctx, input("x"), to_self()); });
    } else if (kind == "decoder_block") {
      check_arrangement<DecoderBlock>(block(), [&](Context& ctx, const auto& m) {
        return m(ctx, input("x"), input("memory"), Mask{.causal = true}, to_memory());
      });
    } else if (kind == "transformer") {
      check_arrangement<Stacks>(StackConfig{number("layers"), block(), true}, [&](Context& ctx, const auto& m) {
        const auto memory = m.encoder(ctx, input("source"), to_self());
        return m.decoder(ctx, input("target"), memory, Mask{.causal = true}, to_memory());
      });
    } else {
      FAIL() << "no such kind: " << kind;
    }
  }

 private:
  Index number(const std::string& key) const { return std::stoi(file_.metadata().at(key)); }
  BlockConfig block() const {
    return {.width = number("width"), .hidden = number("hidden"), .heads = number("heads"), .dropout = 0};
  }
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
  void check_arrangement(const auto& config, const auto& forward) {
    if (file_.metadata().at("norm") == "pre")
      check(Part<PreNorm<T>>(config), forward);
    else
      check(Part<PostNorm<T>>(config), forward);
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
        output.view()[b].slice(0, lengths_(b), output.extent(1) - lengths_(b)).matrix().setZero();
    expect_close(output, file_.template read<T, 3>("output"), tolerance<T>, "output");

    backward(ctx, y, file_.template read<T, 3>("seed"));
    for (const auto& [name, slope] : input_gradients)
      expect_close(slope, file_.template read<T, 3>("gradient/input/" + name), tolerance<T>, "gradient/input/" + name);
    expect_gradient(file_, "gradient/weight/", gradient, tolerance<T>);
  }

  Safetensors file_;
  std::map<std::string, Tensor<T, 3>> inputs_;
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
  expected.insert("trajectory");
  for (const auto& entry : std::filesystem::directory_iterator(folder()))
    if (entry.path().extension() == ".safetensors") found.insert(entry.path().stem().string());
  EXPECT_EQ(found, expected);
}

/// Ten steps of Adam on the whole model.
template <class T>
void replay_trajectory(double loss_limit, double final_limit) {
  Safetensors file(path_of("trajectory"));
  const auto real = [&](const std::string& key) { return std::stod(file.metadata().at(key)); };
  const auto number = [&](const std::string& key) { return static_cast<Index>(real(key)); };
  const EncoderDecoderConfig config{
      .source_vocabulary = number("vocabulary"),
      .target_vocabulary = number("vocabulary"),
      .encoder_layers = number("layers"),
      .decoder_layers = number("layers"),
      .block = {.width = number("width"), .hidden = number("hidden"), .heads = number("heads"), .dropout = 0}};
  EncoderDecoder<PostNorm<T>> model(config);
  read_weights(file, "weight/", model);
  Trainer trainer(model, {.adam = {real("beta1"), real("beta2"), real("epsilon")},
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
