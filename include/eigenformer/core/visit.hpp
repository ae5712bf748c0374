// One list of tensors: every struct with weights has
//
//   static void visit(auto&& f, auto&... m) {
//     f(Leaf{"weight", Init::xavier}, m.weight...);   // a tensor
//     f("inner", m.inner...);                         // a struct with visit, or a vector, optional or variant of them
//   }
//
// for one model or several of the same structure in lockstep. walk() turns it into everything that needs names, initial
// values, gradients, files or counts. The gradient of a model is a value of the model's type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "eigenformer/core/error.hpp"
#include "eigenformer/core/tensor.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// Initial values; see initialize().
enum class Init { zeros, ones, half, tiny, xavier, embedding };

/// Whether weight decay applies.
enum class Decay { no, yes };

/// A tensor's name within its struct, how it starts, and whether it decays; and, for counters, what throws if a file
/// says what they cannot be.
struct Leaf {
  std::string_view name;
  Init init = Init::zeros;
  Decay decay = Decay::no;
  void (*validate)(std::span<const std::int64_t> values) = nullptr;
};

/// Thrown by what would read or change a weight whose values pack() gave up; walk() gives its name.
class NoValues : public Error {
 public:
  explicit NoValues(const std::string& name)
      : Error("[" + name + "] its values were given up by pack(): this weight serves inference alone") {}
};

namespace detail {

template <class F>
class Walker {
 public:
  explicit Walker(F& f) : f_(f) {}

  template <class First, class... Rest>
  void operator()(const Leaf& leaf, First& first, Rest&... rest) {
    if (ended_) return;
    within(leaf.name, [&] {
      if (!((first.shape() == rest.shape()) && ...))
        fail(path(), "the models differ in shape: ", first.shape(), " and others");
      if (!((bool(std::as_const(first)) == bool(std::as_const(rest))) && ...))
        fail(path(), "only some of the models have this tensor");
      if (!std::as_const(first)) return;
      const auto call = [&] {
        try {
          if constexpr (std::is_invocable_v<F&, const Leaf&, First&, Rest&...>) return f_(leaf, first, rest...);
          else return f_(path(), leaf, first, rest...);
        } catch (const NoValues&) {
          throw NoValues(path());
        }
      };
      if constexpr (std::is_same_v<decltype(call()), bool>) ended_ = call();
      else call();
    });
  }

  template <class First, class... Rest>
  void operator()(std::string_view name, First& first, Rest&... rest) {
    if (!ended_) within(name, [&] { descend(first, rest...); });
  }

  template <class First, class... Rest>
  void descend(First& first, Rest&... rest) {
    Kind<std::remove_const_t<First>>::descend(*this, first, rest...);
  }

 private:
  template <class Model>
  struct Kind {
    static void descend(Walker& walker, auto&... models) {
      if constexpr (requires { walker.f_.part(walker.path(), Model::kind); })
        if (!Model::kind.empty()) walker.f_.part(walker.path(), Model::kind);
      Model::visit(walker, models...);
    }
  };
  template <class Item>
  struct Kind<std::vector<Item>> {
    static void descend(Walker& walker, auto& first, auto&... rest) {
      if (!((first.size() == rest.size()) && ...)) fail(walker.path(), "the models differ in their number of items");
      for (std::size_t i = 0; i < first.size() && !walker.ended_; ++i) walker(std::to_string(i), first[i], rest[i]...);
    }
  };
  template <class Item>
  struct Kind<std::optional<Item>> {
    static void descend(Walker& walker, auto& first, auto&... rest) {
      if (!((first.has_value() == rest.has_value()) && ...))
        fail(walker.path(), "only some of the models have this part");
      if (first) walker.descend(*first, *rest...);
    }
  };
  template <class... Items>
  struct Kind<std::variant<Items...>> {
    static void descend(Walker& walker, auto& first, auto&... rest) {
      if (!(((first.index)() == (rest.index)()) && ...))
        fail(walker.path(), "the models differ in the kind of this part");
      std::visit(
          [&](auto& item) {
            using Item = std::remove_const_t<std::remove_reference_t<decltype(item)>>;
            walker.descend(item, std::get<Item>(rest)...);
          },
          first);
    }
  };

  /// A name, and what it is part of: the path is written only for those who ask.
  struct Part {
    std::string_view name;
    const Part* outer;
  };

  template <class Inner>
  void within(std::string_view name, Inner&& inner) {
    const Part part{name, innermost_};
    innermost_ = &part;
    inner();
    innermost_ = part.outer;
  }

  std::string path() const {
    std::string text;
    append(text, innermost_);
    return text;
  }
  static void append(std::string& text, const Part* part) {
    if (!part) return;
    append(text, part->outer);
    if (!text.empty()) text += '.';
    text += part->name;
  }

  F& f_;
  const Part* innermost_ = nullptr;
  bool ended_ = false;
};

}  // namespace detail

/// Calls f(path, leaf, tensor, …) for every tensor of the models, which must have the same structure; path is the
/// dotted name, e.g. "encoder.blocks.0.attention.query.weight". Or f(leaf, tensor, …), if that is what f takes. An f
/// that returns bool ends the walk by true. If f.part(path, kind) exists, it is called for parts that have a `kind`:
/// what they compute is not told by their tensors and numbers.
template <class F, class... Models>
void walk(F&& f, Models&... models) {
  detail::Walker<F> walker(f);
  walker.descend(models...);
}

/// Number of weights; a tied tensor counts once. Of a model without memory it may be more than an Index holds.
template <class Model>
std::int64_t parameter_count(const Model& model) {
  std::int64_t count = 0;
  walk([&](const Leaf&, const auto& tensor) { count += tensor.size(); }, model);
  return count;
}

/// Sets every weight to zero.
template <class Model>
void set_zero(Model& model) {
  walk([](const Leaf&, auto& tensor) { std::fill_n(tensor.data(), tensor.size(), 0); }, model);
}

/// A model of the same shape with all weights zero, e.g. to collect a gradient in.
template <class Model>
Model zeros_like(const Model& model) {
  Model zeros = model;
  set_zero(zeros);
  return zeros;
}

}  // namespace eigenformer
