// Models of llama.cpp: one GGUF file with config, weights and, for load_tokenizer(), the tokenizer.
#pragma once

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "eigenformer/io/gguf.hpp"
#include "eigenformer/pretrained/family_list.hpp"
#include "eigenformer/pretrained/gguf_families.hpp"
#include "eigenformer/pretrained/name_table.hpp"
#include "eigenformer/pretrained/pretrained.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

namespace detail {

template <class Family, Real T>
Pretrained<typename Family::template Model<T>> load_gguf_as(Gguf& file, GgufKeys& keys,
                                                            const PretrainedOptions& options) {
  auto described = Family::read(keys);
  keys.finish();
  // Whether everything is there is found out before there is any memory for it.
  const auto shape = shape_of<Family>(described.config, file.name());
  const std::vector<Source> sources =
      match(slots_of(shape), Family::naming, keys.tensors(), file.name(), options.allow_extra, Gguf::readable<float>);
  Pretrained<typename Family::template Model<T>> loaded{typename Family::template Model<T>(described.config),
                                                        std::move(described.facts)};
  const auto all_slots = slots_of(loaded.model);
  read_model(file, loaded.model, sources, options);
  if constexpr (requires { Family::adds_one; })
    for (const auto& slot : all_slots)
      if (slot.shape.size() == 1) std::for_each_n(slot.data, slot.size(), [](T& value) { value -= 1; });
  return loaded;
}

/// f(loaded) with what the file holds, if that is of one of these families.
template <Real T, class List, class F>
bool load_gguf_of(List list, Gguf& file, GgufKeys& keys, const PretrainedOptions& options, F&& f) {
  bool found = false;
  each_family(list, [&]<class Family>(std::type_identity<Family>) {
    const auto& types = Family::types;
    if (found || std::find(std::begin(types), std::end(types), keys.architecture) == std::end(types)) return;
    if (!Family::claims(keys)) return;
    found = true;
    f(load_gguf_as<Family, T>(file, keys, options));
  });
  return found;
}

}  // namespace detail

/// Loads a GGUF file as this type of model: Llama<float> for LLaMA, Mistral and Qwen 2, Qwen3, Gpt2, Gemma2, Phi2,
/// Bloom, Bert (RoBERTa too), T5 and T5v11. Weights of F32, F16, BF16 and the block types that gguf_types decodes
/// become numbers of T. As load_hugging_face() does, it throws if there is a key that is not understood, or a tensor
/// too many or too few.
template <class Model>
Pretrained<Model> load_gguf(Gguf& file, const PretrainedOptions& options = {}) {
  detail::GgufKeys keys(file, options.ignored_keys);
  std::optional<Pretrained<Model>> loaded;
  if (!detail::load_gguf_of<typename Model::T>(detail::families_of<Model, detail::GgufFamilies>(), file, keys, options,
                                               [&](Pretrained<Model>&& one) { loaded.emplace(std::move(one)); }))
    fail("pretrained", file.name(), ": key \"general.architecture\" is ", detail::in_quotes(keys.architecture),
         ": this file holds another type of model");
  return std::move(*loaded);
}
template <class Model>
Pretrained<Model> load_gguf(const std::filesystem::path& path, const PretrainedOptions& options = {}) {
  Gguf file(path);
  return load_gguf<Model>(file, options);
}

}  // namespace eigenformer
