// What transformers makes of a tiny folder, and how a model is held against it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "eigenformer/core/context.hpp"
#include "eigenformer/io/safetensors.hpp"
#include "eigenformer/model/encoder_decoder.hpp"
#include "eigenformer/model/language_model.hpp"
#include "eigenformer/op/pool.hpp"
#include "support/files.hpp"

namespace eigenformer::test {

/// A folder and what is stored in it of transformers, computed in double and rounded to float.
class TinyReference {
 public:
  explicit TinyReference(const std::filesystem::path& folder)
      : config(nlohmann::json::parse(read_file(folder / "config.json"))),
        json(nlohmann::json::parse(read_file(folder / "reference.json"))), tensors_(folder / "reference.safetensors") {
    for (const auto& [name, value] : json.at("float32_against_float64").items())
      float_error_ = (std::max)(float_error_, value.get<double>());
  }

  const nlohmann::json config, json;

  bool has(const char* name) const { return tensors_.find(name) != nullptr; }
  Tensor<Id, 2> ids(const char* name) { return tensors_.read<Id, 2>(name); }
  Tensor<Index, 1> lengths(const char* name) { return tensors_.read<Index, 1>(name); }

  /// Doubles are as near as float can say. Floats are as near as those of transformers, give or take another order of
  /// additions.
  template <class T>
  void expect(const char* name, ConstView<T, 3> got, ConstView<Index, 1> lengths = {}) {
    const double most = std::is_same_v<T, double> ? 1.2e-7 : 3 * float_error_;
    const bool vectors = tensors_.find(name)->shape.size() == 2;  // (B, D) for (B, 1, D)
    const Tensor<float, 2> flat = vectors ? tensors_.read<float, 2>(name) : Tensor<float, 2>();
    const Tensor<float, 3> whole = vectors ? Tensor<float, 3>() : tensors_.read<float, 3>(name);
    const ConstView<float, 3> want =
        vectors ? flat.view().reshape(Shape{flat.extent(0), Index{1}, flat.extent(1)}) : whole.view();
    ASSERT_EQ(got.shape(), want.shape()) << name;
    double largest = 0, off = 0;
    for (Index b = 0; b < got.extent(0); ++b)
      for (Index n = 0; n < (lengths ? lengths[b] : got.extent(1)); ++n)
        for (Index v = 0; v < got.extent(2); ++v) {
          largest = (std::max)(largest, std::abs(static_cast<double>(want(b, n, v))));
          const double distance = std::abs(static_cast<double>(got(b, n, v)) - static_cast<double>(want(b, n, v)));
          off = std::isnan(distance) ? HUGE_VAL : (std::max)(off, distance);
        }
    EXPECT_GT(largest, 0) << name;
    EXPECT_LE(off, most * largest) << name;
  }

 private:
  Safetensors tensors_;
  double float_error_ = 0;  // of transformers, relative to the largest value
};

template <class Model>
constexpr bool is_decoder = requires(const Model& model, Context& ctx) {
  model(ctx, LanguageModelCall{});
};
template <class Model>
constexpr bool is_encoder_decoder = requires(const Model& model, Context& ctx) {
  model(ctx, EncoderDecoderCall{});
};

/// Logits and hidden states, in one pass. `pooled`: the format keeps the pooler of encoders.
template <class Model>
void expect_tiny_values(const Model& model, TinyReference& reference, bool pooled = true) {
  Context ctx;
  if constexpr (is_decoder<Model>) {
    const auto lengths = reference.lengths("lengths");
    reference.expect("logits", model(ctx, {.ids = reference.ids("ids"), .lengths = lengths}), lengths);
    reference.expect("long_logits", model(ctx, {.ids = reference.ids("long_ids")}));
  } else if constexpr (is_encoder_decoder<Model>) {
    const auto source_lengths = reference.lengths("source_lengths"),
               target_lengths = reference.lengths("target_lengths");
    const auto source = reference.ids("source_ids");
    reference.expect("memory", model.encode(ctx, source, source_lengths), source_lengths);
    reference.expect("logits", model(ctx, {source, source_lengths, reference.ids("target_ids"), target_lengths}),
                     target_lengths);
    reference.expect("long_logits", model(ctx, {.source = reference.ids("long_source_ids"),
                                                .target = reference.ids("long_target_ids")}));
  } else {
    const auto lengths = reference.lengths("lengths");
    const auto ids = reference.ids("ids");
    const Tensor<Id, 2> types = reference.has("token_type_ids") ? reference.ids("token_type_ids") : Tensor<Id, 2>();
    const auto hidden = model(ctx, {.ids = ids, .types = types, .lengths = lengths});
    reference.expect("last_hidden_state", hidden, lengths);
    reference.expect("long_last_hidden_state", model(ctx, {.ids = reference.ids("long_ids")}));
    if (types.data())
      reference.expect("last_hidden_state_without_types", model(ctx, {.ids = ids, .lengths = lengths}), lengths);
    if (pooled && reference.has("pooler_output")) reference.expect("pooler_output", model.pool(ctx, hidden));
    if (reference.has("pooled_mean")) reference.expect("pooled_mean", op::mean_pool(ctx, hidden, lengths));
  }
}

}  // namespace eigenformer::test
