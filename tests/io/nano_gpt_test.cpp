// A real trained minGPT (GPT-2's architecture) that sorts six digits: every intermediate of the upstream program's
// dump, and all 729 inputs. Skipped where the files are not there.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "eigenformer/io/safetensors.hpp"
#include "eigenformer/model/decoders.hpp"
#include "eigenformer/op/softmax.hpp"
#include "support/shared_data.hpp"

namespace eigenformer::test {
namespace {

const std::filesystem::path nano_folder = shared_data() / "nano-gpt-sort";

/// Some rows of a stored matrix or vector.
void read_rows(Safetensors& file, const std::string& name, Index part, Index parts, Weight<float>& to) {
  const auto all = file.read<float, 2>(name);
  const Index rows = all.extent(0) / parts;
  std::copy_n(all.view().row(part * rows), rows * all.extent(1), to.data());
}
void read_rows(Safetensors& file, const std::string& name, Index part, Index parts, Tensor<float, 1>& to) {
  const auto all = file.read<float, 1>(name);
  std::copy_n(all.data() + part * all.size() / parts, all.size() / parts, to.data());
}

Gpt2<float> nano_gpt() {
  Gpt2<float> model({.vocabulary = 3,
                     .max_positions = 11,
                     .layers = 3,
                     .block = {.width = 48, .hidden = 192, .heads = 3, .dropout = 0},
                     .tied = false});
  Safetensors file(nano_folder / "model.safetensors");
  const auto linear = [&](Linear<float>& to, const std::string& name, Index part = 0, Index parts = 1) {
    read_rows(file, name + ".weight", part, parts, to.weight);
    read_rows(file, name + ".bias", part, parts, to.bias);
  };
  const auto norm = [&](LayerNorm<float>& to, const std::string& name) {
    file.read<float, 1>(name + ".weight", to.weight.view());
    file.read<float, 1>(name + ".bias", to.bias.view());
  };
  file.read<float, 2>("transformer.wte.weight", model.embedding.weight.view());
  file.read<float, 2>("transformer.wpe.weight", model.position.weight.view());
  for (std::size_t i = 0; i < 3; ++i) {
    auto& block = model.decoder.blocks[i];
    const std::string layer = "transformer.h." + std::to_string(i);
    norm(block.attention_residual.norm, layer + ".ln_1");
    linear(block.attention.query, layer + ".attn.c_attn", 0, 3);
    linear(block.attention.key, layer + ".attn.c_attn", 1, 3);
    linear(block.attention.value, layer + ".attn.c_attn", 2, 3);
    linear(block.attention.output, layer + ".attn.c_proj");
    norm(block.feed_forward_residual.norm, layer + ".ln_2");
    linear(block.feed_forward.up, layer + ".mlp.c_fc");
    linear(block.feed_forward.down, layer + ".mlp.c_proj");
  }
  norm(*model.decoder.norm, "transformer.ln_f");
  file.read<float, 2>("lm_head.weight", model.head->weight.view());
  return model;
}

/// (B, N, H·E) as (B, H, N, E), which the dump uses.
Tensor<float, 4> heads_first(ConstView<float, 3> x, Index head_width) {
  const auto heads = x.split_last(head_width);
  Tensor<float, 4> y(Shape{heads.extent(0), heads.extent(2), heads.extent(1), head_width});
  for (Index b = 0; b < y.extent(0); ++b)
    for (Index h = 0; h < y.extent(1); ++h)
      for (Index n = 0; n < y.extent(2); ++n)
        for (Index e = 0; e < head_width; ++e) y(b, h, n, e) = heads(b, n, h, e);
  return y;
}

}  // namespace

TEST(nano_gpt_sort, EveryIntermediate) {
  if (!std::filesystem::exists(nano_folder / "partials.safetensors")) GTEST_SKIP() << "the files are not here";
  const auto model = nano_gpt();
  Safetensors dump(nano_folder / "partials.safetensors");
  const auto expect = [&](const std::string& name, const auto& got) {
    constexpr int rank = std::remove_cvref_t<decltype(got)>::rank;
    const auto want = dump.read<float, rank>(name);
    ASSERT_EQ(want.shape(), got.shape()) << name;
    for (Index i = 0; i < want.size(); ++i)
      ASSERT_NEAR(got.data()[i], want.data()[i], 3e-6 * std::max(1.0f, std::abs(want.data()[i]))) << name << ' ' << i;
  };
  const auto stored_ids = dump.read<float, 2>("idx");
  Tensor<Id, 2> ids(stored_ids.shape());
  for (Index i = 0; i < ids.size(); ++i) ids.data()[i] = static_cast<Id>(stored_ids.data()[i]);

  Context ctx;
  const auto embedded = model.embedding(ctx, ids);
  expect("tok_emb", Tensor<float, 3>(embedded));
  const auto x = model.position.embed(ctx, embedded, {});
  expect("x", Tensor<float, 3>(x));
  const auto& block = model.decoder.blocks[0];
  const auto ln1 = block.attention_residual.norm(ctx, x);
  expect("ln1", Tensor<float, 3>(ln1));
  const auto q = block.attention.query(ctx, ln1), k = block.attention.key(ctx, ln1),
             v = block.attention.value(ctx, ln1);
  expect("q", heads_first(q, 16));
  expect("k", heads_first(k, 16));
  expect("v", heads_first(v, 16));
  // Weights show as the output for one-hot values.
  Tensor<float, 4> one_hot(Shape{3, 11, 3, 16});
  for (Index b = 0; b < 3; ++b)
    for (Index n = 0; n < 11; ++n)
      for (Index h = 0; h < 3; ++h) one_hot(b, n, h, n) = 1;
  const auto weights =
      heads_first(op::attention<float>(ctx, q.split_last(16), k.split_last(16), one_hot, {0.25, {.causal = true}})
                      .reshape(Shape{3, 11, 48}),
                  16);
  const auto want_weights = dump.read<float, 4>("attSm");
  for (Index b = 0; b < 3; ++b)
    for (Index h = 0; h < 3; ++h)
      for (Index i = 0; i < 11; ++i)
        for (Index j = 0; j < 11; ++j) ASSERT_NEAR(weights(b, h, i, j), want_weights(b, h, i, j), 3e-6);
  const auto mixed =
      op::attention<float>(ctx, q.split_last(16), k.split_last(16), v.split_last(16), {0.25, {.causal = true}})
          .reshape(Shape{3, 11, 48});
  expect("y", Tensor<float, 3>(mixed));
  const auto projected = block.attention.output(ctx, mixed);
  expect("yProj", Tensor<float, 3>(projected));
  const auto resid = op::add(ctx, x, projected);
  expect("attnResid", Tensor<float, 3>(resid));
  const auto ln2 = block.feed_forward_residual.norm(ctx, resid);
  expect("ln2", Tensor<float, 3>(ln2));
  const auto fc = block.feed_forward.up(ctx, ln2), gelu = op::activate<GeluTanh>(ctx, fc);
  expect("fc", Tensor<float, 3>(fc));
  expect("gelu", Tensor<float, 3>(gelu));
  const auto mlp = block.feed_forward(ctx, ln2);
  expect("mlp", Tensor<float, 3>(mlp));
  expect("mlpResid", Tensor<float, 3>(op::add(ctx, resid, mlp)));
  auto y = x;
  for (std::size_t i = 0; i < 3; ++i) {
    y = model.decoder.blocks[i](ctx, y, Mask{.causal = true});
    expect("block" + std::to_string(i), Tensor<float, 3>(y));
  }
  expect("ln_f", Tensor<float, 3>((*model.decoder.norm)(ctx, y)));
  const auto logits = model(ctx, {.ids = ids});
  expect("lm_head", Tensor<float, 3>(logits));
  expect("probs", Tensor<float, 3>(op::softmax(ctx, logits)));
}

TEST(nano_gpt_sort, SortsAll729Inputs) {
  if (!std::filesystem::exists(nano_folder / "model.safetensors")) GTEST_SKIP() << "the files are not here";
  const auto model = nano_gpt();
  Tensor<Id, 2> ids(Shape{729, 12});
  for (Index b = 0; b < 729; ++b)
    for (Index n = 0, rest = b; n < 6; ++n, rest /= 3) ids(b, n) = static_cast<Id>(rest % 3);
  Context ctx;
  for (Index length = 6; length < 12; ++length) {
    ctx.reset();
    const auto logits = model(ctx, {.ids = Tensor<Id, 2>(ids.view().slice(1, 0, length))});
    for (Index b = 0; b < 729; ++b) {
      const float* const row = &logits(b, length - 1, 0);
      ids(b, length) = static_cast<Id>(std::max_element(row, row + 3) - row);
    }
  }
  for (Index b = 0; b < 729; ++b) {
    std::vector<Id> want(&ids(b, 0), &ids(b, 0) + 6);
    std::sort(want.begin(), want.end());
    EXPECT_EQ(std::vector<Id>(&ids(b, 0) + 6, &ids(b, 0) + 12), want);
  }
}

}  // namespace eigenformer::test
