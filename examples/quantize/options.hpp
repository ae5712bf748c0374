// What examples/quantize is asked for.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "eigenformer/core/format.hpp"
#include "eigenformer/core/scalar.hpp"

namespace quantizing {

using eigenformer::Format;
using eigenformer::Index;

/// How weights are kept.
struct Recipe {
  Format format = Format::int8;
  Index group = 0;
  std::optional<Format> head{};  // of the embedding and the head, if they have their own

  std::string name() const {
    const auto said = [](Format of) { return std::string(of == Format::scalar ? "float" : format_name(of)); };
    return said(format) + (group > 0 ? ", groups of " + std::to_string(group) : "") +
           (head ? ", head " + said(*head) : "");
  }
  std::function<std::optional<Format>(const std::string&)> format_of() const {
    return [head = head](const std::string& path) {
      const bool own = path.starts_with("embedding.") || path.starts_with("head.");
      return own ? head : std::optional<Format>();
    };
  }
  friend bool operator==(const Recipe&, const Recipe&) = default;
};

struct Options {
  std::string model, text, output, tokenizer;
  Recipe recipe;
  Index tokens = 8192, window = 512;
  int threads = 0;
};

}  // namespace quantizing
