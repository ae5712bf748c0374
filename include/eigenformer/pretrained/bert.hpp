// Checkpoints of BERT and RoBERTa in the layout of transformers; heads on top of them are not read.
#pragma once

#include <string_view>

#include "eigenformer/model/bert.hpp"
#include "eigenformer/pretrained/pretrained.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::detail {

inline constexpr NameRow bert_rows[] = {
    {.ours = "embedding", .theirs = "embeddings.word_embeddings"},
    {.ours = "position", .theirs = "embeddings.position_embeddings"},
    {.ours = "type_embedding", .theirs = "embeddings.token_type_embeddings"},
    {.ours = "embedding_norm", .theirs = "embeddings.LayerNorm"},
    {.ours = "encoder.blocks.*.attention.query", .theirs = "encoder.layer.*.attention.self.query"},
    {.ours = "encoder.blocks.*.attention.key", .theirs = "encoder.layer.*.attention.self.key"},
    {.ours = "encoder.blocks.*.attention.value", .theirs = "encoder.layer.*.attention.self.value"},
    {.ours = "encoder.blocks.*.attention.output", .theirs = "encoder.layer.*.attention.output.dense"},
    {.ours = "encoder.blocks.*.attention_residual.norm", .theirs = "encoder.layer.*.attention.output.LayerNorm"},
    {.ours = "encoder.blocks.*.feed_forward.up", .theirs = "encoder.layer.*.intermediate.dense"},
    {.ours = "encoder.blocks.*.feed_forward.down", .theirs = "encoder.layer.*.output.dense"},
    {.ours = "encoder.blocks.*.feed_forward_residual.norm", .theirs = "encoder.layer.*.output.LayerNorm"},
    {.ours = "pooler", .theirs = "pooler.dense"}};
inline constexpr std::string_view bert_skipped[] = {"*embeddings.position_ids", "cls.*", "lm_head.*", "classifier.*",
                                                    "qa_outputs.*"};

struct BertTraits {
  template <Real T>
  using Model = Bert<T>;
  using Config = Bert<>::Config;
  static constexpr std::string_view types[] = {"bert"}, architecture = "BertModel", prefix = "bert.";
  static constexpr Index offset = 0;  // rows of the table of positions before the first
};
struct RobertaTraits {
  template <Real T>
  using Model = Roberta<T>;
  using Config = Roberta<>::Config;
  static constexpr std::string_view types[] = {"roberta", "xlm-roberta"}, architecture = "RobertaModel",
                                    prefix = "roberta.";
  static constexpr Index offset = 2;
};

template <class Traits>
struct BertFamily {
  template <Real T>
  using Model = typename Traits::template Model<T>;
  using Config = typename Traits::Config;
  static constexpr auto& types = Traits::types;
  static constexpr Index offset = Traits::offset;
  static bool claims(ConfigFile&) { return true; }
  static constexpr Naming naming{
      .prefix = Traits::prefix, .writes_prefix = false, .rows = bert_rows, .skipped = bert_skipped, .old_norms = true};

  static Described<Config> read(ConfigFile& file, const TensorList& tensors) {
    read_common(file, false, /*causal=*/false);
    file.only("hidden_act", {"gelu"});
    file.only("position_embedding_type", {"absolute"});
    file.ignore("tie_word_embeddings");  // of heads
    for (const char* key : {"directionality", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers",
                            "pooler_size_per_head", "pooler_type"})
      file.ignore(key);  // of the first release, never read
    const Index rows = tensors.size(file, "max_position_embeddings");
    if (rows <= offset)
      file.refuse("max_position_embeddings", "is ", rows, ", but the first ", offset, " rows are no positions");
    const PretrainedFacts facts = read_facts(file, rows - offset);
    if (offset > 0 && facts.pad.value_or(offset - 1) != offset - 1)
      file.refuse("pad_token_id", "is ", *facts.pad, ", but only ", offset - 1,
                  " is supported: positions are counted from it");
    return {{.vocabulary = tensors.size(file, "vocab_size"),
             .max_positions = rows - offset,
             .types = tensors.size(file, "type_vocab_size", 2),
             .layers = tensors.layers(file, "num_hidden_layers"),
             .block = {.width = tensors.size(file, "hidden_size"),
                       .hidden = tensors.size(file, "intermediate_size"),
                       .heads = tensors.size(file, "num_attention_heads"),
                       .dropout = file.probability("hidden_dropout_prob", 0.1),
                       .residual = {.norm = {.epsilon = file.positive("layer_norm_eps", 1e-12)}}},
             .pooler = tensors.any("*pooler.dense.weight") || tensors.any("*pooler.dense.bias")},
            facts};
  }

  template <Real T>
  static nlohmann::json write(const Model<T>& model, const PretrainedFacts& facts) {
    nlohmann::json json = write_common<T>(types[0], Traits::architecture, facts);
    if (offset > 0) {
      ensure(facts.pad.value_or(offset - 1) == offset - 1, "pretrained", "facts.pad is ", *facts.pad,
             ", but in this format it is ", offset - 1);
      json["pad_token_id"] = offset - 1;
    }
    ensure(!model.encoder.blocks.empty(), "pretrained", "a model without layers cannot be saved in this format");
    const auto& config = model.config;
    const auto block = config.stack().layer(0);
    json.update({{"vocab_size", config.vocabulary},
                 {"max_position_embeddings", config.max_positions + offset},
                 {"type_vocab_size", config.types},
                 {"num_hidden_layers", config.layers},
                 {"hidden_size", block.width},
                 {"intermediate_size", block.hidden},
                 {"num_attention_heads", block.heads},
                 {"hidden_act", "gelu"},
                 {"position_embedding_type", "absolute"},
                 {"layer_norm_eps", block.residual.norm.epsilon}});
    for (const char* key : {"hidden_dropout_prob", "attention_probs_dropout_prob"}) json[key] = config.block.dropout;
    return json;
  }
};

}  // namespace eigenformer::detail
