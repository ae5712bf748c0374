// Lists of families of checkpoints: which of them a type of model can be loaded from, and what all of them give.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "eigenformer/core/error.hpp"
#include "eigenformer/core/scalar.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::detail {

template <class... Each>
struct FamilyList {};
template <class... First, class... Second>
FamilyList<First..., Second...> joined(FamilyList<First...>, FamilyList<Second...>);

/// f(std::type_identity<Family>()) for each.
template <class F, class... Each>
void each_family(FamilyList<Each...>, F&& f) {
  (f(std::type_identity<Each>{}), ...);
}

template <class Model, class Kept, class All>
struct FamiliesOf : std::type_identity<Kept> {};
template <class Model, class... Kept, class Family, class... Left>
struct FamiliesOf<Model, FamilyList<Kept...>, FamilyList<Family, Left...>>
    : FamiliesOf<Model,
                 std::conditional_t<std::is_same_v<Model, typename Family::template Model<typename Model::T>>,
                                    FamilyList<Kept..., Family>, FamilyList<Kept...>>,
                 FamilyList<Left...>> {};
template <class Model, class All>
inline constexpr bool has_family = !std::is_same_v<typename FamiliesOf<Model, FamilyList<>, All>::type, FamilyList<>>;
/// Those of `All` that a type of model can be loaded from; it is saved as the first. There may be none if one of
/// `Known` has such models.
template <class Model, class All, class Known = All>
constexpr auto families_of() {
  static_assert(has_family<Model, Known>, "no family of checkpoints has models of this type");
  return typename FamiliesOf<Model, FamilyList<>, All>::type();
}

/// A variant of their models, each once.
template <class Done, class... Models>
struct VariantOf : std::type_identity<Done> {};
template <class... Done, class Model, class... Models>
struct VariantOf<std::variant<Done...>, Model, Models...>
    : VariantOf<
          std::conditional_t<(std::is_same_v<Model, Done> || ...), std::variant<Done...>, std::variant<Done..., Model>>,
          Models...> {};
template <Real T, class... Each>
auto variant_of(FamilyList<Each...>) -> typename VariantOf<std::variant<>, typename Each::template Model<T>...>::type;

/// What a family may be called in the files of one of these.
template <class All>
std::string all_types() {
  std::vector<std::string_view> seen;
  std::string text;
  each_family(All{}, [&]<class Family>(std::type_identity<Family>) {
    for (const std::string_view type : Family::types) {
      if (std::find(seen.begin(), seen.end(), type) != seen.end()) continue;
      seen.push_back(type);
      text.append(text.empty() ? "" : ", ").append(type);
    }
  });
  return text;
}

/// A model without memory, and Errors that name the file.
template <class Family>
typename Family::template Model<NoValue> shape_of(const auto& config, const std::string& file) {
  try {
    return typename Family::template Model<NoValue>(config);
  } catch (const Error& error) {
    fail("pretrained", file, ": does not describe a model: ", error.what());
  }
}

}  // namespace eigenformer::detail
