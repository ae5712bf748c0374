// The paper's two models: how many parameters they have and where, the shape of all that a forward pass computes, and
// how fast it is.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>

#include "eigenformer/core/initialize.hpp"
#include "eigenformer/model/paper.hpp"
#include "eigenformer/op/activation.hpp"
#include "eigenformer/op/softmax.hpp"
#include "support/program.hpp"

namespace {

using namespace eigenformer;

constexpr Index paper_vocabulary = 37'000;

struct Options {
  Index batch = 32, length = 10, vocabulary = 32'000;
  int threads = 0;
};

void print_count(const std::string& part, Index count) { std::printf("  %-44s %13td\n", part.c_str(), count); }

/// Parameters of the whole and of its parts; weights are the matrices, without biases and norms.
void print_counts(const PaperTransformer& model) {
  const auto weights = [](const auto& part) {
    Index count = 0;
    walk([&](const std::string&, const Leaf& leaf,
             const auto& tensor) { count += leaf.decay == Decay::yes ? tensor.size() : 0; },
         part);
    return count;
  };
  const auto print = [&](const char* name, const auto& part) {
    std::printf("  %-44s %13td = %11td weights + %7td biases and norms\n", name, parameter_count(part), weights(part),
                parameter_count(part) - weights(part));
  };
  const auto& encoder = model.encoder.blocks.front();
  const auto& decoder = model.decoder.blocks.front();
  print("embedding, also of the target and the output", model.embedding);
  print("encoder", model.encoder);
  print("  a layer", encoder);
  print("    attention", encoder.attention);
  print("    feed-forward", encoder.feed_forward);
  print("    a norm", encoder.attention_residual);
  print("decoder", model.decoder);
  print("  a layer", decoder);
  print("    attention to the target", decoder.self_attention);
  print("    attention to the source", decoder.cross_attention);
  print("    feed-forward", decoder.feed_forward);
  print("    a norm", decoder.feed_forward_residual);
  print("model", model);
}

template <class T, int Rank>
void print_shape(const char* what, View<T, Rank> view) {
  std::printf("  %-44s %s\n", what, to_string(view.shape()).c_str());
}

/// (B, N, H, E) seen as (B, H, N, E)
ConstView<float, 4> by_head(ConstView<float, 4> x) {
  return {x.data(), Shape{x.extent(0), x.extent(2), x.extent(1), x.extent(3)},
          Shape{x.stride(0), x.stride(2), x.stride(1), Index{1}}};
}

/// One encoder layer step by step, and what comes after it.
void print_shapes(Context& ctx, const PaperTransformer& model, ConstView<Id, 2> ids) {
  const auto all = ctx.scratch();
  const auto& layer = model.encoder.blocks.front();
  const auto& attention = layer.attention;
  print_shape("ids", ids);
  const auto embedded = model.embedding(ctx, ids);
  print_shape("embedded", embedded);
  const auto x = model.position.embed(ctx, embedded, {});
  print_shape("with positions", x);
  const auto projected = attention.query(ctx, x);
  print_shape("queries, keys, values", projected);
  const auto q = projected.split_last(attention.head_width), k = attention.key(ctx, x).split_last(attention.head_width);
  const auto v = attention.value(ctx, x).split_last(attention.head_width);
  print_shape("  by head", by_head(q));

  // The library never holds all scores at once, so they are computed here, and used to check what it computes.
  Tensor<float, 4> scores(Shape{q.extent(0), q.extent(2), q.extent(1), k.extent(1)});
  Tensor<float, 4> mixed(q.shape());
  const auto each_head = [&](auto&& f) {
    for (Index b = 0; b < q.extent(0); ++b)
      for (Index h = 0; h < q.extent(2); ++h) f(b, h);
  };
  each_head([&](Index b, Index h) {
    scores.view()[b][h].matrix() =
        by_head(q)[b][h].matrix() * by_head(k)[b][h].matrix().transpose() * static_cast<float>(attention.scale);
  });
  print_shape("  scores", scores.view());
  const auto weights = op::softmax(ctx, ConstView<float, 4>(scores.view()));
  print_shape("  weights", weights);
  each_head([&](Index b, Index h) {
    const View<float, 4> all_mixed = mixed;
    const View<float, 2> out(&all_mixed(b, 0, h, 0), Shape{q.extent(1), q.extent(3)},
                             Shape{all_mixed.stride(1), Index{1}});
    out.matrix() = weights[b][h].matrix() * by_head(v)[b][h].matrix();
  });
  print_shape("  values mixed, by head", by_head(mixed));
  const auto fused = op::attention(ctx, q, k, v, {.scale = attention.scale});
  const float error = (fused.flat().matrix() - mixed.view().flat().matrix()).cwiseAbs().maxCoeff();
  print_shape("attention", attention(ctx, x));
  const auto up = layer.feed_forward.up(ctx, x);
  print_shape("feed-forward, hidden", up);
  print_shape("feed-forward", layer.feed_forward.down(ctx, op::activate<Relu>(ctx, up)));
  print_shape("encoder layer", layer(ctx, x));
  const auto memory = model.encode(ctx, ids);
  print_shape("encoder", memory);
  const auto hidden = model.decode(ctx, ids, memory);
  print_shape("decoder", hidden);
  print_shape("logits", model.logits(ctx, hidden));
  std::printf("  (mixed values step by step and in one pass differ by %.0e at most)\n", static_cast<double>(error));
}

/// Floating-point operations of the matrix products of a forward pass, a multiply-add being two: every weight meets
/// every token (source and target are equally long here), and in each attention every query meets every key and value.
double flops(const PaperTransformer& model, Index batch, Index length) {
  double multiply_adds = 0;
  walk(
      [&](const std::string&, const Leaf& leaf, const auto& tensor) {
        if (leaf.decay == Decay::yes) multiply_adds += static_cast<double>(tensor.size() * batch * length);
      },
      model);
  const auto attentions = static_cast<double>(model.encoder.blocks.size() + 2 * model.decoder.blocks.size());
  const auto width = static_cast<double>(model.embedding.weight.extent(1));
  multiply_adds += attentions * 2 * static_cast<double>(batch * length * length) * width;
  return 2 * multiply_adds;
}

void time_forward(Context& ctx, const PaperTransformer& model, ConstView<Id, 2> ids) {
  double best = std::numeric_limits<double>::infinity();
  for (int run = 0; run < 5; ++run) {  // the first one finds its memory
    const auto start = std::chrono::steady_clock::now();
    model(ctx, {.source = ids, .target = ids});
    best = (std::min)(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    ctx.reset();
  }
  const double operations = flops(model, ids.extent(0), ids.extent(1)) * 1e-9;
  std::printf("  %.1f ms for %.1f GFLOP on %d threads: %.1f GFLOP/s (best of 5)\n", best * 1e3, operations,
              ctx.threads.count(), operations / best);
}

void show(const Options& options, const char* name, PaperTransformer::Config (*config)(Index), double published) {
  std::printf("\n%s, vocabulary %td\n", name, options.vocabulary);
  Index layers = 0, width = 0;
  {
    PaperTransformer model(config(options.vocabulary));
    initialize(model, 1);
    print_counts(model);
    std::printf("\n  batch %td, length %td\n", options.batch, options.length);
    Tensor<Id, 2> ids(Shape{options.batch, options.length});
    RandomSequence random(1);
    for (Index i = 0; i < ids.size(); ++i) ids.data()[i] = static_cast<Id>(random.below(options.vocabulary));
    Context ctx{Threads(options.threads)};
    print_shapes(ctx, model, ids);
    std::printf("\n  forward pass\n");
    time_forward(ctx, model, ids);
    layers = parameter_count(model.encoder) + parameter_count(model.decoder);
    width = model.embedding.weight.extent(1);
  }
  std::printf("\n%s, vocabulary %td as in the paper\n", name, paper_vocabulary);
  const PaperTransformer model(config(paper_vocabulary));
  print_count("all layers", layers);
  print_count("embedding " + to_string(model.embedding.weight.shape()), parameter_count(model.embedding));
  print_count("model", parameter_count(model));
  const double exact = static_cast<double>(parameter_count(model)), size = static_cast<double>(width);
  std::printf(
      "  The paper rounds to %.0f million, %+.1f %% from this. Its sizes fix the layers, so the difference is in the\n"
      "  embedding: %.0f ± 0.5 million are a vocabulary of %.0f ± %.0f.\n",
      published * 1e-6, 100 * (published - exact) / exact, published * 1e-6,
      (published - static_cast<double>(layers)) / size, 0.5e6 / size);
}

int run(int argc, char** argv) {
  Options options;
  std::string model = "both";
  CLI::App app(
      "The two models of \"Attention is all you need\": parameters, the shape of everything on the way, speed.",
      "configs");
  app.set_version_flag("--version", example::version());
  app.add_option("model", model, "base, big or both")
      ->check(CLI::IsMember({"base", "big", "both"}))
      ->capture_default_str();
  app.add_option("--batch", options.batch, "Sequences")
      ->check(CLI::Range(Index{1}, Index{4096}))
      ->capture_default_str();
  app.add_option("--length", options.length, "Tokens of each")
      ->check(CLI::Range(Index{1}, Index{4096}))
      ->capture_default_str();
  app.add_option("--vocabulary", options.vocabulary, "Tokens there are")
      ->check(CLI::Range(Index{1}, Index{1'000'000}))
      ->capture_default_str();
  app.add_option("--threads", options.threads, "Threads; 0: all")->check(CLI::Range(0, 1024))->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  if (model != "big") show(options, "base", paper_base, 65e6);
  if (model != "base") show(options, "big", paper_big, 213e6);
  if (model == "both")
    std::printf(
        "\nThe paper's \"about 37000\" lies between what its two counts imply; no single vocabulary gives both.\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return example::guarded_main([&] { return run(argc, argv); });
}
