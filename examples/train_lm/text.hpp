// The text to learn from, as bytes: where its lines begin, and windows of it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "eigenformer/core/error.hpp"
#include "eigenformer/core/random.hpp"
#include "eigenformer/core/tensor.hpp"

namespace train_lm {

using eigenformer::Id;
using eigenformer::Index;

constexpr Id bos = 256, vocabulary = 257;  // a byte is its own id

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(file), {});
  eigenformer::ensure(!file.bad() && file.is_open(), "train_lm", "cannot read ", path.string());
  return text;
}

/// All files of this ending below a folder, in the order of their names.
inline std::string read_files(const std::filesystem::path& folder, const std::string& ending) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.path().extension() == ending) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::string text;
  for (const auto& path : paths) text += read_file(path);
  return text;
}

/// Sequences of N bytes, each from the start of a line that is not indented.
struct Batch {
  eigenformer::Tensor<Id, 2> ids, expected;  // (B, N): bos and all bytes but the last; all bytes
};

class Windows {
 public:
  /// Of a text that outlives this.
  Windows(std::string_view text, Index length) : text_(text), length_(length) {
    const auto last = static_cast<Index>(text.size()) - length;
    for (Index i = 0; i <= last; ++i)
      if (const auto at = static_cast<std::size_t>(i);
          (i == 0 || text[at - 1] == '\n') && text[at] != ' ' && text[at] != '\n')
        begins_.push_back(i);
    eigenformer::ensure(!begins_.empty(), "train_lm", "a text of ", text.size(),
                        " bytes has no line from which a window of ", length, " could begin");
  }

  Index size() const { return static_cast<Index>(begins_.size()); }

  /// The windows of these numbers.
  Batch operator()(const std::vector<Index>& numbers) const {
    const auto count = static_cast<Index>(numbers.size());
    Batch batch{eigenformer::Tensor<Id, 2>(eigenformer::Shape{count, length_}),
                eigenformer::Tensor<Id, 2>(eigenformer::Shape{count, length_})};
    for (Index b = 0; b < count; ++b)
      for (Index n = 0; n < length_; ++n) {
        const Index at = begins_[static_cast<std::size_t>(numbers[static_cast<std::size_t>(b)])] + n;
        batch.expected(b, n) = static_cast<unsigned char>(text_[static_cast<std::size_t>(at)]);
        batch.ids(b, n) = n == 0 ? bos : batch.expected(b, n - 1);
      }
    return batch;
  }
  Batch random(eigenformer::RandomSequence& random, Index count) const {
    std::vector<Index> numbers;
    for (Index b = 0; b < count; ++b) numbers.push_back(random.below(size()));
    return (*this)(numbers);
  }
  /// So many, evenly over the text.
  Batch spread(Index count) const {
    std::vector<Index> numbers;
    for (Index b = 0; b < count; ++b) numbers.push_back(b * size() / count);
    return (*this)(numbers);
  }

 private:
  std::string_view text_;
  Index length_;
  std::vector<Index> begins_;
};

}  // namespace train_lm
