// Models of transformers (https://github.com/huggingface/transformers): folders with config.json and safetensors.
#pragma once

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "eigenformer/core/open_file.hpp"
#include "eigenformer/io/gguf.hpp"
#include "eigenformer/pretrained/checkpoint_files.hpp"
#include "eigenformer/pretrained/families.hpp"
#include "eigenformer/pretrained/family_list.hpp"
#include "eigenformer/pretrained/gguf.hpp"
#include "eigenformer/pretrained/gguf_families.hpp"
#include "eigenformer/pretrained/llama2c.hpp"
#include "eigenformer/pretrained/packed_file.hpp"
#include "eigenformer/pretrained/pretrained.hpp"
#include "eigenformer/pretrained/saved_folder.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

namespace detail {

template <class Family>
bool is_one_of(ConfigFile& config) {
  return std::find(std::begin(Family::types), std::end(Family::types), config.text("model_type")) !=
             std::end(Family::types) &&
         Family::claims(config);
}

template <class Family, Real T>
Pretrained<typename Family::template Model<T>> load_as(CheckpointFiles& files, ConfigFile& config,
                                                       const PretrainedOptions& options) {
  config.trust(options.ignored_keys);
  const auto described = Family::read(config, files.tensors());
  config.finish();
  // Whether everything is there is found out before there is any memory for it.
  const auto shape = shape_of<Family>(described.config, config.name());
  const std::vector<Source> sources =
      match(slots_of(shape), Family::naming, files.tensors(), files.name(), options.allow_extra);
  require_consistent<T>(files, sources, Family::naming);
  PretrainedFacts facts = described.facts;
  std::map<std::string, std::string> notes;
  note_settings(notes, config);
  if (std::optional<ConfigFile> generation = files.generation()) {
    generation->ignore_all(harmless_keys);
    generation->trust(options.ignored_keys);
    update_facts(facts, *generation);
    note_settings(notes, *generation);
  }
  for (const auto& [key, note] : notes) facts.warnings.push_back(note);
  Pretrained<typename Family::template Model<T>> loaded{typename Family::template Model<T>(described.config),
                                                        std::move(facts)};
  read_model(files, loaded.model, sources, options);
  return loaded;
}

}  // namespace detail

/// Loads a folder as this type of model: Llama<float> for LLaMA, Mistral and Qwen 2, and so on. Weights are read
/// straight into the model, from F32, F16 or BF16. Throws, naming file, key or tensor and reason, if there is anything
/// in config.json that is not understood, or if the tensors are not exactly those of the model; then nothing of their
/// size has been allocated. What it says about generation, and facts do not carry, facts.warnings lists. Dropout is
/// that of residual connections, and acts only in a context with random numbers.
template <class Model>
Pretrained<Model> load_hugging_face(CheckpointFiles& files, const PretrainedOptions& options = {}) {
  detail::ConfigFile config = files.config();
  std::optional<Pretrained<Model>> loaded;
  detail::each_family(detail::families_of<Model, detail::Families, detail::AllFamilies>(),
                      [&]<class Family>(std::type_identity<Family>) {
                        if (!loaded && detail::is_one_of<Family>(config))
                          loaded.emplace(detail::load_as<Family, typename Model::T>(files, config, options));
                      });
  if (!loaded)
    config.refuse("model_type", "is ", detail::in_quotes(config.text("model_type")),
                  ": this checkpoint is of another type of model");
  return std::move(*loaded);
}
template <class Model>
Pretrained<Model> load_hugging_face(const std::filesystem::path& folder, const PretrainedOptions& options = {}) {
  CheckpointFiles files(folder);
  return load_hugging_face<Model>(files, options);
}

/// A checkpoint of any family: its model is a variant, to be visited with std::visit.
template <Real T = float>
using AnyPretrained = Pretrained<decltype(detail::variant_of<T>(detail::AllFamilies{}))>;

/// Loads whatever there is, as config.json's model_type says.
template <Real T = float>
AnyPretrained<T> load_pretrained(CheckpointFiles& files, const PretrainedOptions& options = {}) {
  detail::ConfigFile config = files.config();
  std::optional<AnyPretrained<T>> loaded;
  detail::each_family(detail::Families{}, [&]<class Family>(std::type_identity<Family>) {
    if (loaded || !detail::is_one_of<Family>(config)) return;
    auto one = detail::load_as<Family, T>(files, config, options);
    loaded.emplace(AnyPretrained<T>{std::move(one.model), std::move(one.facts)});
  });
  if (!loaded)
    config.refuse("model_type", "is ", detail::in_quotes(config.text("model_type")), ", but only ",
                  detail::all_types<detail::Families>(), " are supported");
  return std::move(*loaded);
}

/// Of a GGUF file, as its architecture says.
template <Real T = float>
AnyPretrained<T> load_pretrained(Gguf& file, const PretrainedOptions& options = {}) {
  detail::GgufKeys keys(file, options.ignored_keys);
  std::optional<AnyPretrained<T>> loaded;
  const auto keep = [&](auto&& one) { loaded.emplace(AnyPretrained<T>{std::move(one.model), std::move(one.facts)}); };
  if (!detail::load_gguf_of<T>(detail::GgufFamilies{}, file, keys, options, keep))
    fail("pretrained", file.name(), ": key \"general.architecture\" is ", detail::in_quotes(keys.architecture),
         ", but only ", detail::all_types<detail::GgufFamilies>(), " are supported");
  return std::move(*loaded);
}

/// Of a folder, of a packed file, of a GGUF file, or of a llama2.c file.
template <Real T = float>
AnyPretrained<T> load_pretrained(const std::filesystem::path& path, const PretrainedOptions& options = {}) {
  std::error_code ignored;
  ensure(!detail::is_missing(path), "pretrained", path.string(), ": there is no such file or folder");
  if (std::filesystem::is_regular_file(path, ignored)) {
    if (path.extension() == ".gguf") {
      Gguf file(path);
      return load_pretrained<T>(file, options);
    }
    if (path.extension() == ".safetensors") {
      ensure(options.format == Format::scalar && !options.format_of, "pretrained", path.string(),
             ": is packed already, as its weights were when it was saved: it is read without a format");
      return detail::load_any_packed<T>(path);
    }
    ensure(path.extension() == ".bin", "pretrained", path.string(),
           ": is neither a folder nor a packed file (.safetensors) nor a GGUF file (.gguf) nor one of llama2.c (.bin)");
    auto one = load_llama2c<T>(path);
    if (options.format != Format::scalar || options.format_of) {
      Context ctx(options.threads);
      pack(ctx, one.model,
           {.format = options.format, .group = options.group, .keep_values = false, .format_of = options.format_of});
    }
    return {std::move(one.model), std::move(one.facts)};
  }
  CheckpointFiles files(path);
  return load_pretrained<T>(files, options);
}

namespace detail {

/// Saves, or stops before anything is written.
template <class Model>
void save_or_check(const std::filesystem::path& folder, const Model& model, const PretrainedFacts& facts,
                   const PretrainedSaveOptions& options, bool save) {
  using T = typename Model::T;
  const std::filesystem::path weights = folder / "model.safetensors", description = folder / "config.json";
  const auto save_as = [&]<class Family, class... Rest>(FamilyList<Family, Rest...>) {
    const nlohmann::json json = Family::template write<T>(model, facts);
    std::function<std::function<Index(Index)>(const std::string&)> permute;
    if constexpr (requires { Family::template permute<T>(model, std::string()); })
      permute = [&](const std::string& path) { return Family::template permute<T>(model, path); };
    const auto all_slots = slots_of(model);
    StoredParts<T> parts(all_slots, Family::naming, weights.string(), permute);
    for (const std::string_view name : Family::naming.zero)
      parts.add_zeros(std::string(name), Shape{Index{1}, model.embedding.weight.extent(0)});

    // What would be loaded from this must be this model.
    ConfigFile config(json.dump(), description.string());
    const auto described = Family::read(config, parts.list());
    config.finish();
    const auto shape = shape_of<Family>(described.config, config.name());
    const auto shapes = slots_of(shape);
    match(shapes, Family::naming, parts.list(), weights.string(), false);
    ensure(shapes.size() == all_slots.size() && comparable(shape.config) == comparable(model.config), "pretrained",
           description.string(), ": this model has parts or numbers that the format cannot say");
    SavedFolder saved(folder, options, model.embedding.weight.extent(0));
    if (!save) return;

    std::error_code error;
    std::filesystem::create_directories(folder, error);
    ensure(!error, "pretrained", folder.string(), ": cannot be created: ", error.message());
    parts.write(weights);
    replace_text_file("pretrained", description, json.dump(2) + "\n");
    // Not only for its tokens: without it, transformers may force what its class of config has for default.
    replace_text_file("pretrained", folder / "generation_config.json", tokens_of(json).dump(2) + "\n");
    saved.finish();
  };
  if constexpr (!has_family<Model, Families> && has_family<Model, GgufFamilies>)
    fail("pretrained", folder.string(), ": models of ", in_quotes(family_of<Model>()), " cannot be saved as a folder");
  else save_as(families_of<Model, Families>());
}

}  // namespace detail

/// Writes config.json, generation_config.json and model.safetensors so that transformers and load_hugging_face() read
/// this model, with the same bits. The config is what the model's weights and numbers say; where they cannot say how
/// many tokens the model is made for (LLaMA, Marian), facts.max_positions must. A model with parts that the format does
/// not have is an Error, and then nothing is written. The folder is created; each file is replaced in one step.
/// Afterwards the folder describes this model alone: shards of an earlier save are removed, what it said about
/// generation is replaced, and weights of other kinds (pytorch_model.bin, an adapter …) are an Error before anything is
/// written. So is a tokenizer of a model with another vocabulary, unless options.tokenizer says whose to put there.
template <class Model>
void save_hugging_face(const std::filesystem::path& folder, const Model& model, const PretrainedFacts& facts = {},
                       const PretrainedSaveOptions& options = {}) {
  detail::save_or_check(folder, model, facts, options, true);
}

/// Throws what save_hugging_face() would throw before it writes anything: to be called before a long training.
template <class Model>
void check_hugging_face(const std::filesystem::path& folder, const Model& model, const PretrainedFacts& facts = {},
                        const PretrainedSaveOptions& options = {}) {
  detail::save_or_check(folder, model, facts, options, false);
}

}  // namespace eigenformer
