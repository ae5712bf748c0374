// Which of their tensors is which of ours: one plain table of names for each family, and what is done with it:
// matching, reading and writing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "eigenformer/core/error.hpp"
#include "eigenformer/core/visit.hpp"
#include "eigenformer/io/safetensors.hpp"
#include "eigenformer/pretrained/checkpoint_files.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::detail {

/// Where one of our tensors is to be found. Names are those of a module, without ".weight" and ".bias", or of a tensor;
/// '*' is the number of the layer. A name of theirs that begins with '/' stands outside of the prefix.
struct NameRow {
  std::string_view ours, theirs;
  Index part = 0, parts = 1;  ///< ours is one of several of equal size that follow each other along theirs' output
  bool transposed = false;    ///< their matrix is (In, Out)
  bool row = false;           ///< theirs has a leading axis of 1
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

inline std::string replace_star(std::string_view pattern, std::string_view by) {
  std::string text(pattern);
  if (const std::size_t star = text.find('*'); star != std::string::npos) text.replace(star, 1, by);
  return text;
}

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
  std::vector<Slot<T>> all_slots;
  walk(
      [&](const std::string& path, const Leaf&, auto& tensor) {
        std::vector<Index> shape;
        for (int axis = 0; axis < tensor.rank; ++axis) shape.push_back(tensor.extent(axis));
        all_slots.push_back({path, std::move(shape), tensor.data()});
      },
      model);
  return all_slots;
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
    return name.starts_with('/') ? replace_star(name.substr(1), layer)
                                 : concatenate(prefix_, replace_star(name, layer));
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
std::vector<Source> match(const std::vector<Slot<T>>& all_slots, const Naming& naming, const TensorList& list,
                          const std::string& file, bool allow_extra) {
  constexpr Index most_told = 10;
  std::string problems;
  std::map<std::string, Index> counts;
  const auto problem = [&](const std::string& kind, const auto&... parts) {
    if (++counts[kind] <= most_told) problems.append("\n  ").append(concatenate(kind, parts...));
  };
  const Translation translate(naming, !naming.prefix.empty() && list.any(concatenate(naming.prefix, "*")));
  std::vector<Source> sources;
  std::set<std::string> own, used;
  for (const Slot<T>& slot : all_slots) {
    sources.push_back(translate(slot.path));
    if (!sources.back().row) problem("not in this format: ", slot.path, " ", shape_text(slot.shape));
    own.insert(sources.back().tensor);
  }
  for (std::size_t i = 0; i < all_slots.size(); ++i) {
    Source& source = sources[i];
    if (!source.row) continue;
    std::vector<std::string> names{source.tensor};
    for (const std::string& copy : source.copies)
      if (!own.contains(copy)) names.push_back(copy);
    if (naming.old_norms)
      for (const auto& [now, once] :
           {std::pair{".LayerNorm.weight", ".LayerNorm.gamma"}, std::pair{".LayerNorm.bias", ".LayerNorm.beta"}})
        if (source.tensor.ends_with(now))
          names.push_back(source.tensor.substr(0, source.tensor.size() - std::strlen(now)) + once);
    const std::vector<Index> shape = stored_shape(all_slots[i], *source.row);
    std::erase_if(names, [&](const std::string& name) { return !list.find(name); });
    if (names.empty() && !used.contains(source.tensor)) problem("missing: ", source.tensor, " ", shape_text(shape));
    used.insert(source.tensor);  // of a fused tensor, one complaint is enough
    for (const std::string& name : names) {
      const bool first_time = used.insert(name).second || name == source.tensor;
      const StoredTensor& stored = *list.find(name);
      if (!first_time || (name == source.tensor && source.row->part > 0)) continue;
      if (stored.shape != shape)
        problem("shape: ", name, " is ", shape_text(stored.shape), ", not ", shape_text(shape));
      if (!readable<float>(stored.dtype))
        problem("dtype: ", name, " is ", stored.dtype, ", which cannot be read as numbers");
    }
    if (names.empty()) continue;
    source.tensor = names[0];
    source.copies.assign(names.begin() + 1, names.end());
  }
  for (const auto& [name, stored] : list.tensors()) {
    const auto fits = [&, &n = name](std::string_view pattern) { return matches(pattern, n); };
    const bool zero = std::any_of(naming.zero.begin(), naming.zero.end(), fits);
    if (zero && !readable<float>(stored.dtype))
      problem("dtype: ", name, " is ", stored.dtype, ", which cannot be read as numbers");
    if (!allow_extra && !used.contains(name) && !zero &&
        std::none_of(naming.skipped.begin(), naming.skipped.end(), fits))
      problem("extra: ", name, " ", shape_text(stored.shape));
  }
  for (const auto& [kind, count] : counts)
    if (count > most_told) problems.append("\n  ").append(concatenate(kind, "… and ", count - most_told, " more"));
  if (!problems.empty()) fail("pretrained", file, " does not fit the config:", problems);
  return sources;
}

/// Reads every slot from where it was found, each of their tensors once; then compares copies, and what must be zero.
template <class T>
void read_slots(CheckpointFiles& files, const std::vector<Slot<T>>& all_slots, const std::vector<Source>& sources,
                const Naming& naming) {
  std::map<std::string, std::vector<std::size_t>> readers;  // of a fused tensor there are several
  for (std::size_t i = 0; i < all_slots.size(); ++i) readers[sources[i].tensor].push_back(i);
  for (const auto& [tensor, which] : readers) {
    const Slot<T>& only = all_slots[which[0]];
    const NameRow& row = *sources[which[0]].row;
    const bool transposed = row.transposed && only.shape.size() == 2;
    if (row.parts == 1 && !transposed && !row.row) {
      if (only.shape.size() == 1) files.read(tensor, View<T, 1>(only.data, Shape{only.shape[0]}));
      else files.read(tensor, View<T, 2>(only.data, Shape{only.shape[0], only.shape[1]}));
      continue;
    }
    files.read_rows<T>(tensor, transposed ? only.width() : row.parts * only.rows(),
                       [&, &which = which](Index first, ConstView<T, 2> chunk) {
                         for (const std::size_t i : which) {
                           const View<T, 2> to(all_slots[i].data, Shape{all_slots[i].rows(), all_slots[i].width()});
                           const Index begin = sources[i].row->part * to.extent(0);
                           if (transposed) {
                             for (Index o = 0; o < to.extent(0); ++o)
                               for (Index n = 0; n < chunk.extent(0); ++n) to(o, first + n) = chunk(n, begin + o);
                           } else {
                             for (Index n = (std::max)(first, begin);
                                  n < (std::min)(first + chunk.extent(0), begin + to.extent(0)); ++n)
                               std::copy_n(chunk.row(n - first), to.width(), to.row(n - begin));
                           }
                         }
                       });
  }
  for (std::size_t i = 0; i < all_slots.size(); ++i)
    for (const std::string& copy : sources[i].copies)
      files.read_rows<T>(copy, all_slots[i].rows(), [&](Index first, ConstView<T, 2> chunk) {
        ensure(std::memcmp(chunk.data(), all_slots[i].data + first * all_slots[i].width(),
                           static_cast<std::size_t>(chunk.size()) * sizeof(T)) == 0,
               "pretrained", files.name(), ": contradiction: ", sources[i].tensor, " and ", copy,
               " are one tensor, but differ");
      });
  for (const auto& [name, stored] : files.tensors().tensors())
    for (const std::string_view pattern : naming.zero)
      if (matches(pattern, name))
        files.read_rows<T>(name, 1, [&, &n = name](Index, ConstView<T, 2> values) {
          ensure(std::all_of(values.data(), values.data() + values.size(), [](T value) { return value == 0; }),
                 "pretrained", files.name(), ": ", tensor_text(n),
                 " is not all zero, and the model has no such tensor");
        });
}

/// Their tensors, made of ours: views where they are the same, new tensors where they are fused, transposed or
/// permuted.
template <class T>
class StoredParts {
 public:
  /// `permute`, if given, says for a path which of our rows is the i-th of theirs.
  StoredParts(const std::vector<Slot<const T>>& all_slots, const Naming& naming, const std::string& file,
              const std::function<std::function<Index(Index)>(const std::string& path)>& permute) {
    const Translation translate(naming, naming.writes_prefix);
    for (const Slot<const T>& slot : all_slots) {
      const Source source = translate(slot.path);
      ensure(source.row != nullptr, "pretrained", file, ": this format has no tensor for ", slot.path);
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

}  // namespace eigenformer::detail
