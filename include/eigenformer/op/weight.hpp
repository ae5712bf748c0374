// Weight: a matrix (Out, In) that may also keep itself repacked for products.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "eigenformer/core/context.hpp"
#include "eigenformer/core/initialize.hpp"
#include "eigenformer/core/tensor.hpp"
#include "eigenformer/core/threads.hpp"
#include "eigenformer/core/visit.hpp"
#include "eigenformer/kernel/operand.hpp"
#include "eigenformer/kernel/word_product.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// A Tensor<T, 2> with a packed copy in some format, made by pack() and dropped by any access that could change an
/// element. A view from before pack() can still change them: products find that out and throw, in debug builds for any
/// element, else by a sample of them, which a step of training or a file that is loaded does not escape. The packed
/// copy may be all that is kept: then products, their derivatives by what is multiplied, and look-ups work, and any
/// access to an element is an Error.
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

  /// Of the packed copy, if there is one.
  Format format() const { return layout_.words ? layout_.format : Format::scalar; }
  /// Of memory: of the values, and of the packed copy, which copies of this weight share.
  std::int64_t bytes() const {
    const std::int64_t values = tensor_ ? std::int64_t{size()} * static_cast<std::int64_t>(sizeof(T)) : 0;
    return values + (packed_ ? static_cast<std::int64_t>(packed_bytes(layout_)) : 0);
  }

  /// How a copy in this format would lie, whatever the values.
  kernel::PackedWords layout(Format format, Index group) const {
    return {.format = format, .depth = extent(1), .width = extent(0), .group = group};
  }
  /// Fits the layout to the values. Error if its format cannot hold them.
  void fit([[maybe_unused]] kernel::PackedWords& words) const {
    if (words.format == Format::scalar) return;
    if constexpr (!std::is_same_v<T, float>) {
      fail("weight", "only weights of float have other formats");
    } else {
      float largest = 0;
      for (Index n = 0; n < extent(0); ++n) {
        const float of_row = kernel::detail::largest_magnitude(tensor_.data() + n * extent(1), extent(1));
        ensure(std::isfinite(of_row), "weight", "row ", n, " of ", shape_,
               " has elements that are no numbers: there is no ", format_name(words.format), " of it");
        largest = (std::max)(largest, of_row);
      }
      ensure(words.format != Format::f16 || largest < 65520, "weight", shape_, " has an element of magnitude ", largest,
             ", more than f16 can hold");
      if (words.is_whole()) words.unit = kernel::scale_unit(largest, words.format);
    }
  }
  /// Of a packed copy that lies so.
  std::size_t packed_bytes(const kernel::PackedWords& words) const {
    return words.format == Format::scalar
               ? static_cast<std::size_t>(kernel::Operand<T>::size(extent(1), extent(0))) * sizeof(T)
               : words.bytes();
  }

  /// Its transpose (In, Out) as the right operand of products: the packed copy, if pack() made it, and
  /// the values, if they are kept.
  kernel::Operand<T> operand() const {
    if (packed_ && tensor_) check_unchanged();
    const ConstView<T, 2> values = keeps_values() ? view() : ConstView<T, 2>(nullptr, shape_);
    if (!layout_.words) return kernel::Operand<T>::transposed(values, reinterpret_cast<const T*>(packed_.get()));
    kernel::Operand<T> operand = kernel::Operand<T>::transposed(values);
    operand.words = layout_;
    return operand;
  }

  /// Makes the packed copy at `to`, which has room for it; products then skip that step. `importance` (In), or null,
  /// says how much errors of int4 count. Copies of this weight share it.
  void pack(const Threads& threads, const kernel::PackedWords& layout, std::shared_ptr<std::byte> to,
            const float* importance = nullptr) {
    const ConstView<T, 2> values = std::as_const(*this).view();
    if (layout.format == Format::scalar)
      kernel::pack(threads, kernel::Operand<T>::transposed(values), reinterpret_cast<T*>(to.get()));
    if constexpr (std::is_same_v<T, float>)
      if (layout.format != Format::scalar) kernel::quantize(threads, values, layout, importance, to.get());
    layout_ = layout.format == Format::scalar ? layout : layout.at(to.get());
    if constexpr (std::is_same_v<T, float>) layout_.multiply = kernel::multiply_words;
    packed_ = std::move(to);
    sampled_ = fingerprint(sample());
#ifndef NDEBUG
    whole_ = fingerprint(1);
#else
    whole_.reset();
#endif
  }

  /// Takes a packed copy in a format from where it lies, which `owner` keeps, and has no values from then on.
  void adopt(const kernel::PackedWords& words, const std::shared_ptr<const void>& owner) {
    tensor_ = {};
    layout_ = words;
    layout_.multiply = kernel::multiply_words;
    packed_ = {owner, reinterpret_cast<const std::byte*>(words.words)};
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
    layout_ = {};
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
  std::shared_ptr<const std::byte> packed_;
  kernel::PackedWords layout_{};  // of the packed copy; no words if it is of T
  std::uint64_t sampled_ = 0;
  std::optional<std::uint64_t> whole_{};
};

struct PackConfig {
  /// Of every matrix, unless format_of() says otherwise; norms and biases stay as they are.
  Format format = Format::scalar;
  /// Inputs that share a scale: 32, 64 or 128; in int8 0, too: all inputs of an output. In int4 0 means 32.
  Index group = 0;
  /// false: each weight is replaced by its packed copy, one after the other, so that memory grows by the largest one at
  /// most. The model can then be used and copied, and gradients go through it to what is before it; to change, load or
  /// save it is an Error.
  bool keep_values = true;
  /// The format of a weight by its dotted path, or nothing for `format`.
  std::function<std::optional<Format>(const std::string& path)> format_of{};
  /// How much an error of each input counts, (In) numbers, or none: all alike. For int4.
  std::function<std::span<const float>(const std::string& path)> importance{};
};

namespace detail {

/// The packing of one weight of a model.
struct PackStep {
  const void* values;          // where they lie
  std::function<void()> fit;   // looks at the values: an Error changes nothing
  std::function<void()> pack;  // and keeps the values or not
};

/// A step for every matrix, in one block of memory; pages that nobody has written to take no memory yet.
template <class Model>
std::vector<PackStep> pack_steps(const Threads& threads, Model& model, const PackConfig& config) {
  ensure(config.group == 0 || config.group == 32 || config.group == 64 || config.group == 128, "pack",
         "group is invalid: must be 0, 32, 64 or 128, not ", config.group);
  std::vector<PackStep> steps;
  const auto memory = std::make_shared<std::shared_ptr<std::byte>>();
  std::size_t bytes = 0;
  walk(
      [&](const std::string& path, const Leaf&, auto& weight) {
        if constexpr (requires { weight.packed_bytes({}); }) {
          const Format format = (config.format_of ? config.format_of(path) : std::nullopt).value_or(config.format);
          if (!weight.keeps_values()) {
            ensure(format == Format::scalar || format == weight.format(), "pack", path,
                   ": its values were given up, it is ", format_name(weight.format()), " and cannot become ",
                   format_name(format));
            return;
          }
          const Index group = format == Format::int4 && config.group == 0 ? 32 : config.group;
          const auto layout = std::make_shared<kernel::PackedWords>(
              weight.layout(format, format == Format::int8 || format == Format::int4 ? group : 0));
          const auto importance = config.importance ? config.importance(path) : std::span<const float>();
          ensure(importance.empty() || static_cast<Index>(importance.size()) == weight.extent(1), "pack", path,
                 ": importance of ", importance.size(), " inputs, but there are ", weight.extent(1));
          for (const float each : importance)
            ensure(each >= 0 && std::isfinite(each), "pack", path, ": importance ", each,
                   " is invalid: must be 0 or more");
          const auto fit = [=, &weight] {
            try {
              weight.fit(*layout);
            } catch (const Error& error) {
              fail("pack", path, ": ", error.what());
            }
          };
          const auto pack = [=, &weight, keep = config.keep_values, at = bytes] {
            weight.pack(threads, *layout, std::shared_ptr<std::byte>(*memory, memory->get() + at),
                        importance.empty() ? nullptr : importance.data());
            if (!keep) weight.give_up_values();
          };
          steps.push_back({std::as_const(weight).data(), fit, pack});
          bytes += (weight.packed_bytes(*layout) + alignment - 1) / alignment * alignment;
        }
      },
      model);
  if (bytes > 0)
    *memory = std::shared_ptr<std::byte>(static_cast<std::byte*>(aligned_allocate(bytes)),
                                         [](std::byte* data) { aligned_deallocate(data); });
  return steps;
}

}  // namespace detail

/// Packs every matrix of the model for inference, one after the other in one block of memory: a step reads them as one
/// stream. In float it pays for many rows at a time; few read the values as fast. Changing a weight, by training or
/// loading, undoes it for that weight. Error, before anything is changed, if a weight does not fit its format.
template <class Model>
void pack(Context& ctx, Model& model, const PackConfig& config = {}) {
  const auto steps = detail::pack_steps(ctx.threads, model, config);
  if (!steps.empty() && !config.keep_values) require_initialized(model, "pack");
  for (const auto& step : steps) step.fit();
  for (const auto& step : steps) step.pack();
}

}  // namespace eigenformer
