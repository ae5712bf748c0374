// The files of a checkpoint: config.json, and tensors in model.safetensors or in the shards that model.safetensors.index.json
// lists. Which of their tensors is which of ours, a table says; here they are matched, read and written.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <istream>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "eigenformer/core/error.hpp"
#include "eigenformer/core/visit.hpp"
#include "eigenformer/io/safetensors.hpp"
#include "eigenformer/pretrained/config_file.hpp"

namespace eigenformer {
namespace detail {

/// Where one of our tensors is to be found. Names are those of a module, without ".weight" and ".bias", or of a tensor; '*' is
/// the number of the layer. A name of theirs that begins with '/' stands outside of the prefix.
struct NameRow {
  std::string_view ours, theirs;
  Index part = 0, parts = 1;        ///< ours is one of several of equal size that follow each other along theirs' output
  bool transposed = false;          ///< their matrix is (In, Out)
  bool row = false;                 ///< theirs has a leading axis of 1
  std::string_view copies[3] = {};  ///< further modules under which files may repeat a tied tensor, or have it alone
};

struct Naming {
  std::string_view prefix;  ///< of all their names, or of none in files of the bare model
  bool writes_prefix = true;
  std::span<const NameRow> rows{};
  std::span<const std::string_view> skipped{};  ///< patterns of what may be there and is not read
  std::span<const std::string_view> zero{};     ///< what must be all zero if it is there
  bool old_norms = false;                       ///< norms may say gamma and beta
};

/// Whether text is the pattern, with one '*' for anything.
inline bool matches(std::string_view pattern, std::string_view text) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == text;
  const std::string_view head = pattern.substr(0, star), tail = pattern.substr(star + 1);
  return text.size() >= head.size() + tail.size() && text.starts_with(head) && text.ends_with(tail);
}

inline std::string replace_star(std::string_view pattern, std::string_view by) {
  std::string text(pattern);
  if (const std::size_t star = text.find('*'); star != std::string::npos) text.replace(star, 1, by);
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
    return std::any_of(tensors_.begin(), tensors_.end(), [&](const auto& tensor) { return matches(pattern, tensor.first); });
  }

  /// A config's widths and counts that cannot be larger than some tensor's extent: whatever the config says, no more memory is
  /// asked for than the files are worth.
  Index size(ConfigFile& config, std::string_view key, std::optional<Index> otherwise = {}) const {
    const Index value = config.integer(key, 1, (std::numeric_limits<Id>::max)(), otherwise);
    if (value > largest_) config.refuse(key, "is ", value, ", but no tensor has an extent of more than ", largest_);
    return value;
  }
  /// A number of layers, every one of several tensors.
  Index layers(ConfigFile& config, std::string_view key, std::optional<Index> otherwise = {}) const {
    const Index value = config.integer(key, 0, (std::numeric_limits<Id>::max)(), otherwise), most = static_cast<Index>(tensors_.size());
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
    config_ = read_text(folder / "config.json", 16);
    if (std::filesystem::exists(generation, ignored)) generation_ = detail::ConfigFile(read_text(generation, 16), generation.string());
    if (std::filesystem::exists(whole, ignored)) {
      name_ = whole.string();
      open(whole, nullptr);
    } else if (std::filesystem::exists(index, ignored)) {
      name_ = index.string();
      open_shards(folder, read_text(index, 100));
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

  /// Reads a tensor whose shape is known to fit.
  template <class T, int Rank>
  void read(const std::string& tensor, View<T, Rank> values) {
    shards_[places_.at(tensor)].file.read(tensor, values);
  }

  /// Reads a tensor of reals as `rows` rows, a lot at a time: f(first row, lot (n, width)). This is all the memory it takes.
  template <class T, class F>
  void read_rows(const std::string& tensor, Index rows, F&& f) {
    Shard& shard = shards_[places_.at(tensor)];
    const StoredTensor& stored = *shard.file.find(tensor);
    Index count = 1;
    for (const Index extent : stored.shape) count *= extent;
    if (count == 0) return;
    const Index width = count / rows, lot = (std::min)(rows, (std::max)(Index{16}, Index{16384} / width));
    shard.stream->clear();
    shard.stream->seekg(static_cast<std::streamoff>(shard.data + stored.begin));
    std::vector<T> values(static_cast<std::size_t>(lot * width));
    detail::with_stored_type(stored.dtype, [&](auto element) {
      using S = decltype(element);
      if constexpr (detail::reads_as<T, S>) {
        std::vector<S> raw(values.size());
        for (Index first = 0; first < rows; first += lot) {
          const Index now = (std::min)(lot, rows - first);
          shard.stream->read(reinterpret_cast<char*>(raw.data()),
                             static_cast<std::streamsize>(static_cast<std::size_t>(now * width) * sizeof(S)));
          require(shard.stream->good(), "pretrained", name_, ": was cut off while tensor \"", tensor, "\" was read");
          for (std::size_t i = 0; i < static_cast<std::size_t>(now * width); ++i) detail::convert(raw[i], values[i]);
          f(first, ConstView<T, 2>(values.data(), Shape<2>{now, width}));
        }
      }
    });
  }

 private:
  struct Shard {
    std::istream* stream;  // of the file, which owns it
    Safetensors file;
    std::uint64_t data;  // where the elements begin
  };

  static std::string read_text(const std::filesystem::path& path, Index megabytes) {
    std::error_code error;
    require(std::filesystem::is_regular_file(path, error), "pretrained", path.string(), ": there is no such file");
    std::ifstream file(path, std::ios::binary);
    const std::uintmax_t size = std::filesystem::file_size(path, error);
    require(file.good() && !error, "pretrained", path.string(), ": cannot be read");
    require(size <= static_cast<std::uintmax_t>(megabytes) << 20, "pretrained", path.string(), ": has ", size, " bytes, more than ",
            megabytes, " MB");
    std::string text(static_cast<std::size_t>(size), '\0');
    file.read(text.data(), static_cast<std::streamsize>(size));
    require(file.gcount() == static_cast<std::streamsize>(size), "pretrained", path.string(), ": cannot be read");
    return text;
  }

  void open(const std::filesystem::path& path, const std::set<std::string>* expected) {
    std::error_code ignored;  // a folder could be opened too
    auto file = std::make_unique<std::ifstream>();
    if (std::filesystem::is_regular_file(path, ignored)) file->open(path, std::ios::binary);
    if (!file->is_open()) file->setstate(std::ios::failbit);
    add(std::move(file), path.string(), expected);
  }

  void add(std::unique_ptr<std::istream> stream, const std::string& name, const std::set<std::string>* expected) {
    std::istream* const raw = stream.get();
    Safetensors file(std::move(stream), name);
    std::uint64_t end = 0;
    for (const auto& [tensor, stored] : file.tensors()) {
      end = (std::max)(end, stored.end);
      require(!expected || expected->contains(tensor), "pretrained", name, ": contains ", detail::tensor_text(tensor),
              ", which the index does not place there");
      require(places_.emplace(tensor, shards_.size()).second, "pretrained", name, ": contains ", detail::tensor_text(tensor),
              " for the second time");
    }
    if (expected)
      for (const std::string& tensor : *expected)
        require(file.find(tensor) != nullptr, "pretrained", name, ": does not contain ", detail::tensor_text(tensor),
                ", which the index places there");
    raw->clear();
    raw->seekg(0, std::ios::end);
    shards_.push_back({raw, std::move(file), static_cast<std::uint64_t>(static_cast<std::streamoff>(raw->tellg())) - end});
  }

  void open_shards(const std::filesystem::path& folder, const std::string& text) {
    detail::ConfigFile index(text, name_);
    index.ignore("metadata");
    std::map<std::string, std::set<std::string>> shards;
    {
      detail::ConfigFile map = index.part("weight_map");
      for (const std::string& tensor : map.keys()) {
        const std::string file = map.text(tensor);
        // A name alone: an index must not reach out of its folder.
        if (file.empty() || file.find_first_of("/\\:") != std::string::npos || file == "." || file == "..")
          map.refuse(tensor, "is ", detail::in_quotes(file), ", which is not the name of a file");
        shards[file].insert(tensor);
      }
    }
    index.finish();
    for (const auto& [file, tensors] : shards) open(folder / file, &tensors);
  }

  void list() {
    StoredTensors all;
    for (const Shard& shard : shards_) all.insert(shard.file.tensors().begin(), shard.file.tensors().end());
    list_ = detail::TensorList(std::move(all));
  }

  std::string config_, config_name_, name_;
  std::optional<detail::ConfigFile> generation_;
  std::vector<Shard> shards_;
  std::map<std::string, std::size_t, std::less<>> places_;  // which shard has a tensor
  detail::TensorList list_;
};

namespace detail {

/// One of our tensors: its dotted name, its shape, its elements.
template <class T>
struct Slot {
  std::string path;
  std::vector<Index> shape;  // (N) or (Out, In)
  T* data;

  Index rows() const { return shape[0]; }
  Index width() const { return shape.size() > 1 ? shape[1] : 1; }
};

template <class Model>
auto slots_of(Model& model) {
  using T = std::conditional_t<std::is_const_v<Model>, const typename Model::T, typename Model::T>;
  std::vector<Slot<T>> slots;
  walk(
      [&](const std::string& path, const Leaf&, auto& tensor) {
        std::vector<Index> shape;
        for (int axis = 0; axis < tensor.rank; ++axis) shape.push_back(tensor.extent(axis));
        slots.push_back({path, std::move(shape), tensor.data()});
      },
      model);
  return slots;
}

/// Where one slot's values are.
struct Source {
  std::string tensor;               // their full name
  std::vector<std::string> copies;  // those that must hold the same
  const NameRow* row;
};

/// Their names for ours, with or without the prefix.
class Translation {
 public:
  Translation(const Naming& naming, bool prefixed) : naming_(naming), prefix_(prefixed ? naming.prefix : "") {}

  /// Their name of our tensor; without a row if they have none.
  Source operator()(const std::string& path) const {
    const std::size_t dot = path.rfind('.');
    for (const NameRow& row : naming_.rows) {
      const bool whole = matches(row.ours, path),
                 module = dot != std::string::npos && matches(row.ours, std::string_view(path).substr(0, dot));
      if (!whole && !module) continue;
      const std::size_t star = row.ours.find('*'), tail = whole ? path.size() : dot;
      std::string_view layer;
      if (star != std::string_view::npos) layer = std::string_view(path).substr(star, tail + 1 - row.ours.size());
      if (layer.find('.') != std::string_view::npos) continue;
      const std::string leaf = whole ? "" : path.substr(dot);
      Source source{full(row.theirs, layer) + leaf, {}, &row};
      for (const std::string_view copy : row.copies)
        if (!copy.empty()) source.copies.push_back(full(copy, layer) + leaf);
      return source;
    }
    return {{}, {}, nullptr};
  }
  std::string full(std::string_view name, std::string_view layer = "*") const {
    return name.starts_with('/') ? replace_star(name.substr(1), layer) : concatenate(prefix_, replace_star(name, layer));
  }

 private:
  const Naming& naming_;
  std::string_view prefix_;
};

/// The shape of the tensor that holds the slot.
template <class T>
std::vector<Index> stored_shape(const Slot<T>& slot, const NameRow& row) {
  std::vector<Index> shape = slot.shape;
  shape[0] *= row.parts;
  if (shape.size() == 2 && row.transposed) std::swap(shape[0], shape[1]);
  if (row.row) shape.insert(shape.begin(), 1);
  return shape;
}

/// Says for every slot where it is, or throws one Error with everything that does not fit (ten of each kind).
template <class T>
std::vector<Source> match(const std::vector<Slot<T>>& slots, const Naming& naming, const TensorList& list, const std::string& file,
                          bool allow_extra) {
  constexpr Index most_told = 10;
  std::string problems;
  std::map<std::string, Index> counts;
  const auto problem = [&](const std::string& kind, const auto&... parts) {
    if (++counts[kind] <= most_told) problems.append("\n  ").append(concatenate(kind, parts...));
  };
  const Translation translate(naming, !naming.prefix.empty() && list.any(concatenate(naming.prefix, "*")));
  std::vector<Source> sources;
  std::set<std::string> own, used;
  for (const Slot<T>& slot : slots) {
    sources.push_back(translate(slot.path));
    if (!sources.back().row) problem("not in this format: ", slot.path, " ", shape_text(slot.shape));
    own.insert(sources.back().tensor);
  }
  for (std::size_t i = 0; i < slots.size(); ++i) {
    Source& source = sources[i];
    if (!source.row) continue;
    std::vector<std::string> names{source.tensor};
    for (const std::string& copy : source.copies)
      if (!own.contains(copy)) names.push_back(copy);
    if (naming.old_norms)
      for (const auto& [now, once] : {std::pair{".LayerNorm.weight", ".LayerNorm.gamma"}, std::pair{".LayerNorm.bias", ".LayerNorm.beta"}})
        if (source.tensor.ends_with(now)) names.push_back(source.tensor.substr(0, source.tensor.size() - std::strlen(now)) + once);
    const std::vector<Index> shape = stored_shape(slots[i], *source.row);
    std::erase_if(names, [&](const std::string& name) { return !list.find(name); });
    if (names.empty() && !used.contains(source.tensor)) problem("missing: ", source.tensor, " ", shape_text(shape));
    used.insert(source.tensor);  // of a fused tensor, one complaint is enough
    for (const std::string& name : names) {
      const bool first_time = used.insert(name).second || name == source.tensor;
      const StoredTensor& stored = *list.find(name);
      if (!first_time || (name == source.tensor && source.row->part > 0)) continue;
      if (stored.shape != shape) problem("shape: ", name, " is ", shape_text(stored.shape), ", not ", shape_text(shape));
      if (!readable<float>(stored.dtype)) problem("dtype: ", name, " is ", stored.dtype, ", which cannot be read as numbers");
    }
    if (names.empty()) continue;
    source.tensor = names[0];
    source.copies.assign(names.begin() + 1, names.end());
  }
  for (const auto& [name, stored] : list.tensors()) {
    const auto fits = [&, &n = name](std::string_view pattern) { return matches(pattern, n); };
    const bool zero = std::any_of(naming.zero.begin(), naming.zero.end(), fits);
    if (zero && !readable<float>(stored.dtype)) problem("dtype: ", name, " is ", stored.dtype, ", which cannot be read as numbers");
    if (!allow_extra && !used.contains(name) && !zero && std::none_of(naming.skipped.begin(), naming.skipped.end(), fits))
      problem("extra: ", name, " ", shape_text(stored.shape));
  }
  for (const auto& [kind, count] : counts)
    if (count > most_told) problems.append("\n  ").append(concatenate(kind, "… and ", count - most_told, " more"));
  if (!problems.empty()) fail("pretrained", file, " does not fit the config:", problems);
  return sources;
}

/// Reads every slot from where it was found, each of their tensors once; then compares copies, and what must be zero.
template <class T>
void read_slots(CheckpointFiles& files, const std::vector<Slot<T>>& slots, const std::vector<Source>& sources, const Naming& naming) {
  std::map<std::string, std::vector<std::size_t>> readers;  // of a fused tensor there are several
  for (std::size_t i = 0; i < slots.size(); ++i) readers[sources[i].tensor].push_back(i);
  for (const auto& [tensor, which] : readers) {
    const Slot<T>& only = slots[which[0]];
    const NameRow& row = *sources[which[0]].row;
    const bool transposed = row.transposed && only.shape.size() == 2;
    if (row.parts == 1 && !transposed && !row.row) {
      if (only.shape.size() == 1) files.read(tensor, View<T, 1>(only.data, Shape{only.shape[0]}));
      else files.read(tensor, View<T, 2>(only.data, Shape{only.shape[0], only.shape[1]}));
      continue;
    }
    files.read_rows<T>(tensor, transposed ? only.width() : row.parts * only.rows(), [&, &which = which](Index first, ConstView<T, 2> lot) {
      for (const std::size_t i : which) {
        const View<T, 2> to(slots[i].data, Shape{slots[i].rows(), slots[i].width()});
        const Index begin = sources[i].row->part * to.extent(0);
        if (transposed) {
          for (Index o = 0; o < to.extent(0); ++o)
            for (Index n = 0; n < lot.extent(0); ++n) to(o, first + n) = lot(n, begin + o);
        } else {
          for (Index n = (std::max)(first, begin); n < (std::min)(first + lot.extent(0), begin + to.extent(0)); ++n)
            std::copy_n(lot.row(n - first), to.width(), to.row(n - begin));
        }
      }
    });
  }
  for (std::size_t i = 0; i < slots.size(); ++i)
    for (const std::string& copy : sources[i].copies)
      files.read_rows<T>(copy, slots[i].rows(), [&](Index first, ConstView<T, 2> lot) {
        require(std::memcmp(lot.data(), slots[i].data + first * slots[i].width(), static_cast<std::size_t>(lot.size()) * sizeof(T)) == 0,
                "pretrained", files.name(), ": contradiction: ", sources[i].tensor, " and ", copy, " are one tensor, but differ");
      });
  for (const auto& [name, stored] : files.tensors().tensors())
    for (const std::string_view pattern : naming.zero)
      if (matches(pattern, name))
        files.read_rows<T>(name, 1, [&, &n = name](Index, ConstView<T, 2> values) {
          require(std::all_of(values.data(), values.data() + values.size(), [](T value) { return value == 0; }), "pretrained", files.name(),
                  ": ", tensor_text(n), " is not all zero, and the model has no such tensor");
        });
}

/// Writes to a temporary file beside `path` and renames it.
inline void replace_text(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::path temporary = path;
  std::random_device random;
  temporary += concatenate(".", random(), random(), ".tmp");
  std::ofstream file(temporary, std::ios::binary);
  file << text;
  file.close();
  std::error_code error;
  if (file.good()) std::filesystem::rename(temporary, path, error);
  if (file.good() && !error) return;
  std::error_code ignored;
  std::filesystem::remove(temporary, ignored);
  fail("pretrained", path.string(), ": cannot be written");
}

/// Their tensors, made of ours: views where they are the same, new tensors where they are fused, transposed or permuted.
template <class T>
class StoredParts {
 public:
  /// `permute`, if given, says for a path which of our rows is the i-th of theirs.
  StoredParts(const std::vector<Slot<const T>>& slots, const Naming& naming, const std::string& file,
              const std::function<std::function<Index(Index)>(const std::string& path)>& permute) {
    const Translation translate(naming, naming.writes_prefix);
    for (const Slot<const T>& slot : slots) {
      const Source source = translate(slot.path);
      require(source.row != nullptr, "pretrained", file, ": this format has no tensor for ", slot.path);
      const NameRow& row = *source.row;
      const bool transposed = row.transposed && slot.shape.size() == 2;
      const std::function<Index(Index)> order = permute ? permute(slot.path) : nullptr;
      const std::vector<Index> shape = stored_shape(slot, row);
      StoredTensor& stored = tensors_[source.tensor];
      stored.shape = shape;
      stored.dtype = dtype_of<T>();
      ConstView<T, 1> values(slot.data, Shape{slot.rows() * slot.width()});
      if (row.parts > 1 || transposed || order) {
        Tensor<T, 1>& made = made_[source.tensor];
        if (!made.data()) made = Tensor<T, 1>(Shape{row.parts * values.size()});
        const Index begin = row.part * slot.rows(), width = slot.width();
        for (Index o = 0; o < slot.rows(); ++o)
          for (Index i = 0; i < width; ++i)
            made.data()[transposed ? i * row.parts * slot.rows() + begin + o : (begin + o) * width + i] =
                slot.data[(order ? order(o) : o) * width + i];
        values = made;
      }
      if (shape.size() == 1) views_.insert_or_assign(source.tensor, values.reshape(Shape{Index{1}, shape[0]}));
      else views_.insert_or_assign(source.tensor, values.reshape(Shape{shape[0], shape[1]}));
    }
  }

  /// A tensor of zeros that the format wants.
  void add_zeros(const std::string& name, Shape<2> shape) {
    made_[name] = Tensor<T, 1>(Shape{shape.size()});
    views_.insert_or_assign(name, ConstView<T, 1>(made_[name]).reshape(shape));
    tensors_[name] = {dtype_of<T>(), {shape[0], shape[1]}};
  }

  TensorList list() const { return TensorList(tensors_); }
  void write(const std::filesystem::path& path) const {
    SafetensorsWriter writer;
    writer.metadata = {{"format", "pt"}};  // transformers refuses files without it
    for (const auto& [name, view] : views_) {
      if (tensors_.at(name).shape.size() == 1) writer.add(name, view[0]);
      else writer.add(name, view);
    }
    writer.write(path);
  }

 private:
  StoredTensors tensors_;
  std::map<std::string, ConstView<T, 2>> views_;
  std::map<std::string, Tensor<T, 1>> made_;
};

}  // namespace detail
}  // namespace eigenformer
