// The tensors of a model and those of a file: matched by names and shapes, with all that does not fit in one Error, and
// then streamed from the file into place. For our own checkpoints and for those of others.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "eigenformer/core/error.hpp"
#include "eigenformer/core/tensor.hpp"
#include "eigenformer/core/view.hpp"
#include "eigenformer/io/safetensors.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::detail {

/// One of our tensors: its dotted name, its shape, its elements.
template <class T>
struct Slot {
  std::string path;
  std::vector<Index> shape;  // (N), (Out, In), …
  T* data;

  Index rows() const { return shape[0]; }
  Index width() const {
    Index width = 1;
    for (std::size_t axis = 1; axis < shape.size(); ++axis) width *= shape[axis];
    return width;
  }
  Index size() const { return rows() * width(); }
};

auto slot_of(const std::string& path, auto& tensor) {
  const auto view = tensor.view();
  const auto& shape = view.shape();
  return Slot<typename decltype(view)::Element>{path, {shape.extents, shape.extents + view.rank}, tensor.data()};
}

/// How a tensor of theirs holds one of ours.
struct Storage {
  Index part = 0, parts = 1;  ///< ours is one of several of equal size that follow each other along theirs' output
  bool transposed = false;    ///< their matrix is (In, Out)
  bool row = false;           ///< theirs has a leading axis of 1
};

/// Where the values of one slot are.
struct Source {
  std::vector<std::string> names{};  ///< of their tensors, the proper one first; those in the file hold the same
  Storage storage{};
};

/// The shape of the tensor that holds the slot.
inline std::vector<Index> stored_shape(std::vector<Index> shape, const Storage& storage) {
  shape[0] *= storage.parts;
  if (storage.transposed) std::swap(shape[0], shape[1]);
  if (storage.row) shape.insert(shape.begin(), 1);
  return shape;
}

/// What does not fit; ten of each kind are told.
class Problems {
 public:
  template <class... Parts>
  void add(const std::string& kind, const Parts&... parts) {
    if (++counts_[kind] <= most_told) text_.append("\n  ").append(concatenate(kind, parts...));
  }
  /// Throws if there are any.
  void report(std::string_view place, const std::string& sentence) {
    for (const auto& [kind, count] : counts_)
      if (count > most_told) text_.append("\n  ").append(concatenate(kind, "… and ", count - most_told, " more"));
    if (!text_.empty()) fail(place, sentence, text_);
  }

 private:
  static constexpr Index most_told = 10;

  std::string text_;
  std::map<std::string, Index> counts_;
};

/// What is wanted of a file for one slot.
struct Request {
  std::vector<std::string> names;            // as Source's
  std::vector<Index> shape;                  // of their tensor
  bool (*readable)(std::string_view dtype);  // as the slot's elements,
  std::string_view as;                       // which are these
};

/// Leaves of every request's names those that the file has. The proper name of one request is no other name of
/// another. `known(name)` says what may be there besides.
template <class Known>
void match_names(std::vector<Request>& requests, const StoredTensors& stored, Problems& problems, Known&& known) {
  std::set<std::string> proper, used;
  for (const Request& request : requests)
    if (!request.names.empty()) proper.insert(request.names[0]);
  for (auto& [names, shape, readable, as] : requests) {
    if (names.empty()) continue;
    const std::string own = names[0];
    std::erase_if(names, [&](const std::string& name) {
      return !stored.contains(name) || (name != own && proper.contains(name));
    });
    const bool first = used.insert(own).second;  // of a fused tensor, one complaint is enough
    if (names.empty() && first) problems.add("missing: ", own, " ", shape_text(shape));
    for (const std::string& name : names) {
      used.insert(name);
      if (name == own && !first) continue;
      const StoredTensor& found = stored.find(name)->second;
      const bool fits = found.shape == shape || (found.shape.empty() && shape == std::vector<Index>{1});
      if (!fits) problems.add("shape: ", name, " is ", shape_text(found.shape), ", not ", shape_text(shape));
      if (!readable(found.dtype)) problems.add("dtype: ", name, " is ", found.dtype, ", which cannot be read as ", as);
    }
  }
  for (const auto& [name, found] : stored)
    if (!used.contains(name) && !known(name)) problems.add("extra: ", name, " ", shape_text(found.shape));
}

/// Whether two tensors of `count` elements are read as the same values of T, bit by bit.
template <class T, class File>
bool same_values(File& file, const std::string& name, const std::string& other, Index count) {
  const Index chunk = (std::min)(Index{16384}, count);
  Tensor<T, 1> values(Shape{chunk}), others(Shape{chunk});
  for (Index first = 0; first < count; first += chunk) {
    const Index now = (std::min)(chunk, count - first);
    file.read_part(name, first, values.view().slice(0, 0, now));
    file.read_part(other, first, others.view().slice(0, 0, now));
    if (std::memcmp(values.data(), others.data(), static_cast<std::size_t>(now) * sizeof(T)) != 0) return false;
  }
  return true;
}

/// Reads every slot from where it was found: straight into place, or a chunk at a time if it is transposed. A fused
/// tensor is read once. done(slot) when one is complete.
template <class T, class File, class Done>
void read_slots(File& file, const std::vector<Slot<T>>& all_slots, const std::vector<Source>& sources, Done&& done) {
  std::map<std::string, std::vector<std::size_t>> transposed;
  for (std::size_t i = 0; i < all_slots.size(); ++i) {
    const auto& [names, storage] = sources[i];
    if (storage.transposed) {
      transposed[names[0]].push_back(i);
      continue;
    }
    file.read_part(names[0], storage.part * all_slots[i].size(),
                   View<T, 1>(all_slots[i].data, Shape{all_slots[i].size()}));
    done(all_slots[i]);
  }
  for (const auto& [name, which] : transposed) {
    file.template read_rows<T>(
        name, all_slots[which[0]].width(), [&, &readers = which](Index first, ConstView<T, 2> rows) {
          for (const std::size_t i : readers) {
            const View<T, 2> to(all_slots[i].data, Shape{all_slots[i].rows(), all_slots[i].width()});
            const Index begin = sources[i].storage.part * to.extent(0);
            for (Index o = 0; o < to.extent(0); ++o)
              for (Index n = 0; n < rows.extent(0); ++n) to(o, first + n) = rows(n, begin + o);
          }
        });
    for (const std::size_t i : which) done(all_slots[i]);
  }
}
template <class T, class File>
void read_slots(File& file, const std::vector<Slot<T>>& all_slots, const std::vector<Source>& sources) {
  read_slots(file, all_slots, sources, [](const Slot<T>&) {});
}

}  // namespace eigenformer::detail
