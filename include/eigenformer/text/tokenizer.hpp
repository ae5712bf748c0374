// What a tokenizer is: text to ids and back. Ids that come one at a time become text through a TextStream.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "eigenformer/core/scalar.hpp"
#include "eigenformer/text/utf8.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// Tokenizers do not change once they are made: any number of threads may use one.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// The ids of a text, with the marks that this tokenizer puts around it.
  virtual std::vector<Id> encode(std::string_view text) const = 0;

  /// One more than the largest id.
  virtual Id size() const = 0;

  /// The ids that mark the start (bos) and the end (eos) of a text, if it has them. They stand for no text.
  virtual std::optional<Id> bos() const = 0;
  virtual std::optional<Id> eos() const = 0;

  /// The id of a piece, spelled as in the vocabulary's file.
  virtual std::optional<Id> find(std::string_view piece) const = 0;

  /// Appends the bytes that an id stands for, perhaps a part of a character: none if it has no piece, as in models
  /// whose vocabulary is padded. What comes before matters to some tokenizers, which keep in `state` what they need to
  /// know of it. It is 0 before the first id. Throws nothing but std::bad_alloc.
  virtual void append(Id id, int& state, std::string& bytes) const = 0;

  /// The bytes of one id, after another or as the first.
  std::string piece(Id id, std::optional<Id> previous = {}) const {
    std::string bytes;
    int state = 0;
    if (previous) append(*previous, state, bytes);
    bytes.clear();
    append(id, state, bytes);
    return bytes;
  }

  /// The text of ids. It is always UTF-8: bytes that belong to no character are U+FFFD.
  std::string decode(std::span<const Id> ids) const;

 protected:
  Tokenizer() = default;
  Tokenizer(const Tokenizer&) = default;
  Tokenizer& operator=(const Tokenizer&) = default;
};

/// Ids become text one at a time, each time as much as is certain. An id may end within a character: its bytes are held
/// back until the rest has come, or until it is clear that it never will; then they are U+FFFD. So each part is whole
/// UTF-8 characters, and all of them, with that of flush(), are the text that decode() gives at once.
class TextStream {
 public:
  /// The tokenizer must outlive the stream.
  explicit TextStream(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}
  explicit TextStream(const Tokenizer&&) = delete;

  /// The text that is certain with this id.
  std::string next(Id id) {
    std::string text;
    tokenizer_->append(id, state_, bytes_);
    detail::take_characters(bytes_, text);
    return text;
  }

  /// What was held back: nothing, or U+FFFD. The stream begins anew.
  std::string flush() {
    std::string text(bytes_.empty() ? std::string_view() : detail::replacement_character);  // one beginning at most
    bytes_.clear();
    state_ = 0;
    return text;
  }

 private:
  const Tokenizer* tokenizer_;
  std::string bytes_;  // at most three between calls
  int state_ = 0;
};

inline std::string Tokenizer::decode(std::span<const Id> ids) const {
  TextStream stream(*this);
  std::string text;
  for (const Id id : ids) text += stream.next(id);
  return text += stream.flush();
}

}  // namespace eigenformer
