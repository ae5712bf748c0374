// The models by name, made without memory for their weights, and what the tables need to know of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "eigenformer/core/format.hpp"
#include "eigenformer/model/bert.hpp"
#include "eigenformer/model/decoders.hpp"
#include "eigenformer/model/paper.hpp"
#include "eigenformer/model/t5.hpp"
#include "parts.hpp"

namespace anatomy {

using eigenformer::NoValue;

enum class Kind { embedding, projections, scores, feed_forward, norms, head };
inline constexpr std::array<const char*, 6> kind_names{
    "embedding, positions", "attention projections", "attention scores", "feed-forward", "norms", "head"};

/// One attention of one layer.
struct Attention {
  Index heads, kv_heads, head_width, window;
  bool causal;
  bool cached = causal;  // while generating, by token generated

  /// How many keys a query meets, on average over `length` of them.
  double keys(Index length) const {
    const Index seen = window > 0 ? (std::min)(window, length) : length;
    if (!causal) return static_cast<double>(length);
    return static_cast<double>(seen * (seen + 1) / 2 + (length - seen) * seen) / static_cast<double>(length);
  }
};

struct Model {
  std::string name{};
  Part root{};
  std::vector<Attention> attentions{};
  Index width = 0, hidden = 0, vocabulary = 0;
  bool tied = false;       // the output projection is the embedding
  bool logits = true;      // there is an output projection
  bool two_sided = false;  // a source and a target
  std::array<Index, kind_names.size()> parameters{};
  std::array<double, kind_names.size()> per_token{};            // FLOPs, but for scores
  double per_sequence = 0;                                      // those of a pooler
  std::vector<std::pair<std::string, std::int64_t>> formats{};  // and the bytes that the weights take in each

  double scores(Index length) const {
    double flops = 0;
    for (const Attention& each : attentions)
      flops += 4 * static_cast<double>(each.heads * each.head_width) * each.keys(length);
    return flops;
  }
};

inline Kind kind_of(const std::vector<std::string>& path) {
  const auto has = [&](std::string_view name) { return std::find(path.begin(), path.end(), name) != path.end(); };
  if (path.front().ends_with("embedding") || path.front().ends_with("position")) return Kind::embedding;
  if (path.front() == "head" || path.front() == "pooler") return Kind::head;
  if (has("feed_forward")) return Kind::feed_forward;
  const bool attends = has("attention") || has("self_attention") || has("cross_attention");
  return attends && !has("heads") ? Kind::projections : Kind::norms;
}

/// Adds up parameters and operations. A multiply-add is two; a norm's factors stand for 4 operations each (square, sum,
/// scale, multiply), its summands for 3 more (mean, subtract, add).
template <class M>
void count(Model& model, const M& weights) {
  const Attention& attention = model.attentions.front();
  eigenformer::walk(
      [&](const std::string& path, const Leaf& leaf, const auto& tensor) {
        const auto names = split(path);
        const Kind kind = kind_of(names);
        const auto i = static_cast<std::size_t>(kind);
        model.parameters[i] += tensor.size();
        const auto size = static_cast<double>(tensor.size());
        const bool matrix = leaf.decay == eigenformer::Decay::yes;
        if (names.front() == "pooler") {
          model.per_sequence += matrix ? 2 * size : 0;
        } else if (kind == Kind::norms) {
          const bool of_queries = path.find("query_norm") != std::string::npos,
                     of_keys = path.find("key_norm") != std::string::npos;
          const Index uses = of_queries ? attention.heads : of_keys ? attention.kv_heads : 1;
          model.per_token[i] += (leaf.name == "bias" ? 3 : 4) * size * static_cast<double>(uses);
        } else if (kind != Kind::embedding && matrix) {
          model.per_token[i] += 2 * size;
        }
      },
      weights);
  if (model.logits && model.tied)
    model.per_token[static_cast<std::size_t>(Kind::head)] += 2 * static_cast<double>(model.vocabulary * model.width);
}

/// Bytes of all weights if the matrices are packed so.
template <class M>
std::int64_t packed_bytes(const M& weights, eigenformer::Format format, Index group) {
  std::int64_t bytes = 0;
  eigenformer::walk(
      [&](const Leaf&, const auto& tensor) {
        if constexpr (requires { tensor.layout(format, group); })
          if (format != eigenformer::Format::scalar) {
            bytes += static_cast<std::int64_t>(tensor.layout(format, group).bytes());
            return;
          }
        bytes += std::int64_t{tensor.size()} * static_cast<std::int64_t>(sizeof(float));
      },
      weights);
  return bytes;
}

/// Of a complete config.
inline Attention attention_of(const auto& config, bool causal, bool cached) {
  return {*config.heads, config.kv_heads, config.head_width, config.window, causal, cached};
}

/// Of the complete config of a model.
inline Model facts(const auto& config) {
  Model model;
  if constexpr (requires { config.decoder_block; }) {
    model = {.vocabulary = config.target_vocabulary,
             .tied = config.sharing == eigenformer::Sharing::all ||
                     config.sharing == eigenformer::Sharing::target_and_output,
             .two_sided = true};
    model.attentions.assign(static_cast<std::size_t>(config.encoder_layers),
                            attention_of(config.block.attention, false, false));
    for (Index layer = 0; layer < config.decoder_layers; ++layer) {
      model.attentions.push_back(attention_of(config.decoder_block->self_attention, true, true));
      model.attentions.push_back(attention_of(config.decoder_block->cross_attention, false, false));
    }
  } else {
    constexpr bool decodes = requires { config.tied; };
    model = {.vocabulary = config.vocabulary, .logits = decodes};
    if constexpr (decodes) model.tied = config.tied;
    const auto stack = config.stack();
    for (Index layer = 0; layer < config.layers; ++layer)
      model.attentions.push_back(attention_of(stack.layer(layer).attention, decodes, decodes));
  }
  return model;
}

/// What a user may change, by key.
using Sizes = std::map<std::string, Index>;

template <class Config>
void change(Config& config, const Sizes& sizes) {
  auto& block = config.block;
  auto& attention = block.attention;
  std::map<std::string, std::vector<Index*>> numbers{{"width", {&block.width}},
                                                     {"hidden", {&block.hidden}},
                                                     {"heads", {&block.heads}},
                                                     {"kv_heads", {&attention.kv_heads}},
                                                     {"head_width", {&attention.head_width}},
                                                     {"window", {&attention.window}}};
  std::map<std::string, bool*> flags{{"bias", &attention.bias}};
  if constexpr (requires { config.layers; })
    numbers["layers"] = {&config.layers}, numbers["vocabulary"] = {&config.vocabulary};
  else {
    numbers["layers"] = {&config.encoder_layers, &config.decoder_layers};
    numbers["vocabulary"] = {&config.source_vocabulary, &config.target_vocabulary};
  }
  if constexpr (requires { config.max_positions; }) numbers["max_positions"] = {&config.max_positions};
  if constexpr (requires { config.tied; }) flags["tied"] = &config.tied;

  // What follows from a size in the published model is as usual again when that size is another.
  if (sizes.contains("width") || sizes.contains("heads")) attention.head_width = attention.kv_heads = 0;
  if constexpr (requires { config.position.rotated; })
    if (sizes.contains("width") || sizes.contains("heads")) config.position.rotated = 0;
  std::vector<Index> windows;  // in which alone the published layers differ
  if constexpr (requires { config.each_layer; }) {
    for (const auto& each : config.each_layer) windows.push_back(each.attention.window);
    config.each_layer.clear();
  }
  for (const auto& [key, value] : sizes) {
    if (const auto number = numbers.find(key); number != numbers.end()) {
      for (Index* const place : number->second) *place = value;
    } else if (const auto flag = flags.find(key); flag != flags.end()) {
      eigenformer::ensure(value == 0 || value == 1, "anatomy", key, " is 0 or 1, not ", value);
      *flag->second = value == 1;
    } else {
      std::string known = "family";
      for (const auto& each : numbers) known += ", " + each.first;
      for (const auto& each : flags) known += ", " + each.first;
      eigenformer::fail("anatomy", "there is no key ", key, " for this model; there are ", known);
    }
  }
  const Index layers = *numbers["layers"].front();
  eigenformer::ensure(layers > 0 && layers <= 1000, "anatomy", "layers must be from 1 to 1000, not ", layers);
  eigenformer::ensure(block.width > 0 && block.hidden > 0, "anatomy", "width and hidden must be positive");
  if (sizes.contains("bias")) {
    attention.output_bias = attention.bias;
    block.feed_forward.bias = attention.bias;
  }
  if constexpr (requires { config.each_layer; })
    if (!windows.empty() && !sizes.contains("window"))
      for (Index layer = 0; layer < layers; ++layer) {
        config.each_layer.push_back(block);
        config.each_layer.back().attention.window = windows[static_cast<std::size_t>(layer) % windows.size()];
      }
}

template <class M, class Config>
Model describe(Config config, const Sizes& sizes) {
  change(config, sizes);
  const M weights(config);
  Model model = facts(weights.config);
  model.width = config.block.width;
  model.hidden = config.block.hidden;
  model.root = tree(weights);
  count(model, weights);
  using enum eigenformer::Format;
  for (const auto& [name, format, group] :
       {std::tuple("float", scalar, 0), std::tuple("f16, bf16", bf16, 0), std::tuple("int8", int8, 0),
        std::tuple("int8, groups of 32", int8, 32), std::tuple("int4, groups of 32", int4, 32)})
    model.formats.emplace_back(name, packed_bytes(weights, format, group));
  return model;
}

/// A published model, and the family that `family=` calls it by: its kind, with other sizes.
struct Known {
  std::string_view name, family;
  Model (*make)(const Sizes& sizes);
};

inline constexpr Known known_models[] = {
    {"paper-base", "paper",
     [](const Sizes& sizes) {
       return describe<eigenformer::EncoderDecoder<eigenformer::PostNorm<NoValue>>>(eigenformer::paper_base(), sizes);
     }},
    {"paper-big", "",
     [](const Sizes& sizes) {
       return describe<eigenformer::EncoderDecoder<eigenformer::PostNorm<NoValue>>>(eigenformer::paper_big(), sizes);
     }},
    {"t5-small", "",
     [](const Sizes& sizes) { return describe<eigenformer::T5<NoValue>>(eigenformer::t5_small(), sizes); }},
    {"t5-base", "t5",
     [](const Sizes& sizes) { return describe<eigenformer::T5<NoValue>>(eigenformer::t5_base(), sizes); }},
    {"t5-v1.1-base", "t5-v1.1",
     [](const Sizes& sizes) { return describe<eigenformer::T5v11<NoValue>>(eigenformer::t5v11_base(), sizes); }},
    {"bart-base", "bart",
     [](const Sizes& sizes) { return describe<eigenformer::Bart<NoValue>>(eigenformer::bart_base(), sizes); }},
    {"bert-base", "bert",
     [](const Sizes& sizes) { return describe<eigenformer::Bert<NoValue>>(eigenformer::bert_base(), sizes); }},
    {"roberta-base", "roberta",
     [](const Sizes& sizes) { return describe<eigenformer::Roberta<NoValue>>(eigenformer::roberta_base(), sizes); }},
    {"gpt2", "gpt2",
     [](const Sizes& sizes) { return describe<eigenformer::Gpt2<NoValue>>(eigenformer::gpt2_small(), sizes); }},
    {"llama2-7b", "llama",
     [](const Sizes& sizes) { return describe<eigenformer::Llama<NoValue>>(eigenformer::llama2_7b(), sizes); }},
    {"llama3-8b", "",
     [](const Sizes& sizes) { return describe<eigenformer::Llama<NoValue>>(eigenformer::llama3_8b(), sizes); }},
    {"mistral-7b", "mistral",
     [](const Sizes& sizes) { return describe<eigenformer::Mistral<NoValue>>(eigenformer::mistral_7b(), sizes); }},
    {"qwen2-0.5b", "qwen2",
     [](const Sizes& sizes) { return describe<eigenformer::Qwen2<NoValue>>(eigenformer::qwen2_small(), sizes); }},
    {"qwen3-0.6b", "qwen3",
     [](const Sizes& sizes) { return describe<eigenformer::Qwen3<NoValue>>(eigenformer::qwen3_small(), sizes); }},
    {"gemma2-2b", "gemma2",
     [](const Sizes& sizes) { return describe<eigenformer::Gemma2<NoValue>>(eigenformer::gemma2_2b(), sizes); }},
    {"phi2", "phi2",
     [](const Sizes& sizes) { return describe<eigenformer::Phi2<NoValue>>(eigenformer::phi2(), sizes); }},
    {"bloom-560m", "bloom",
     [](const Sizes& sizes) { return describe<eigenformer::Bloom<NoValue>>(eigenformer::bloom_560m(), sizes); }},
};

/// All names, or all families.
inline std::string known_list(std::string_view Known::*what) {
  std::string text;
  for (const Known& known : known_models)
    if (!(known.*what).empty()) text.append(text.empty() ? "" : ", ").append(known.*what);
  return text;
}

inline const Known& find(std::string_view Known::*what, std::string_view called) {
  for (const Known& known : known_models)
    if (!called.empty() && known.*what == called) return known;
  eigenformer::fail("anatomy", "there is no ", what == &Known::family ? "family '" : "model '", called, "'; there are ",
                    known_list(what));
}

/// From words NAME or key=value; at most one of them is a name or family=…
inline Model parse(const std::vector<std::string>& words) {
  const Known* model = nullptr;
  std::string name;
  Sizes sizes;
  for (const std::string& word : words) {
    name += (name.empty() ? "" : " ") + word;
    const std::size_t equals = word.find('=');
    const std::string key = word.substr(0, equals), value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (equals == std::string::npos || key == "family") {
      eigenformer::ensure(!model, "anatomy", "one model at a time: ", word, " is a second one");
      model = &(key == "family" ? find(&Known::family, value) : find(&Known::name, word));
    } else {
      eigenformer::ensure(
          !value.empty() && value.size() <= 7 && value.find_first_not_of("0123456789") == std::string::npos, "anatomy",
          key, " must be a number from 0 to 9999999, not '", value, "'");
      eigenformer::ensure(sizes.emplace(key, std::stol(value)).second, "anatomy", key, " is given twice");
    }
  }
  eigenformer::ensure(model != nullptr, "anatomy", "which model? Name one (", known_list(&Known::name),
                      ") or a family=… (", known_list(&Known::family), ")");
  Model made = model->make(sizes);
  made.name = name;
  return made;
}

}  // namespace anatomy
