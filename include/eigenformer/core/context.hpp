// Context: threads, memory, recording and randomness, the first argument of every op and layer; and the Tape.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "eigenformer/core/arena.hpp"
#include "eigenformer/core/gradient.hpp"
#include "eigenformer/core/random.hpp"
#include "eigenformer/core/threads.hpp"
#include "eigenformer/core/view.hpp"
#include "eigenformer/core/visit.hpp"

namespace eigenformer {

class Context;

/// What was computed, so that it can be differentiated in reverse. A gradient belongs to memory: the gradient of any
/// view (a slice, a reshape, one head) is the same view of the gradient of the buffer that it lies in.
class Tape {
 public:
  /// What a watched gradient holds when the backward pass begins: numbers to add to, or nothing worth keeping.
  enum class Start { add, overwrite };

  /// From now on dL/d(model) goes to `gradient`, a model of the same shape.
  template <class Model>
  void watch(const Model& model, Model& gradient, Start start = Start::add) {
    walk([&](const Leaf&, const auto& value, auto& slope) { watch(value.view(), slope.view(), start); }, model,
         gradient);
  }

  /// From now on dL/dx goes to `gradient`; both are contiguous.
  template <class T, int Rank>
  void watch(View<T, Rank> x, View<std::remove_const_t<T>, Rank> gradient, Start start = Start::add) {
    require(x.shape() == gradient.shape() && x.contiguous() && gradient.contiguous(), "tape", "value ", x.shape(),
            " and gradient ", gradient.shape(), " must have the same shape, without gaps");
    const Buffer buffer{bytes_of(x.data()), static_cast<std::size_t>(x.size()) * sizeof(T), reinterpret_cast<std::byte*>(gradient.data()), true,
                        start == Start::overwrite};
    for (const Buffer& other : buffers_)
      require(other.begin == buffer.begin ? other.bytes == buffer.bytes
                                          : other.begin + other.bytes <= buffer.begin || buffer.begin + buffer.bytes <= other.begin,
              "tape", "a value of ", x.shape(), " overlaps another one that is watched or recorded");
    insert(buffer);
  }

  /// Forgets everything; its memory is kept.
  void forget() {
    clear();
    buffers_.clear();
  }

  /// Forgets what was computed, not what is watched.
  void clear() {
    last_ = nullptr;
    reached_ = false;
    std::erase_if(buffers_, [](const Buffer& buffer) { return !buffer.watched; });
  }

  /// Whether a derivative with respect to anything watched was asked for, since clear().
  bool reached() const { return reached_; }

  /// Number of recorded steps.
  Index size() const {
    Index count = 0;
    for (const Node* node = last_; node; node = node->previous) ++count;
    return count;
  }

 private:
  friend class Context;

  struct Buffer {
    const std::byte* begin;
    std::size_t bytes;
    std::byte* gradient;
    bool watched;
    bool fresh;  // the first contribution overwrites
  };
  struct Node {
    Node* previous;
    void (*run)(Node&, Context&);
  };
  template <class F>
  struct NodeOf : Node {
    F f;
  };

  static const std::byte* bytes_of(const void* data) { return static_cast<const std::byte*>(data); }

  void insert(Buffer buffer) {
    const auto place = std::lower_bound(buffers_.begin(), buffers_.end(), buffer.begin,
                                        [](const Buffer& other, const std::byte* begin) { return other.begin < begin; });
    if (place != buffers_.end() && place->begin == buffer.begin) *place = buffer;
    else buffers_.insert(place, buffer);
  }

  Buffer* find(const void* data) {
    const auto after = std::upper_bound(buffers_.begin(), buffers_.end(), bytes_of(data),
                                        [](const std::byte* address, const Buffer& other) { return address < other.begin; });
    if (after == buffers_.begin()) return nullptr;
    Buffer& buffer = *(after - 1);
    return bytes_of(data) < buffer.begin + (std::max)(buffer.bytes, std::size_t{1}) ? &buffer : nullptr;
  }

  template <class F>
  void push(Arena& arena, F f) {
    static_assert(std::is_trivially_destructible_v<F>, "a recorded step holds views and numbers only");
    static_assert(alignof(NodeOf<F>) <= alignment);
    auto* node = new (arena.allocate_bytes(sizeof(NodeOf<F>))) NodeOf<F>{{last_, nullptr}, f};
    node->run = [](Node& self, Context& ctx) { static_cast<NodeOf<F>&>(self).f(ctx); };
    last_ = node;
  }

  std::vector<Buffer> buffers_;  // by address, disjoint
  Node* last_ = nullptr;
  bool reached_ = false;
};

/// Threads, memory, and optionally a tape (then everything is recorded) and a random stream (then dropout is on).
/// Views that ops return live in `arena` until reset(). Use from one thread at a time.
class Context {
 public:
  Context() = default;
  explicit Context(Threads on) : threads(std::move(on)) {}

  Threads threads;
  Arena arena;
  Tape* tape = nullptr;
  Random* random = nullptr;

  /// Ends a step: releases all activations and what the tape recorded.
  void reset() {
    if (tape) tape->clear();
    arena.reset();
  }

  /// Uninitialised memory for what an op returns.
  template <class T, int Rank>
  View<T, Rank> output(Shape<Rank> shape) {
    const View<T, Rank> y = arena.allocate<T>(shape);
    if (tape) tape->insert({Tape::bytes_of(y.data()), static_cast<std::size_t>(y.size()) * sizeof(T), nullptr, false, true});
    return y;
  }

  /// For ids, lengths and masks, which the caller may throw away before the backward pass: a copy that stays until then
  /// if there is a tape, x itself if not. Without gaps in any case.
  template <class T, int Rank>
  ConstView<T, Rank> remember(ConstView<T, Rank> x) {
    if (!x || (!tape && x.contiguous())) return x;
    const View<T, Rank> copy = arena.allocate<T>(x.shape());
    copy_elements(x, copy);
    return copy;
  }

  /// Memory that is released at the end of the C++ scope.
  [[nodiscard]] Arena::Scratch scratch() { return arena.scratch(); }

  /// Says how y differentiates: derivative(ctx, dy) runs in reverse order, unless nothing depends on y. It holds views
  /// and numbers by value and adds to gradient(input) of every input.
  template <class T, int Rank, class F>
  void record(View<T, Rank> y, F derivative) {
    if (!tape) return;
    tape->push(arena, [y, derivative](Context& ctx) {
      if (const auto dy = ctx.gradient_so_far(y)) derivative(ctx, View<const T, Rank>(dy));
    });
  }

  /// Where to put dL/dx; null if x is a constant.
  template <class T, int Rank>
  Gradient<std::remove_const_t<T>, Rank> gradient(View<T, Rank> x) {
    Tape::Buffer* const buffer = x ? tape->find(x.data()) : nullptr;
    if (!buffer) return {};
    const bool first = std::exchange(buffer->fresh, false);
    const bool whole = x.contiguous() && static_cast<std::size_t>(x.size()) * sizeof(T) == buffer->bytes;
    for (int axis = 0; axis < Rank; ++axis)
      require(x.size() == 0 || x.extent(axis) <= 1 || x.stride(axis) != 0, "tape", "a view of ", x.shape(), " that repeats its elements along axis ", axis,
              " has no gradient: copy it first");
    tape->reached_ |= buffer->watched;
    if (!buffer->gradient) buffer->gradient = static_cast<std::byte*>(arena.allocate_bytes(buffer->bytes));
    if (first && !whole) std::memset(buffer->gradient, 0, buffer->bytes);
    return {same_view(x, *buffer), !(first && whole)};
  }

  /// dL/dx as collected so far; null if nothing was.
  template <class T, int Rank>
  View<std::remove_const_t<T>, Rank> gradient_so_far(View<T, Rank> x) {
    Tape::Buffer* const buffer = tape->find(x.data());
    return buffer && buffer->gradient && !buffer->fresh ? same_view(x, *buffer) : View<std::remove_const_t<T>, Rank>();
  }

  /// Without a tape: runs f, which returns a view of `shape`, and keeps nothing of it but that result.
  /// With a tape: just f().
  template <class T, int Rank, class F>
  ConstView<T, Rank> keep_result(Shape<Rank> shape, F&& f) {
    if (tape) return f();
    const View<T, Rank> kept = arena.allocate<T>(shape);
    const auto inner = scratch();
    const ConstView<T, Rank> result = f();
    require(result.shape() == shape && result.contiguous(), "context", "expected a result of ", shape, ", not ", result.shape());
    std::copy_n(result.data(), result.size(), kept.data());
    return kept;
  }

  /// Runs what was recorded in reverse.
  void replay() {
    for (Tape::Node* node = tape->last_; node; node = node->previous) node->run(*node, *this);
    tape->last_ = nullptr;
    for (Tape::Buffer& buffer : tape->buffers_)  // what the result does not depend on
      if (buffer.watched && std::exchange(buffer.fresh, false)) std::memset(buffer.gradient, 0, buffer.bytes);
  }

 private:
  template <class T, int Rank>
  static void copy_elements(ConstView<T, Rank> from, View<T, Rank> to) {
    if constexpr (Rank == 1) std::copy_n(from.data(), from.size(), to.data());
    else for (Index i = 0; i < from.extent(0); ++i) copy_elements<T, Rank - 1>(from[i], to[i]);
  }
  template <class T, int Rank>
  static View<std::remove_const_t<T>, Rank> same_view(View<T, Rank> x, const Tape::Buffer& buffer) {
    Index last = 0;  // offset of the last element
    for (int axis = 0; axis < Rank; ++axis) last += (x.extent(axis) - 1) * x.stride(axis);
    require(x.size() == 0 || Tape::bytes_of(x.data() + last + 1) <= buffer.begin + buffer.bytes, "tape", "a view of ", x.shape(),
            " reaches beyond the memory whose gradient is watched");
    auto* const data = reinterpret_cast<std::remove_const_t<T>*>(buffer.gradient + (Tape::bytes_of(x.data()) - buffer.begin));
    Shape<Rank> strides{};
    for (int axis = 0; axis < Rank; ++axis) strides[axis] = x.stride(axis);
    return {data, x.shape(), strides};
  }
};

/// Adds dL/dx to the gradient of everything that y was computed from, given dL/dy of y's shape.
template <class T, int Rank>
void backward(Context& ctx, ConstView<T, Rank> y, std::type_identity_t<ConstView<T, Rank>> dy) {
  require(ctx.tape != nullptr, "backward", "nothing was recorded: the context has no tape");
  require(y.shape() == dy.shape() && y.contiguous() && dy.contiguous(), "backward", "result ", y.shape(), " and its gradient ",
          dy.shape(), " must have the same shape, without gaps");
  const Gradient<T, Rank> seed = ctx.gradient(y);
  require(static_cast<bool>(seed), "backward", "the result was not computed in this context");
  require(ctx.tape->size() > 0, "backward", "nothing was recorded since the last backward pass: one pass per recording");
  for (Index i = 0; i < y.size(); ++i) seed.view.data()[i] = (seed.add ? seed.view.data()[i] : T{0}) + dy.data()[i];
  ctx.replay();
}

/// The same for a single number y, with dL/dy = seed.
template <class T>
void backward(Context& ctx, ConstView<T, 1> y, std::type_identity_t<T> seed = 1) {
  require(y.size() == 1, "backward", "expected a single number, not ", y.shape());
  backward(ctx, y, ConstView<T, 1>(&seed, Shape<1>{1}));
}

}  // namespace eigenformer
