// The files of a checkpoint: config.json, and tensors in model.safetensors or in the shards that
// model.safetensors.index.json lists.
#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <istream>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "eigenformer/core/error.hpp"
#include "eigenformer/core/open_file.hpp"
#include "eigenformer/io/safetensors.hpp"
#include "eigenformer/pretrained/config_file.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {
namespace detail {

/// Whether text is the pattern, with one '*' for anything.
inline bool matches(std::string_view pattern, std::string_view text) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == text;
  const std::string_view head = pattern.substr(0, star), tail = pattern.substr(star + 1);
  return text.size() >= head.size() + tail.size() && text.starts_with(head) && text.ends_with(tail);
}

/// A whole file of at most so many megabytes.
inline std::string read_text(const std::filesystem::path& path, Index megabytes) {
  std::ifstream file = open_file("pretrained", path);
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  ensure(!error, "pretrained", path.string(), ": cannot be read: ", error.message());
  ensure(size <= static_cast<std::uintmax_t>(megabytes) << 20, "pretrained", path.string(), ": has ", size,
         " bytes, more than ", megabytes, " MB");
  std::string text(static_cast<std::size_t>(size), '\0');
  file.read(text.data(), static_cast<std::streamsize>(size));
  ensure(file.gcount() == static_cast<std::streamsize>(size), "pretrained", path.string(), ": cannot be read");
  return text;
}

/// What the files say about tensors, before any is read.
class TensorList {
 public:
  TensorList() = default;
  explicit TensorList(StoredTensors tensors) : tensors_(std::move(tensors)) {
    for (const auto& [name, stored] : tensors_)
      for (const Index extent : stored.shape) largest_ = (std::max)(largest_, extent);
  }

  const StoredTensors& tensors() const { return tensors_; }
  const StoredTensor* find(std::string_view name) const {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : &found->second;
  }
  bool any(std::string_view pattern) const {
    return std::any_of(tensors_.begin(), tensors_.end(),
                       [&](const auto& tensor) { return matches(pattern, tensor.first); });
  }

  /// A config's widths and counts that cannot be larger than some tensor's extent: whatever the config says, no more
  /// memory is asked for than the files are worth.
  Index size(ConfigFile& config, std::string_view key, std::optional<Index> otherwise = {}) const {
    const Index value = config.integer(key, 1, (std::numeric_limits<Id>::max)(), otherwise);
    if (value > largest_) config.refuse(key, "is ", value, ", but no tensor has an extent of more than ", largest_);
    return value;
  }
  /// A number of layers, every one of several tensors.
  Index layers(ConfigFile& config, std::string_view key, std::optional<Index> otherwise = {}) const {
    const Index value = config.integer(key, 0, (std::numeric_limits<Id>::max)(), otherwise),
                most = static_cast<Index>(tensors_.size());
    if (value > most / 4) config.refuse(key, "is ", value, ", but there are only ", most, " tensors");
    return value;
  }

 private:
  StoredTensors tensors_;
  Index largest_ = 0;
};

}  // namespace detail

/// An open checkpoint. Use from one thread at a time.
class CheckpointFiles {
 public:
  /// Of a folder; throws if a file is missing or malformed, or if the index and the shards contradict each other.
  explicit CheckpointFiles(const std::filesystem::path& folder) : config_name_((folder / "config.json").string()) {
    const std::filesystem::path whole = folder / "model.safetensors", index = folder / "model.safetensors.index.json";
    const std::filesystem::path generation = folder / "generation_config.json";
    std::error_code ignored;
    ensure(std::filesystem::is_directory(folder, ignored), "pretrained", folder.string(),
           ": is not a folder (load_pretrained reads GGUF and llama2.c files, too)");
    config_ = detail::read_text(folder / "config.json", 16);
    if (std::filesystem::exists(generation, ignored))
      generation_ = detail::ConfigFile(detail::read_text(generation, 16), generation.string());
    if (std::filesystem::exists(whole, ignored)) {
      name_ = whole.string();
      open(whole, nullptr);
    } else if (std::filesystem::exists(index, ignored)) {
      name_ = index.string();
      open_shards(folder, detail::read_text(index, 100));
    } else {
      fail("pretrained", folder.string(), ": has neither model.safetensors nor model.safetensors.index.json");
    }
    list();
  }

  /// The same from memory: the text of a config, and a stream of safetensors that can seek.
  CheckpointFiles(std::string config, std::unique_ptr<std::istream> tensors, const std::string& name = "memory")
      : config_(std::move(config)), config_name_(name + "/config.json"), name_(name + "/model.safetensors") {
    add(std::move(tensors), name_, nullptr);
    list();
  }

  const std::string& name() const { return name_; }
  detail::ConfigFile config() const { return {config_, config_name_}; }
  /// generation_config.json, if there is one.
  const std::optional<detail::ConfigFile>& generation() const { return generation_; }
  const detail::TensorList& tensors() const { return list_; }

  /// Reads as many elements of a tensor, row after row, from number `first` on.
  template <class T>
  void read_part(const std::string& tensor, Index first, View<T, 1> values) {
    shards_[places_.at(tensor)].read_part(tensor, first, values);
  }

  /// Reads a tensor of reals as `rows` rows, a chunk at a time: f(first row, chunk (n, width)). This is all the memory
  /// it takes.
  template <class T, class F>
  void read_rows(const std::string& tensor, Index rows, F&& f) {
    shards_[places_.at(tensor)].template read_rows<T>(tensor, rows, f);
  }

 private:
  void open(const std::filesystem::path& path, const std::set<std::string>* expected) {
    add(std::make_unique<std::ifstream>(open_file("safetensors", path)), path.string(), expected);
  }

  void add(std::unique_ptr<std::istream> stream, const std::string& name, const std::set<std::string>* expected) {
    Safetensors file(std::move(stream), name);
    for (const auto& [tensor, stored] : file.tensors()) {
      ensure(!expected || expected->contains(tensor), "pretrained", name, ": contains ", detail::tensor_text(tensor),
             ", which the index does not place there");
      ensure(places_.emplace(tensor, shards_.size()).second, "pretrained", name, ": contains ",
             detail::tensor_text(tensor), " for the second time");
    }
    if (expected)
      for (const std::string& tensor : *expected)
        ensure(file.find(tensor) != nullptr, "pretrained", name, ": does not contain ", detail::tensor_text(tensor),
               ", which the index places there");
    shards_.push_back(std::move(file));
  }

  void open_shards(const std::filesystem::path& folder, const std::string& text) {
    detail::ConfigFile shard_index(text, name_);
    shard_index.ignore("metadata");
    std::map<std::string, std::set<std::string>> shards;
    {
      detail::ConfigFile map = shard_index.part("weight_map");
      for (const std::string& tensor : map.keys()) {
        const std::string file = map.text(tensor);
        // A name alone: an index must not reach out of its folder.
        if (file.empty() || file.find_first_of("/\\:") != std::string::npos || file == "." || file == "..")
          map.refuse(tensor, "is ", detail::in_quotes(file), ", which is not the name of a file");
        shards[file].insert(tensor);
      }
    }
    shard_index.finish();
    for (const auto& [file, tensors] : shards) open(folder / file, &tensors);
  }

  void list() {
    StoredTensors all;
    for (const Safetensors& shard : shards_) all.insert(shard.tensors().begin(), shard.tensors().end());
    list_ = detail::TensorList(std::move(all));
  }

  std::string config_, config_name_, name_;
  std::optional<detail::ConfigFile> generation_;
  std::vector<Safetensors> shards_;
  std::map<std::string, std::size_t, std::less<>> places_;  // which shard has a tensor
  detail::TensorList list_;
};

}  // namespace eigenformer
