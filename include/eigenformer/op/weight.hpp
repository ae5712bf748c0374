// Weight: a matrix (Out, In) that may also keep itself repacked for products.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "eigenformer/core/context.hpp"
#include "eigenformer/core/initialize.hpp"
#include "eigenformer/core/tensor.hpp"
#include "eigenformer/core/threads.hpp"
#include "eigenformer/core/visit.hpp"
#include "eigenformer/kernel/operand.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// A Tensor<T, 2> with a packed copy, made by pack() and dropped by any access that could change an element. A view
/// from before pack() can still change them: products find that out and throw, in debug builds for any element, else by
/// a sample of them, which a step of training or a file that is loaded does not escape. The packed copy may be all that
/// is kept: then products and look-ups work, and any access to an element is an Error.
template <Real T>
class Weight {
 public:
  using Value = T;
  static constexpr int rank = 2;

  Weight() = default;
  explicit Weight(Shape<2> shape) : tensor_(shape), shape_(shape) {}

  explicit operator bool() const { return tensor_ || packed_; }
  bool keeps_values() const { return tensor_ || !packed_; }

  T* data() { return changing().data(); }
  const T* data() const { return kept().data(); }
  const Shape<2>& shape() const { return shape_; }
  Index extent(int axis) const { return shape_[axis]; }
  Index size() const { return shape_.size(); }
  View<T, 2> view() { return changing().view(); }
  ConstView<T, 2> view() const { return kept().view(); }
  operator ConstView<T, 2>() const { return view(); }
  T& operator()(Index out, Index in) { return view()(out, in); }
  const T& operator()(Index out, Index in) const { return view()(out, in); }
  MatrixMap<T> matrix() { return view().matrix(); }
  MatrixMap<const T> matrix() const { return view().matrix(); }

  /// Elements of the packed copy.
  Index packed_size() const { return kernel::Operand<T>::size(extent(1), extent(0)); }

  /// Its transpose (In, Out) as the right operand of products in this context: the packed copy, if pack() made it, and
  /// the values, if they are kept; if not, nothing may be recorded.
  kernel::Operand<T> operand(const Context& ctx) const {
    if (packed_ && tensor_) check_unchanged();
    return kernel::Operand<T>::transposed(keeps_values() || ctx.tape ? view() : ConstView<T, 2>(nullptr, shape_),
                                          packed_.get());
  }

  /// Makes the packed copy at `to`, which has room for it; products then skip that step. Copies of this weight share
  /// it.
  void pack(const Threads& threads, std::shared_ptr<T> to) {
    kernel::pack(threads, kernel::Operand<T>::transposed(std::as_const(*this).view()), to.get());
    packed_ = std::move(to);
    sampled_ = fingerprint(sample());
#ifndef NDEBUG
    whole_ = fingerprint(1);
#else
    whole_.reset();
#endif
  }

  /// Keeps the packed copy alone.
  void give_up_values() {
    ensure(packed_ != nullptr, "weight", shape_, " is not packed");
    give_back_pages(tensor_.data(), static_cast<std::size_t>(size()) * sizeof(T));
    tensor_ = {};
  }

 private:
  const Tensor<T, 2>& kept() const {
    if (!keeps_values()) throw NoValues("weight");
    return tensor_;
  }
  Tensor<T, 2>& changing() {
    kept();
    packed_ = {};
    return tensor_;
  }

  void check_unchanged() const {
    bool same = fingerprint(sample()) == sampled_;
#ifndef NDEBUG
    same = same && (!whole_ || fingerprint(1) == *whole_);
#endif
    ensure(same, "weight", "elements of ", shape(), " were changed through a view from before pack(): pack again");
  }
  Index sample() const { return size() / 16 | 1; }  // odd: other columns in other rows
  /// Of every so many-th element.
  std::uint64_t fingerprint(Index step) const {
    std::uint64_t print = 0;
    for (Index i = 0; i < size(); i += step) {
      std::uint64_t bits = 0;
      std::memcpy(&bits, tensor_.data() + i, sizeof(T));
      print = (print + bits) * 0x9e3779b97f4a7c15u;
    }
    return print;
  }

  Tensor<T, 2> tensor_;
  Shape<2> shape_{};
  std::shared_ptr<const T> packed_;
  std::uint64_t sampled_ = 0;
  std::optional<std::uint64_t> whole_{};
};

struct PackConfig {
  /// false: each weight is replaced by its packed copy, one after the other, so that memory grows by the largest one at
  /// most and is as much as before in the end. The model can then be used and copied; to train, change, load or save it
  /// is an Error.
  bool keep_values = true;
};

/// Packs every matrix of the model for inference, one after the other in one block of memory: a step reads them as one
/// stream. It pays for many rows at a time; few read the values as fast. Changing a weight, by training or loading,
/// undoes it for that weight.
template <class Model>
void pack(Context& ctx, Model& model, const PackConfig& config = {}) {
  const auto each = [&](auto&& f) {
    walk(
        [&](const Leaf&, auto& tensor) {
          if constexpr (requires { tensor.packed_size(); }) {
            using T = typename std::remove_reference_t<decltype(tensor)>::Value;
            if (tensor.keeps_values())
              f(tensor,
                (static_cast<std::size_t>(tensor.packed_size()) * sizeof(T) + alignment - 1) / alignment * alignment);
          }
        },
        model);
  };
  std::size_t bytes = 0, at = 0;
  each([&](const auto&, std::size_t own) { bytes += own; });
  if (bytes == 0) return;
  if (!config.keep_values) require_initialized(model, "pack");
  // Pages that nobody has written to take no memory yet.
  const std::shared_ptr<std::byte> memory(static_cast<std::byte*>(aligned_allocate(bytes)),
                                          [](std::byte* data) { aligned_deallocate(data); });
  each([&](auto& weight, std::size_t own) {
    using T = typename std::remove_reference_t<decltype(weight)>::Value;
    weight.pack(ctx.threads,
                std::shared_ptr<T>(memory, reinterpret_cast<T*>(memory.get() + std::exchange(at, at + own))));
    if (!config.keep_values) weight.give_up_values();
  });
}

}  // namespace eigenformer
