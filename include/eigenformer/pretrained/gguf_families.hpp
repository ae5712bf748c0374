// Which of our models a GGUF file may hold: the names of tensors and the keys of each architecture of llama.cpp
// (https://github.com/ggml-org/llama.cpp, llama-arch.cpp and its models). A key of the architecture is understood, or
// an Error.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "eigenformer/io/gguf.hpp"
#include "eigenformer/model/bert.hpp"
#include "eigenformer/model/decoders.hpp"
#include "eigenformer/model/t5.hpp"
#include "eigenformer/pretrained/checkpoint_files.hpp"
#include "eigenformer/pretrained/config_file.hpp"
#include "eigenformer/pretrained/family_list.hpp"
#include "eigenformer/pretrained/name_table.hpp"
#include "eigenformer/pretrained/pretrained.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::detail {

/// What a file says besides values of tensors. Keys of its architecture are asked for without its name:
/// "block_count" for "llama.block_count".
class GgufKeys {
 public:
  GgufKeys(Gguf& source, const std::vector<std::string>& trusted)
      : source_(source), file_(ConfigFile::of(small_values(source), source.name())), list_(source.tensors()) {
    architecture = file_.text("general.architecture");
    file_.trust(trusted);
    for (const std::string& key : file_.keys())
      if (!key.starts_with(architecture + ".")) file_.ignore(key);
    if (file_.has("split.count") && file_.integer("split.count", 0, most_tokens) > 1)
      file_.refuse("split.count", "is ", file_.integer("split.count", 0, most_tokens),
                   ": the parts of a model must be joined first");
    vocabulary = rows("token_embd.weight");  // whatever vocab_size says, as in llama.cpp
    // Without effect on hidden states and logits.
    for (const char* const name : {"vocab_size", "pooling_type", "rope.scaling.finetuned", "tensor_data_layout"})
      ignore(name);
    for (const char* const name : {"expert_count", "expert_used_count"}) only(name, {0});
  }

  std::string architecture;
  Index vocabulary = 0;

  const std::string& name() const { return file_.name(); }
  const TensorList& tensors() const { return list_; }
  bool has_tensor(std::string_view tensor) const { return list_.find(tensor) != nullptr; }
  /// The first extent of a matrix; 0 if there is none.
  Index rows(std::string_view tensor) const {
    const StoredTensor* const stored = list_.find(tensor);
    return stored && stored->shape.size() == 2 ? stored->shape[0] : 0;
  }
  std::vector<double> values(std::string_view tensor) {
    const StoredTensor* const stored = list_.find(tensor);
    std::vector<double> all(static_cast<std::size_t>(count_of(*stored)));
    source_.read_part(tensor, 0, View<double, 1>(all.data(), Shape{static_cast<Index>(all.size())}));
    return all;
  }

  std::string key(std::string_view name) const { return concatenate(architecture, ".", name); }
  template <class... Parts>
  [[noreturn]] void refuse(std::string_view name, const Parts&... parts) const {
    file_.refuse(key(name), parts...);
  }
  bool has(std::string_view name) const { return file_.has(key(name)); }
  Index size(std::string_view name, std::optional<Index> otherwise = {}) {
    return list_.size(file_, key(name), otherwise);
  }
  Index layers(std::string_view name, std::optional<Index> otherwise = {}) {
    return list_.layers(file_, key(name), otherwise);
  }
  Index integer(std::string_view name, Index least, std::optional<Index> otherwise = {}) {
    return file_.integer(key(name), least, most_tokens, otherwise);
  }
  double positive(std::string_view name, std::optional<double> otherwise = {}) {
    return file_.positive(key(name), otherwise);
  }
  /// Of keys and values: the same.
  Index head_width(Index width, Index heads) {
    const Index keys = size("attention.key_length", (std::max)(width / heads, Index{1})),
                values = size("attention.value_length", keys);
    if (values != keys) refuse("attention.value_length", "is ", values, ", but keys have a width of ", keys);
    return keys;
  }
  double real(std::string_view name, double otherwise) { return file_.real(key(name), otherwise); }
  std::string text(std::string_view name, const std::string& otherwise) { return file_.text(key(name), otherwise); }
  void only(std::string_view name, std::initializer_list<nlohmann::json> values) { file_.only(key(name), values); }
  void ignore(std::string_view name) { file_.ignore(key(name)); }
  void finish() const { file_.finish(); }

  /// As llama.cpp takes them: a token that the vocabulary does not have is none.
  PretrainedFacts facts(Index max_positions) {
    const auto token = [&](const char* name, std::optional<Id> otherwise = {}) -> std::optional<Id> {
      const std::string full = concatenate("tokenizer.ggml.", name, "_token_id");
      if (!file_.has(full)) return otherwise;
      const Index id = file_.integer(full, -1, (std::numeric_limits<Index>::max)());
      return id >= 0 && id < vocabulary ? std::optional(static_cast<Id>(id)) : std::nullopt;
    };
    const std::string model = file_.text("tokenizer.ggml.model", "");
    const auto of_llama = [&](Id id) { return model == "llama" ? std::optional(id) : std::nullopt; };
    PretrainedFacts facts{.bos = token("bos", of_llama(1)), .pad = token("padding"), .max_positions = max_positions};
    for (const auto& id : {token("eos", of_llama(2)), token("eot"), token("eom")})
      if (id && std::find(facts.eos.begin(), facts.eos.end(), *id) == facts.eos.end()) facts.eos.push_back(*id);
    for (const auto& [name, value] : source_.metadata().items())
      if ((name.starts_with("general.sampling.") || name == "tokenizer.ggml.suppress_tokens") && !file_.trusts(name))
        facts.warnings.push_back(
            concatenate(file_.name(), ": key ", in_quotes(name), " is ", ConfigFile::text_of(value)));
    return facts;
  }

 private:
  /// Without the lists of a tokenizer.
  static nlohmann::json small_values(const Gguf& source) {
    nlohmann::json values = nlohmann::json::object();
    for (const auto& [key, value] : source.metadata().items())
      if (!value.is_array() || !key.starts_with("tokenizer.")) values[key] = value;
    return values;
  }

  Gguf& source_;
  ConfigFile file_;
  TensorList list_;
};

/// Scalings of rotary frequencies, said by keys, or by a tensor of divisors: LLaMA 3's.
inline RotaryConfig read_gguf_rope(GgufKeys& keys, Index head_width, Index max_positions, bool partial = false) {
  RotaryConfig config{.rotated = keys.integer("rope.dimension_count", 1, head_width),
                      .base = keys.positive("rope.freq_base", 10000)};
  if (config.rotated != head_width && !partial)
    keys.refuse("rope.dimension_count", "is ", config.rotated, ", but heads have a width of ", head_width);
  const std::string type = keys.text("rope.scaling.type", "linear");
  // 0 is as good as none.
  const auto factor_of = [&](const char* name) { return keys.real(name, 0) == 0 ? 1 : keys.positive(name); };
  const double old_factor = factor_of("rope.scale_linear"),
               factor = keys.has("rope.scaling.factor") ? factor_of("rope.scaling.factor") : old_factor;
  const Index original = keys.integer("rope.scaling.original_context_length", 1, max_positions);
  const double attention_factor = keys.positive("rope.scaling.attn_factor", 1);
  for (const char* const name : {"rope.scaling.yarn_log_multiplier", "rope.scaling.alpha"}) keys.only(name, {0.0});
  for (const char* const name : {"rope.scaling.yarn_ext_factor", "rope.scaling.yarn_attn_factor"})
    keys.only(name, {1.0});
  const double fast = keys.positive("rope.scaling.yarn_beta_fast", 32),
               slow = keys.positive("rope.scaling.yarn_beta_slow", 1);
  if (type == "yarn") {
    config.scaling = YarnScaling{.factor = factor, .original = original, .fast = fast, .slow = slow};
    if (attention_factor != 1)
      std::get<YarnScaling>(config.scaling).attention_factor = attention_factor * (0.1 * std::log(factor) + 1);
  } else if (type == "linear" || type == "none") {
    if (attention_factor != 1) keys.refuse("rope.scaling.attn_factor", "is ", attention_factor, " without yarn");
    if (type == "linear" && factor != 1) config.scaling = LinearScaling{factor};
  } else {
    keys.refuse("rope.scaling.type", "is ", in_quotes(type), ", but only none, linear and yarn are supported");
  }
  if (!keys.has_tensor("rope_freqs.weight")) return config;
  if (!std::holds_alternative<std::monostate>(config.scaling))
    keys.refuse("rope.scaling.type", "is there beside rope_freqs.weight");
  const StoredTensor& stored = *keys.tensors().find("rope_freqs.weight");
  if (stored.shape != std::vector{config.rotated / 2} || !Gguf::readable<float>(stored.dtype))
    fail("pretrained", keys.name(), ": rope_freqs.weight is ", shape_text(stored.shape), " of ", stored.dtype, ", not ",
         config.rotated / 2, " numbers");
  std::vector<double> factors = keys.values("rope_freqs.weight");
  if (std::any_of(factors.begin(), factors.end(), [](double by) { return by != 1; }))
    config.scaling = FactorScaling{std::move(factors)};
  return config;
}

inline constexpr NameRow gguf_llama_rows[] = {
    {.ours = "embedding", .theirs = "token_embd"},
    {.ours = "decoder.blocks.*.attention_residual.norm", .theirs = "blk.*.attn_norm"},
    {.ours = "decoder.blocks.*.attention.query", .theirs = "blk.*.attn_q"},
    {.ours = "decoder.blocks.*.attention.key", .theirs = "blk.*.attn_k"},
    {.ours = "decoder.blocks.*.attention.value", .theirs = "blk.*.attn_v"},
    {.ours = "decoder.blocks.*.attention.output", .theirs = "blk.*.attn_output"},
    {.ours = "decoder.blocks.*.attention.heads.query_norm", .theirs = "blk.*.attn_q_norm"},
    {.ours = "decoder.blocks.*.attention.heads.key_norm", .theirs = "blk.*.attn_k_norm"},
    {.ours = "decoder.blocks.*.feed_forward_residual.norm", .theirs = "blk.*.ffn_norm"},
    {.ours = "decoder.blocks.*.feed_forward.gate", .theirs = "blk.*.ffn_gate"},
    {.ours = "decoder.blocks.*.feed_forward.up", .theirs = "blk.*.ffn_up"},
    {.ours = "decoder.blocks.*.feed_forward.down", .theirs = "blk.*.ffn_down"},
    {.ours = "decoder.norm", .theirs = "output_norm"},
    {.ours = "head", .theirs = "output"}};
inline constexpr std::string_view gguf_llama_skipped[] = {"rope_freqs.weight", "*.attn_rot_embd.weight"};

struct GgufLlamaTraits {
  template <Real T>
  using Model = Llama<T>;
  using Config = Llama<>::Config;
  static constexpr std::string_view types[] = {"llama", "qwen2"};
};
struct GgufQwen3Traits {
  template <Real T>
  using Model = Qwen3<T>;
  using Config = Qwen3<>::Config;
  static constexpr std::string_view types[] = {"qwen3"};
};

/// LLaMA and Mistral, whose rows of q and k are in the order of interleaved pairs, and Qwen 2 and 3, whose are halves.
template <class Traits>
struct GgufLlamaFamily {
  template <Real T>
  using Model = typename Traits::template Model<T>;
  using Config = typename Traits::Config;
  static constexpr auto& types = Traits::types;
  static bool claims(const GgufKeys&) { return true; }
  static constexpr Naming naming{.prefix = "", .rows = gguf_llama_rows, .skipped = gguf_llama_skipped};

  static Described<Config> read(GgufKeys& keys) {
    const Index max_positions = keys.integer("context_length", 1), heads = keys.size("attention.head_count"),
                width = keys.size("embedding_length"), head_width = keys.head_width(width, heads);
    const TensorList& tensors = keys.tensors();
    Config config{.vocabulary = keys.vocabulary,
                  .max_positions = max_positions,
                  .layers = keys.layers("block_count"),
                  .block = {.width = width, .hidden = keys.size("feed_forward_length"), .heads = heads, .dropout = 0},
                  .position = read_gguf_rope(keys, head_width, max_positions),
                  .tied = !keys.has_tensor("output.weight")};
    if (keys.architecture == "llama") config.position.layout = RotaryLayout::interleaved;
    auto& block = config.block;
    block.residual.norm.epsilon = keys.positive("attention.layer_norm_rms_epsilon");
    block.attention.kv_heads = keys.size("attention.head_count_kv", heads);
    block.attention.head_width = head_width;
    block.attention.bias = tensors.any("blk.*.attn_q.bias");
    if (const bool output = tensors.any("blk.*.attn_output.bias"); output != block.attention.bias)
      block.attention.output_bias = output;
    block.feed_forward.bias = tensors.any("blk.*.ffn_up.bias");
    if constexpr (requires { block.attention.per_head.norm; })
      block.attention.per_head.norm.epsilon = block.residual.norm.epsilon;
    return {config, keys.facts(max_positions)};
  }
};

inline constexpr NameRow gguf_gpt2_rows[] = {
    {.ours = "embedding", .theirs = "token_embd"},
    {.ours = "position", .theirs = "position_embd"},
    {.ours = "decoder.blocks.*.attention_residual.norm", .theirs = "blk.*.attn_norm"},
    {.ours = "decoder.blocks.*.attention.query", .theirs = "blk.*.attn_qkv", .storage = {.part = 0, .parts = 3}},
    {.ours = "decoder.blocks.*.attention.key", .theirs = "blk.*.attn_qkv", .storage = {.part = 1, .parts = 3}},
    {.ours = "decoder.blocks.*.attention.value", .theirs = "blk.*.attn_qkv", .storage = {.part = 2, .parts = 3}},
    {.ours = "decoder.blocks.*.attention.output", .theirs = "blk.*.attn_output"},
    {.ours = "decoder.blocks.*.feed_forward_residual.norm", .theirs = "blk.*.ffn_norm"},
    {.ours = "decoder.blocks.*.feed_forward.up", .theirs = "blk.*.ffn_up"},
    {.ours = "decoder.blocks.*.feed_forward.down", .theirs = "blk.*.ffn_down"},
    {.ours = "decoder.norm", .theirs = "output_norm"},
    {.ours = "head", .theirs = "output"}};

struct GgufGpt2Family {
  template <Real T>
  using Model = Gpt2<T>;
  static constexpr std::string_view types[] = {"gpt2"};
  static bool claims(const GgufKeys&) { return true; }
  static constexpr Naming naming{.prefix = "", .rows = gguf_gpt2_rows};

  static Described<Gpt2<>::Config> read(GgufKeys& keys) {
    const Index max_positions = keys.size("context_length"), width = keys.size("embedding_length"),
                heads = keys.size("attention.head_count");
    keys.only("attention.head_count_kv", {heads});
    return {{.vocabulary = keys.vocabulary,
             .max_positions = max_positions,
             .layers = keys.layers("block_count"),
             .block = {.width = width,
                       .hidden = keys.size("feed_forward_length", 4 * width),
                       .heads = heads,
                       .dropout = 0,
                       .residual = {.norm = {.epsilon = keys.positive("attention.layer_norm_epsilon")}}},
             .tied = !keys.has_tensor("output.weight")},
            keys.facts(max_positions)};
  }
};

inline constexpr NameRow gguf_bert_rows[] = {
    {.ours = "embedding", .theirs = "token_embd"},
    {.ours = "position", .theirs = "position_embd"},
    {.ours = "type_embedding", .theirs = "token_types"},
    {.ours = "embedding_norm", .theirs = "token_embd_norm"},
    {.ours = "encoder.blocks.*.attention.query", .theirs = "blk.*.attn_q"},
    {.ours = "encoder.blocks.*.attention.key", .theirs = "blk.*.attn_k"},
    {.ours = "encoder.blocks.*.attention.value", .theirs = "blk.*.attn_v"},
    {.ours = "encoder.blocks.*.attention.output", .theirs = "blk.*.attn_output"},
    {.ours = "encoder.blocks.*.attention_residual.norm", .theirs = "blk.*.attn_output_norm"},
    {.ours = "encoder.blocks.*.feed_forward.up", .theirs = "blk.*.ffn_up"},
    {.ours = "encoder.blocks.*.feed_forward.down", .theirs = "blk.*.ffn_down"},
    {.ours = "encoder.blocks.*.feed_forward_residual.norm", .theirs = "blk.*.layer_output_norm"}};
inline constexpr std::string_view gguf_bert_skipped[] = {"cls.*"};

/// BERT, and RoBERTa, whose positions begin at the first row here. There is no pooler.
struct GgufBertFamily {
  template <Real T>
  using Model = Bert<T>;
  static constexpr std::string_view types[] = {"bert"};
  static bool claims(const GgufKeys&) { return true; }
  static constexpr Naming naming{.prefix = "", .rows = gguf_bert_rows, .skipped = gguf_bert_skipped};

  static Described<Bert<>::Config> read(GgufKeys& keys) {
    const Index max_positions = keys.rows("position_embd.weight"), heads = keys.size("attention.head_count");
    if (const Index said = keys.integer("context_length", 1); max_positions > 0 && said > max_positions)
      keys.refuse("context_length", "is ", said, ", but position_embd.weight has ", max_positions, " rows");
    keys.only("attention.causal", {false});
    keys.only("attention.head_count_kv", {heads});
    return {{.vocabulary = keys.vocabulary,
             .max_positions = max_positions,
             .types = (std::max)(keys.rows("token_types.weight"), Index{1}),
             .layers = keys.layers("block_count"),
             .block = {.width = keys.size("embedding_length"),
                       .hidden = keys.size("feed_forward_length"),
                       .heads = heads,
                       .dropout = 0,
                       .residual = {.norm = {.epsilon = keys.positive("attention.layer_norm_epsilon")}}},
             .pooler = false},
            keys.facts(keys.integer("context_length", 1))};
  }
};

inline constexpr NameRow gguf_t5_rows[] = {
    {.ours = "embedding", .theirs = "token_embd"},
    {.ours = "position", .theirs = "enc.blk.0.attn_rel_b"},
    {.ours = "target_position", .theirs = "dec.blk.0.attn_rel_b"},
    {.ours = "encoder.blocks.*.attention.query", .theirs = "enc.blk.*.attn_q"},
    {.ours = "encoder.blocks.*.attention.key", .theirs = "enc.blk.*.attn_k"},
    {.ours = "encoder.blocks.*.attention.value", .theirs = "enc.blk.*.attn_v"},
    {.ours = "encoder.blocks.*.attention.output", .theirs = "enc.blk.*.attn_o"},
    {.ours = "encoder.blocks.*.attention_residual.norm", .theirs = "enc.blk.*.attn_norm"},
    {.ours = "encoder.blocks.*.feed_forward.gate", .theirs = "enc.blk.*.ffn_gate"},
    {.ours = "encoder.blocks.*.feed_forward.up", .theirs = "enc.blk.*.ffn_up"},
    {.ours = "encoder.blocks.*.feed_forward.down", .theirs = "enc.blk.*.ffn_down"},
    {.ours = "encoder.blocks.*.feed_forward_residual.norm", .theirs = "enc.blk.*.ffn_norm"},
    {.ours = "encoder.norm", .theirs = "enc.output_norm"},
    {.ours = "decoder.blocks.*.self_attention.query", .theirs = "dec.blk.*.attn_q"},
    {.ours = "decoder.blocks.*.self_attention.key", .theirs = "dec.blk.*.attn_k"},
    {.ours = "decoder.blocks.*.self_attention.value", .theirs = "dec.blk.*.attn_v"},
    {.ours = "decoder.blocks.*.self_attention.output", .theirs = "dec.blk.*.attn_o"},
    {.ours = "decoder.blocks.*.self_attention_residual.norm", .theirs = "dec.blk.*.attn_norm"},
    {.ours = "decoder.blocks.*.cross_attention.query", .theirs = "dec.blk.*.cross_attn_q"},
    {.ours = "decoder.blocks.*.cross_attention.key", .theirs = "dec.blk.*.cross_attn_k"},
    {.ours = "decoder.blocks.*.cross_attention.value", .theirs = "dec.blk.*.cross_attn_v"},
    {.ours = "decoder.blocks.*.cross_attention.output", .theirs = "dec.blk.*.cross_attn_o"},
    {.ours = "decoder.blocks.*.cross_attention_residual.norm", .theirs = "dec.blk.*.cross_attn_norm"},
    {.ours = "decoder.blocks.*.feed_forward.gate", .theirs = "dec.blk.*.ffn_gate"},
    {.ours = "decoder.blocks.*.feed_forward.up", .theirs = "dec.blk.*.ffn_up"},
    {.ours = "decoder.blocks.*.feed_forward.down", .theirs = "dec.blk.*.ffn_down"},
    {.ours = "decoder.blocks.*.feed_forward_residual.norm", .theirs = "dec.blk.*.ffn_norm"},
    {.ours = "decoder.norm", .theirs = "dec.output_norm"},
    {.ours = "head", .theirs = "output"}};
inline constexpr std::string_view gguf_t5_skipped[] = {"dec.blk.*.cross_attn_rel_b.weight"};  // never used

/// Version 1.0 has no gates. Tied logits are divided by √D, as the model was trained; llama.cpp does not, which
/// changes no order of tokens.
template <template <class> class T5Model, bool gated>
struct GgufT5Family {
  template <Real T>
  using Model = T5Model<T>;
  using Config = typename T5Model<float>::Config;
  static constexpr std::string_view types[] = {"t5"};
  static bool claims(const GgufKeys& keys) { return keys.has_tensor("enc.blk.0.ffn_gate.weight") == gated; }
  static constexpr Naming naming{.prefix = "", .rows = gguf_t5_rows, .skipped = gguf_t5_skipped};

  static Described<Config> read(GgufKeys& keys) {
    const Index width = keys.size("embedding_length"), heads = keys.size("attention.head_count"),
                layers = keys.layers("block_count");
    const bool tied = !keys.has_tensor("output.weight");
    keys.only("attention.relative_buckets_count", {32});
    keys.only("attention.head_count_kv", {heads});
    keys.ignore("attention.layer_norm_epsilon");  // the other one counts
    keys.ignore("context_length");                // relative positions have no end
    auto config = t5_config<Config>(layers, width, keys.size("feed_forward_length"), heads, tied);
    config.decoder_layers = keys.layers("decoder_block_count", layers);
    config.source_vocabulary = config.target_vocabulary = keys.vocabulary;
    config.block.attention.head_width = keys.head_width(width, heads);
    config.block.residual.norm.epsilon = keys.positive("attention.layer_norm_rms_epsilon");
    config.block.dropout = 0;
    config.sharing = tied ? Sharing::all : Sharing::source_and_target;
    PretrainedFacts facts = keys.facts(0);
    if (keys.has("decoder_start_token_id"))
      facts.decoder_start = static_cast<Id>(keys.integer("decoder_start_token_id", 0));
    return {config, facts};
  }
};

inline constexpr NameRow gguf_gemma2_rows[] = {
    {.ours = "embedding", .theirs = "token_embd"},
    {.ours = "decoder.blocks.*.attention_residual.before", .theirs = "blk.*.attn_norm"},
    {.ours = "decoder.blocks.*.attention_residual.after", .theirs = "blk.*.post_attention_norm"},
    {.ours = "decoder.blocks.*.attention.query", .theirs = "blk.*.attn_q"},
    {.ours = "decoder.blocks.*.attention.key", .theirs = "blk.*.attn_k"},
    {.ours = "decoder.blocks.*.attention.value", .theirs = "blk.*.attn_v"},
    {.ours = "decoder.blocks.*.attention.output", .theirs = "blk.*.attn_output"},
    {.ours = "decoder.blocks.*.feed_forward_residual.before", .theirs = "blk.*.ffn_norm"},
    {.ours = "decoder.blocks.*.feed_forward_residual.after", .theirs = "blk.*.post_ffw_norm"},
    {.ours = "decoder.blocks.*.feed_forward.gate", .theirs = "blk.*.ffn_gate"},
    {.ours = "decoder.blocks.*.feed_forward.up", .theirs = "blk.*.ffn_up"},
    {.ours = "decoder.blocks.*.feed_forward.down", .theirs = "blk.*.ffn_down"},
    {.ours = "decoder.norm", .theirs = "output_norm"}};

struct GgufGemma2Family {
  template <Real T>
  using Model = Gemma2<T>;
  static constexpr std::string_view types[] = {"gemma2"};
  static bool claims(const GgufKeys&) { return true; }
  static constexpr Naming naming{.prefix = "", .rows = gguf_gemma2_rows};
  static constexpr bool adds_one = true;  // norms are 1 + ours

  static Described<Gemma2<>::Config> read(GgufKeys& keys) {
    constexpr Index largest_layers = 46;  // of the 27 B, whose scores have a scale of their own
    const Index max_positions = keys.integer("context_length", 1), heads = keys.size("attention.head_count"),
                width = keys.size("embedding_length"), layers = keys.layers("block_count"),
                head_width = keys.head_width(width, heads);
    Gemma2<>::Config config{
        .vocabulary = keys.vocabulary,
        .max_positions = max_positions,
        .layers = layers,
        .block = {.width = width, .hidden = keys.size("feed_forward_length"), .heads = heads, .dropout = 0},
        .position = read_gguf_rope(keys, head_width, max_positions),
        .scaled_embedding = true,
        .logit_cap = keys.positive("final_logit_softcapping", 30)};
    auto& block = config.block;
    block.residual.norm.epsilon = keys.positive("attention.layer_norm_rms_epsilon");
    block.attention.kv_heads = keys.size("attention.head_count_kv", heads);
    block.attention.head_width = head_width;
    block.attention.bias = block.feed_forward.bias = false;
    block.attention.scale = 1 / std::sqrt(static_cast<double>(layers == largest_layers ? width / heads : head_width));
    block.attention.scores.cap = keys.positive("attn_logit_softcapping", 50);
    config.each_layer.assign(static_cast<std::size_t>(layers), block);
    for (std::size_t layer = 0; layer < config.each_layer.size(); layer += 2)
      config.each_layer[layer].attention.window = keys.integer("attention.sliding_window", 1, 4096);
    keys.ignore("attention.sliding_window");
    return {config, keys.facts(max_positions)};
  }
};

inline constexpr NameRow gguf_phi2_rows[] = {
    {.ours = "embedding", .theirs = "token_embd"},
    {.ours = "decoder.blocks.*.norm", .theirs = "blk.*.attn_norm"},
    {.ours = "decoder.blocks.*.attention.query", .theirs = "blk.*.attn_q"},
    {.ours = "decoder.blocks.*.attention.key", .theirs = "blk.*.attn_k"},
    {.ours = "decoder.blocks.*.attention.value", .theirs = "blk.*.attn_v"},
    {.ours = "decoder.blocks.*.attention.output", .theirs = "blk.*.attn_output"},
    {.ours = "decoder.blocks.*.feed_forward.up", .theirs = "blk.*.ffn_up"},
    {.ours = "decoder.blocks.*.feed_forward.down", .theirs = "blk.*.ffn_down"},
    {.ours = "decoder.norm", .theirs = "output_norm"},
    {.ours = "head", .theirs = "output"}};

struct GgufPhi2Family {
  template <Real T>
  using Model = Phi2<T>;
  static constexpr std::string_view types[] = {"phi2"};
  static bool claims(const GgufKeys&) { return true; }
  static constexpr Naming naming{.prefix = "", .rows = gguf_phi2_rows};

  static Described<Phi2<>::Config> read(GgufKeys& keys) {
    const Index max_positions = keys.integer("context_length", 1), heads = keys.size("attention.head_count"),
                width = keys.size("embedding_length");
    return {{.vocabulary = keys.vocabulary,
             .max_positions = max_positions,
             .layers = keys.layers("block_count"),
             .block = {.width = width,
                       .hidden = keys.size("feed_forward_length"),
                       .heads = heads,
                       .dropout = 0,
                       .attention = {.kv_heads = keys.size("attention.head_count_kv", heads)},
                       .norm = {.epsilon = keys.positive("attention.layer_norm_epsilon")}},
             .position = read_gguf_rope(keys, keys.head_width(width, heads), max_positions, /*partial=*/true),
             .tied = false,
             .head_bias = true},
            keys.facts(max_positions)};
  }
};

/// GPT-2's names, but for the norm of the embedding in the place of positions.
inline constexpr auto gguf_bloom_rows = [] {
  std::array<NameRow, std::size(gguf_gpt2_rows)> rows{};
  std::copy(std::begin(gguf_gpt2_rows), std::end(gguf_gpt2_rows), rows.begin());
  rows[1] = {.ours = "embedding_norm", .theirs = "token_embd_norm"};
  return rows;
}();

struct GgufBloomFamily {
  template <Real T>
  using Model = Bloom<T>;
  static constexpr std::string_view types[] = {"bloom"};
  static bool claims(const GgufKeys&) { return true; }
  static constexpr Naming naming{.prefix = "", .rows = gguf_bloom_rows};

  static Described<Bloom<>::Config> read(GgufKeys& keys) {
    const Index width = keys.size("embedding_length"), heads = keys.size("attention.head_count");
    keys.only("attention.head_count_kv", {heads});
    return {{.vocabulary = keys.vocabulary,
             .layers = keys.layers("block_count"),
             .block = {.width = width,
                       .hidden = keys.size("feed_forward_length", 4 * width),
                       .heads = heads,
                       .dropout = 0,
                       .residual = {.norm = {.epsilon = keys.positive("attention.layer_norm_epsilon")}}},
             .tied = !keys.has_tensor("output.weight"),
             .embedding_norm = true},
            keys.facts(keys.integer("context_length", 1))};
  }
};

using GgufFamilies =
    FamilyList<GgufGpt2Family, GgufLlamaFamily<GgufLlamaTraits>, GgufLlamaFamily<GgufQwen3Traits>, GgufGemma2Family,
               GgufPhi2Family, GgufBloomFamily, GgufBertFamily, GgufT5Family<T5, false>, GgufT5Family<T5v11, true>>;

}  // namespace eigenformer::detail
