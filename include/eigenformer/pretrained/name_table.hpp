// Which of their tensors is which of ours: one plain table of names for each family, and what is done with it:
// matching, reading and writing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "eigenformer/core/error.hpp"
#include "eigenformer/core/visit.hpp"
#include "eigenformer/io/safetensors.hpp"
#include "eigenformer/io/slots.hpp"
#include "eigenformer/pretrained/checkpoint_files.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::detail {

/// Where one of our tensors is to be found. Names are those of a module, without ".weight" and ".bias", or of a tensor;
/// '*' is the number of the layer. A name of theirs that begins with '/' stands outside of the prefix.
struct NameRow {
  std::string_view ours, theirs;
  Storage storage{};
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

template <class Model>
auto slots_of(Model& model) {
  using T = std::conditional_t<std::is_const_v<Model>, const typename Model::T, typename Model::T>;
  std::vector<Slot<T>> all_slots;
  walk([&](const std::string& path, const Leaf&, auto& tensor) { all_slots.push_back(slot_of(path, tensor)); }, model);
  return all_slots;
}

/// Their names for ours, with or without the prefix.
class Translation {
 public:
  Translation(const Naming& naming, bool prefixed) : naming_(naming), prefix_(prefixed ? naming.prefix : "") {}

  /// Where our tensor is; without a name if they have none.
  template <class T>
  Source operator()(const Slot<T>& slot) const {
    const std::string& path = slot.path;
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
      Source source{{full(row.theirs, layer) + leaf}, row.storage};
      source.storage.transposed = row.storage.transposed && slot.shape.size() == 2;
      for (const std::string_view copy : row.copies)
        if (!copy.empty()) source.names.push_back(full(copy, layer) + leaf);
      if (naming_.old_norms) add_old_name(source.names);
      return source;
    }
    return {};
  }
  std::string full(std::string_view name, std::string_view layer = "*") const {
    return name.starts_with('/') ? replace_star(name.substr(1), layer)
                                 : concatenate(prefix_, replace_star(name, layer));
  }

 private:
  static void add_old_name(std::vector<std::string>& names) {
    for (const auto& [now, once] :
         {std::pair{".LayerNorm.weight", ".LayerNorm.gamma"}, std::pair{".LayerNorm.bias", ".LayerNorm.beta"}})
      if (names[0].ends_with(now))
        return names.push_back(names[0].substr(0, names[0].size() - std::strlen(now)) + once);
  }

  const Naming& naming_;
  std::string_view prefix_;
};

/// Says for every slot where it is, or throws one Error with everything that does not fit. `is_readable` says of a
/// file's dtype whether its elements are numbers.
template <class T>
std::vector<Source> match(const std::vector<Slot<T>>& all_slots, const Naming& naming, const TensorList& list,
                          const std::string& file, bool allow_extra,
                          bool (*is_readable)(std::string_view) = readable<float>) {
  Problems problems;
  const Translation translate(naming, !naming.prefix.empty() && list.any(concatenate(naming.prefix, "*")));
  std::vector<Source> sources;
  std::vector<Request> requests;
  for (const Slot<T>& slot : all_slots) {
    const Source& source = sources.emplace_back(translate(slot));
    if (source.names.empty()) problems.add("not in this format: ", slot.path, " ", shape_text(slot.shape));
    requests.push_back({source.names, stored_shape(slot.shape, source.storage), is_readable, "numbers"});
  }
  const auto is_one_of = [](const auto& patterns, const std::string& name) {
    return std::any_of(patterns.begin(), patterns.end(),
                       [&](std::string_view pattern) { return matches(pattern, name); });
  };
  match_names(requests, list.tensors(), problems, [&](const std::string& name) {
    return allow_extra || is_one_of(naming.skipped, name) || is_one_of(naming.zero, name);
  });
  for (const auto& [name, stored] : list.tensors())
    if (is_one_of(naming.zero, name) && !is_readable(stored.dtype))
      problems.add("dtype: ", name, " is ", stored.dtype, ", which cannot be read as numbers");
  problems.report("pretrained", file + " does not fit the config:");
  for (std::size_t i = 0; i < sources.size(); ++i) sources[i].names = std::move(requests[i].names);
  return sources;
}

/// Throws if copies of one tensor differ, or if what must be zero is not.
template <class T>
void require_consistent(CheckpointFiles& files, const std::vector<Source>& sources, const Naming& naming) {
  for (const auto& [names, storage] : sources)
    for (std::size_t i = 1; i < names.size(); ++i)
      ensure(same_values<T>(files, names[0], names[i], count_of(*files.tensors().find(names[0]))), "pretrained",
             files.name(), ": contradiction: ", names[0], " and ", names[i], " are one tensor, but differ");
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
      const auto [names, storage] = translate(slot);
      ensure(!names.empty(), "pretrained", file, ": this format has no tensor for ", slot.path);
      const std::string& name = names[0];
      const std::function<Index(Index)> order = permute ? permute(slot.path) : nullptr;
      const std::vector<Index> shape = stored_shape(slot.shape, storage);
      StoredTensor& stored = tensors_[name];
      stored.shape = shape;
      stored.dtype = dtype_of<T>();
      ConstView<T, 1> values(slot.data, Shape{slot.rows() * slot.width()});
      if (storage.parts > 1 || storage.transposed || order) {
        Tensor<T, 1>& made = made_[name];
        if (!made) made = Tensor<T, 1>(Shape{storage.parts * values.size()});
        const Index begin = storage.part * slot.rows(), width = slot.width();
        for (Index o = 0; o < slot.rows(); ++o)
          for (Index i = 0; i < width; ++i)
            made.data()[storage.transposed ? i * storage.parts * slot.rows() + begin + o : (begin + o) * width + i] =
                slot.data[(order ? order(o) : o) * width + i];
        values = made;
      }
      if (shape.size() == 1) views_.insert_or_assign(name, values.reshape(Shape{Index{1}, shape[0]}));
      else views_.insert_or_assign(name, values.reshape(Shape{shape[0], shape[1]}));
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
