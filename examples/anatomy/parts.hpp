// The parts of a model as a tree, made by walk() from the dotted names of its tensors.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../support/table.hpp"
#include "eigenformer/core/visit.hpp"

namespace anatomy {

using eigenformer::Index;
using eigenformer::Leaf;
using example::grouped;
using example::Table;

/// "a.b.c" → a, b, c
inline std::vector<std::string> split(std::string_view path) {
  std::vector<std::string> names;
  for (std::size_t dot; (dot = path.find('.')) != std::string_view::npos; path.remove_prefix(dot + 1))
    names.emplace_back(path.substr(0, dot));
  names.emplace_back(path);
  return names;
}

/// A tensor (then it has a shape) or what consists of parts; or `copies` of the same that follow each other.
struct Part {
  std::string name{}, shape{};
  Index size = 0;  // of the tensor
  Index copies = 1;
  std::vector<Part> parts{};

  /// Parameters of one copy.
  Index count() const {
    Index sum = size;
    for (const Part& part : parts) sum += part.copies * part.count();
    return sum;
  }

  /// The same but for the name.
  bool compatible(const Part& other) const {
    return shape == other.shape && copies == other.copies &&
           std::equal(parts.begin(), parts.end(), other.parts.begin(), other.parts.end(),
                      [](const Part& a, const Part& b) { return a.name == b.name && a.compatible(b); });
  }

  Part& part(const std::string& called) {
    const auto found = std::find_if(parts.begin(), parts.end(), [&](const Part& part) { return part.name == called; });
    return found != parts.end() ? *found : parts.emplace_back(Part{called});
  }

  const Part* find(std::string_view called) const {
    for (const Part& part : parts)
      if (part.name == called) return &part;
    return nullptr;
  }
};

/// Numbered parts that are alike become one, "0…31"; what has but one part is joined with it, "blocks.0…31".
inline void fold(Part& whole) {
  std::vector<Part> folded;
  std::string first;  // name of the first copy
  for (Part& part : whole.parts) {
    fold(part);
    const bool numbered = part.name.find_first_not_of("0123456789") == std::string::npos;
    if (numbered && !folded.empty() &&
        folded.back().compatible(Part{.shape = part.shape, .copies = folded.back().copies, .parts = part.parts})) {
      ++folded.back().copies;
      folded.back().name = first + "…" + part.name;
    } else {
      first = part.name;
      folded.push_back(std::move(part));
    }
  }
  whole.parts = std::move(folded);
  if (whole.name.empty() || whole.parts.size() != 1) return;
  Part only = std::move(whole.parts.front());
  only.name = whole.name + "." + only.name;
  whole = std::move(only);
}

template <class Model>
Part tree(const Model& model) {
  Part root;
  eigenformer::walk(
      [&](const std::string& path, const Leaf&, const auto& tensor) {
        Part* part = &root;
        for (const std::string& name : split(path)) part = &part->part(name);
        part->shape = to_string(tensor.shape());
        part->size = tensor.size();
      },
      model);
  fold(root);
  return root;
}

/// One line for every part: its shape, its parameters, and those of all its copies. Tensors that belong together share
/// one.
inline void list(Table& table, const Part& part, Index copies = 1, std::size_t depth = 0) {
  copies *= part.copies;
  std::string name = std::string(2 * depth, ' ') + part.name, shape = part.shape;
  if (part.copies > 1) name += " (×" + std::to_string(part.copies) + ")";
  const bool leaf = !part.parts.empty() && std::all_of(part.parts.begin(), part.parts.end(), [](const Part& inner) {
    return inner.parts.empty() && inner.name.find('.') == std::string::npos;
  });
  if (leaf) {
    for (const Part& inner : part.parts)
      name += (shape.empty() ? ".{" : ", ") + inner.name, shape += (shape.empty() ? "" : ", ") + inner.shape;
    name += "}";
  }
  table.row({name, shape, grouped(part.count()), copies > 1 ? grouped(copies * part.count()) : ""});
  if (leaf) return;
  for (const Part& inner : part.parts) list(table, inner, copies, depth + 1);
}

}  // namespace anatomy
