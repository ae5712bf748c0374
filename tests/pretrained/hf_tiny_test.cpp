// Folders as transformers 5.12 writes them, and what it makes of them, computed in float64: logits, hidden states,
// texts. Skipped where they are not there.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "eigenformer/decode/beam.hpp"
#include "eigenformer/decode/generate.hpp"
#include "eigenformer/op/pool.hpp"
#include "eigenformer/pretrained/hugging_face.hpp"
#include "pretrained/tiny_reference.hpp"
#include "support/error.hpp"
#include "support/files.hpp"
#include "support/shared_data.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

struct TinyFolder {
  const char* name;
};
void PrintTo(const TinyFolder& folder, std::ostream* to) { *to << folder.name; }
/// Folders that are refused, and the reason.
struct RefusedFolder {
  const char* name;
  std::string reason;
};
void PrintTo(const RefusedFolder& folder, std::ostream* to) { *to << folder.name; }

const std::vector<TinyFolder> read_folders{{"bart"},
                                           {"bert"},
                                           {"bert_mlm"},
                                           {"bert_pretraining"},
                                           {"bert_qa"},
                                           {"bert_sequence"},
                                           {"bert_token"},
                                           {"gpt2"},
                                           {"llama"},
                                           {"llama_dynamic"},
                                           {"llama_linear"},
                                           {"llama_llama3"},
                                           {"llama_longrope"},
                                           {"llama_longrope_factor"},
                                           {"llama_yarn"},
                                           {"llama_yarn_mscale"},
                                           {"marian"},
                                           {"marian_pad"},
                                           {"mistral"},
                                           {"mt5"},
                                           {"mt5_tied"},
                                           {"qwen2"},
                                           {"qwen2_yarn"},
                                           {"qwen3"},
                                           {"roberta"},
                                           {"roberta_mlm"},
                                           {"roberta_sequence"},
                                           {"sentence_bert"},
                                           {"t5"},
                                           {"t5v11"}};

std::vector<RefusedFolder> refused_folders() {
  std::vector<RefusedFolder> folders{
      {"bart_asymmetric", "key \"decoder_ffn_dim\" is 80, but encoder_ffn_dim is 64"},
      {"gpt2_scales", "key \"scale_attn_by_inverse_layer_idx\" is true, but only false is supported"},
      {"marian_tc", "key \"activation_function\" is \"relu\", but only \"swish\" is supported"},
      {"t5_buckets", "key \"relative_attention_num_buckets\" is 16, but only 32 is supported"}};
  for (const auto& [name, type] : std::map<const char*, const char*>{{"albert", "albert"},
                                                                     {"bloom", "bloom"},
                                                                     {"cohere", "cohere"},
                                                                     {"deberta_v2", "deberta-v2"},
                                                                     {"deepseek_v2", "deepseek_v2"},
                                                                     {"deepseek_v3", "deepseek_v3"},
                                                                     {"distilbert", "distilbert"},
                                                                     {"electra", "electra"},
                                                                     {"falcon", "falcon"},
                                                                     {"falcon_rw", "falcon"},
                                                                     {"gemma", "gemma"},
                                                                     {"gemma2", "gemma2"},
                                                                     {"gemma3", "gemma3_text"},
                                                                     {"gpt_neo", "gpt_neo"},
                                                                     {"gpt_neox", "gpt_neox"},
                                                                     {"gpt_oss", "gpt_oss"},
                                                                     {"gptj", "gptj"},
                                                                     {"granite", "granite"},
                                                                     {"m2m_100", "m2m_100"},
                                                                     {"mbart", "mbart"},
                                                                     {"mixtral", "mixtral"},
                                                                     {"modernbert", "modernbert"},
                                                                     {"mpnet", "mpnet"},
                                                                     {"olmo", "olmo"},
                                                                     {"olmo2", "olmo2"},
                                                                     {"olmo3", "olmo3"},
                                                                     {"opt", "opt"},
                                                                     {"pegasus", "pegasus"},
                                                                     {"phi", "phi"},
                                                                     {"phi3", "phi3"},
                                                                     {"qwen2_moe", "qwen2_moe"},
                                                                     {"qwen3_moe", "qwen3_moe"},
                                                                     {"smollm3", "smollm3"},
                                                                     {"stablelm", "stablelm"},
                                                                     {"starcoder2", "starcoder2"},
                                                                     {"vit", "vit"},
                                                                     {"whisper", "whisper"}})
    folders.push_back({name, "config.json: key \"model_type\" is \"" + std::string(type) + "\", but only gpt2, "});
  return folders;
}

template <class Folder>
class TinyFolderTest : public testing::TestWithParam<Folder> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(folder / "reference.json")) GTEST_SKIP() << "the files are not here";
  }
  std::filesystem::path folder = shared_data() / "hf-tiny" / this->GetParam().name;
};

using Texts = std::vector<std::vector<Id>>;

/// The text with the eos token that it may have had.
std::vector<Id> with_end_of(std::vector<Id> tokens, bool ended, const PretrainedFacts& facts) {
  if (ended) tokens.push_back(facts.eos.at(0));
  return tokens;
}

/// A setting, from its name.
template <class Config>
Config tiny_setting(const std::string& name, const TinyReference& reference, const PretrainedFacts& facts) {
  Config config;
  config.max_tokens = 20;
  config.eos = facts.eos;
  if (reference.json.at("kind") == "seq2seq") config.bos = facts.decoder_start;
  const bool all = name == "greedy_all_rules";
  if (all || name == "greedy_repetition_1.3") config.rules.repetition_penalty = 1.3;
  if (name.find("no_repeat_2") != std::string::npos) config.rules.no_repeat = 2;
  if (all) config.rules.no_repeat = 3;
  if (all || name == "greedy_min_new_12") config.min_tokens = all ? 15 : 12;
  if (const auto forced = reference.config.value("forced_eos_token_id", nlohmann::json()); !forced.is_null())
    config.rules.forced.push_back({config.max_tokens - 1, forced.get<Id>()});
  for (const auto& bad : reference.config.value("bad_words_ids", nlohmann::json::array()))
    config.rules.suppressed.push_back(bad.at(0).get<Id>());
  return config;
}

/// Every stored setting.
void expect_generations(const TinyReference& reference, const PretrainedFacts& facts,
                        const std::function<std::vector<Generated>(const GenerateConfig&)>& greedy,
                        const std::function<std::vector<std::vector<Hypothesis>>(const BeamConfig&)>& search) {
  std::set<std::string> settings;
  for (const auto& [name, texts] : reference.json.at("generated").items()) {
    SCOPED_TRACE(name);
    settings.insert(name);
    Texts got;
    if (name.starts_with("greedy")) {
      for (Generated& each : greedy(tiny_setting<GenerateConfig>(name, reference, facts)))
        got.push_back(with_end_of(std::move(each.tokens), each.ending == Ending::eos, facts));
    } else {
      auto config = tiny_setting<BeamConfig>(name, reference, facts);
      config.penalty = LengthPenalty::power;
      config.alpha = name.starts_with("beam4_lp0.6") ? 0.6 : 1;
      for (auto& each : search(config))
        got.push_back(with_end_of(std::move(each.at(0).tokens), each.at(0).ended, facts));
    }
    EXPECT_EQ(got, texts.get<Texts>());
  }
  EXPECT_EQ(settings.size(), 10u);
}

/// ids (1, N) in ragged pieces: f(piece).
void in_pieces(ConstView<Id, 2> ids, auto&& f) {
  Index first = 0;
  for (Index piece = 1; first < ids.extent(1); first += piece, piece = piece % 4 + 1) {
    piece = (std::min)(piece, ids.extent(1) - first);
    f(NextTokens{{ids.data() + first, static_cast<std::size_t>(piece)}, {&piece, 1}}, first, piece);
  }
}

/// The hidden states of pieces (1, n, D) are rows of the whole (1, N, D), bit by bit.
void expect_rows(ConstView<float, 3> piece, ConstView<float, 3> whole, Index first, Index count) {
  EXPECT_TRUE(identical(piece, whole.slice(1, first, count))) << first;
}

/// Of a model whose frequencies depend on the length: token by token, each of a full pass.
template <class Model>
Texts greedy_without_cache(const Model& model, Texts prompts, const PretrainedFacts& facts) {
  Texts texts;
  for (std::vector<Id>& text : prompts) {
    std::vector<Id>& made = texts.emplace_back();
    while (made.size() < 20 && (made.empty() || made.back() != facts.eos.at(0))) {
      Context ctx;
      const auto logits = model(ctx, {.ids = {text.data(), Shape{Index{1}, static_cast<Index>(text.size())}}});
      const auto last = logits.flat().row(logits.extent(1) - 1);
      made.push_back(static_cast<Id>(std::max_element(last, last + logits.extent(2)) - last));
      text.push_back(made.back());
    }
  }
  return texts;
}

/// Piece by piece, the bits of one pass; then texts.
template <class Model>
void expect_tiny_texts(const Model& model, const PretrainedFacts& facts, TinyReference& reference) {
  if constexpr (!is_decoder<Model> && !is_encoder_decoder<Model>) return;
  Context ctx;
  const auto prompts = reference.json.value("prompts", Texts());
  if constexpr (is_decoder<Model>) {
    const auto ids = reference.ids("long_ids");
    auto state = model.start();
    bool dynamic = false, by_length = false;
    if constexpr (requires { model.position.config->scaling; }) {
      dynamic = std::holds_alternative<DynamicNtkScaling>(model.position.config->scaling);
      by_length = dynamic || std::holds_alternative<LongScaling>(model.position.config->scaling);
    }
    if (by_length) {
      expect_contains(error_of([&] {
                        in_pieces(ids,
                                  [&](const NextTokens& tokens, Index, Index) { model.hidden(ctx, tokens, state); });
                      }),
                      "do not go with keys from a cache");
      Texts want = reference.json.at("generated").at("greedy").get<Texts>(),
            got = greedy_without_cache(model, prompts, facts);
      // Below the length of training, transformers goes on with frequencies of longer texts that it has seen: a text of
      // 13 tokens comes out as of 23 or more.
      if (dynamic) want.erase(want.begin(), want.begin() + 3), got.erase(got.begin(), got.begin() + 3);
      EXPECT_EQ(got, want);
      return;
    }
    const auto hidden = model.hidden(ctx, {.ids = ids});
    in_pieces(ids, [&](const NextTokens& tokens, Index first, Index count) {
      expect_rows(model.hidden(ctx, tokens, state), hidden, first, count);
    });
    expect_generations(
        reference, facts, [&](const GenerateConfig& config) { return generate(ctx, model, prompts, config); },
        [&](const BeamConfig& config) { return beam_search(ctx, model, prompts, config); });
  } else if constexpr (is_encoder_decoder<Model>) {
    const auto source = reference.ids("long_source_ids"), target = reference.ids("long_target_ids");
    const auto hidden = model.decode(ctx, target, model.encode(ctx, source, {}));
    auto state = model.start(ctx, source);
    in_pieces(target, [&](const NextTokens& tokens, Index first, Index count) {
      expect_rows(model.hidden(ctx, tokens, state), hidden, first, count);
    });

    std::size_t longest = 0;
    for (const auto& prompt : prompts) longest = (std::max)(longest, prompt.size());
    Tensor<Id, 2> padded(Shape{static_cast<Index>(prompts.size()), static_cast<Index>(longest)});
    Tensor<Index, 1> counts(Shape{static_cast<Index>(prompts.size())});
    for (Index b = 0; b < counts.size(); ++b) {
      const auto& prompt = prompts[static_cast<std::size_t>(b)];
      std::copy(prompt.begin(), prompt.end(), &padded(b, 0));
      counts(b) = static_cast<Index>(prompt.size());
    }
    EXPECT_EQ(facts.decoder_start, reference.json.at("decoder_start_token_id").get<Id>());
    expect_generations(
        reference, facts, [&](const GenerateConfig& config) { return generate(ctx, model, padded, counts, config); },
        [&](const BeamConfig& config) { return beam_search(ctx, model, padded, counts, config); });
  }
}

/// Saved and loaded, it is the same model with the same facts.
template <class Model>
void expect_tiny_saved(const Model& model, const PretrainedFacts& facts) {
  const TemporaryFolder folder;
  save_hugging_face(folder / "x", model, facts);
  const auto again = load_hugging_face<Model>(folder / "x");
  expect_identical_models(again.model, model);
  EXPECT_EQ(detail::comparable(again.model.config), detail::comparable(model.config));
  EXPECT_EQ(again.facts.bos, facts.bos);
  EXPECT_EQ(again.facts.pad, facts.pad);
  EXPECT_EQ(again.facts.decoder_start, facts.decoder_start);
  EXPECT_EQ(again.facts.eos, facts.eos);
  EXPECT_EQ(again.facts.max_positions, facts.max_positions);
  EXPECT_TRUE(again.facts.warnings.empty());
}

using HfTiny = TinyFolderTest<TinyFolder>;
using HfTinyRefused = TinyFolderTest<RefusedFolder>;

TEST_P(HfTiny, DoublesAreThoseOfTransformers) {
  TinyReference reference(folder);
  std::visit([&](const auto& model) { expect_tiny_values(model, reference); }, load_pretrained<double>(folder).model);
}

TEST_P(HfTiny, FloatsAndTextsAreThoseOfTransformers) {
  TinyReference reference(folder);
  const auto loaded = load_pretrained<float>(folder);
  const PretrainedFacts& facts = loaded.facts;
  std::visit(
      [&](const auto& model) {
        expect_tiny_values(model, reference);
        expect_tiny_texts(model, facts, reference);
        expect_tiny_saved(model, facts);
      },
      loaded.model);
  // What facts do not carry.
  std::vector<std::string> warnings;
  const auto expect_warning = [&](const std::string& text) {
    warnings.push_back((folder / "generation_config.json").string() + ": key " + text);
  };
  if (reference.config.contains("bad_words_ids")) expect_warning("\"bad_words_ids\" is [[95]]");
  if (!reference.config.value("forced_eos_token_id", nlohmann::json()).is_null())
    expect_warning("\"forced_eos_token_id\" is " + reference.config.at("forced_eos_token_id").dump());
  EXPECT_EQ(facts.warnings, warnings);
}
INSTANTIATE_TEST_SUITE_P(Folders, HfTiny, testing::ValuesIn(read_folders),
                         [](const auto& param) { return std::string(param.param.name); });

TEST_P(HfTinyRefused, SaysWhy) {
  expect_contains(error_of([&] { load_pretrained<float>(folder); }), GetParam().reason);
}
INSTANTIATE_TEST_SUITE_P(Folders, HfTinyRefused, testing::ValuesIn(refused_folders()),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(HfTinyFolders, AreAllTested) {
  if (!std::filesystem::exists(shared_data() / "hf-tiny")) GTEST_SKIP() << "the files are not here";
  std::set<std::string> tested, there;
  for (const auto& each : read_folders) tested.insert(each.name);
  for (const auto& each : refused_folders()) tested.insert(each.name);
  for (const auto& entry : std::filesystem::directory_iterator(shared_data() / "hf-tiny"))
    if (entry.is_directory()) there.insert(entry.path().filename().string());
  EXPECT_EQ(there, tested);
}

}  // namespace
}  // namespace eigenformer::test
