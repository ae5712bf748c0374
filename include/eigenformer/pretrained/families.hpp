// All families of checkpoints.
#pragma once

#include <string_view>
#include <type_traits>

#include "eigenformer/pretrained/bart.hpp"
#include "eigenformer/pretrained/bert.hpp"
#include "eigenformer/pretrained/family_list.hpp"
#include "eigenformer/pretrained/gguf_families.hpp"
#include "eigenformer/pretrained/gpt2.hpp"
#include "eigenformer/pretrained/llama.hpp"
#include "eigenformer/pretrained/t5.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::detail {

/// Those of transformers; the rest follows from this list.
using Families = FamilyList<Gpt2Family, LlamaFamily<LlamaTraits>, LlamaFamily<Qwen3Traits>, BertFamily<BertTraits>,
                            BertFamily<RobertaTraits>, T5Family<T5Traits>, T5Family<T5v11Traits>,
                            BartFamily<BartTraits>, BartFamily<MarianTraits>, MinGptFamily>;

using AllFamilies = decltype(joined(Families{}, GgufFamilies{}));

/// What tells a family's type of model from all others.
template <class Family>
constexpr std::string_view family_name() {
  if constexpr (requires { Family::name; }) return Family::name;
  else return Family::types[0];
}

/// That of the first family with this type of model; empty if there is none.
template <class Model>
std::string_view family_of() {
  std::string_view name;
  each_family(AllFamilies{}, [&]<class Family>(std::type_identity<Family>) {
    if constexpr (std::is_same_v<Model, typename Family::template Model<typename Model::T>>)
      if (name.empty()) name = family_name<Family>();
  });
  return name;
}

}  // namespace eigenformer::detail
