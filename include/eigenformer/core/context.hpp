// Context: threads, memory, recording and randomness, the first argument of every op and layer; and the Tape.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
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

namespace eigenformer::inline EIGENFORMER_ABI {

class Context;

/// What was computed, so that it can be differentiated in reverse. A gradient belongs to memory: the gradient of any
/// view (a slice, a reshape, one head) is the same view of the gradient of the buffer that it lies in.
/// What is released of the context's memory, by the end of a scratch() scope or by a reset(), is forgotten, whether the
/// tape is in use just then or set aside. A tape records in one context at a time.
class Tape final : private Arena::Guest {
 public:
  /// What a watched gradient holds when the backward pass begins: numbers to add to, or nothing worth keeping.
  enum class Start { add, overwrite };

  /// From now on dL/d(model) goes to `gradient`, a model of the same shape.
  template <class Model>
  void watch(const Model& model, Model& gradient, Start start = Start::add) {
    walk([&](const Leaf&, const auto& value, auto& dvalue) { watch(value.view(), dvalue.view(), start); }, model,
         gradient);
  }

  /// From now on dL/dx goes to `gradient`; both are contiguous.
  template <class T, int Rank>
  void watch(View<T, Rank> x, View<std::remove_const_t<T>, Rank> gradient, Start start = Start::add) {
    ensure(x.shape() == gradient.shape() && x.contiguous() && gradient.contiguous(), "tape", "value ", x.shape(),
           " and gradient ", gradient.shape(), " must have the same shape, without gaps");
    const Buffer buffer{.begin = bytes_of(x.data()),
                        .bytes = static_cast<std::size_t>(x.size()) * sizeof(T),
                        .gradient = reinterpret_cast<std::byte*>(gradient.data()),
                        .watched = true,
                        .fresh = start == Start::overwrite};
    for (const Buffer& other : buffers_)
      ensure(other.begin == buffer.begin ? other.bytes == buffer.bytes : !other.overlaps(buffer), "tape", "a value of ",
             x.shape(), " overlaps another one that is watched or recorded");
    insert(buffer);
  }

  /// Forgets everything; its memory is kept.
  void forget() {
    clear();
    buffers_.clear();
  }

  /// Forgets what was computed, not what is watched.
  void clear() {
    ensure(!running_, "tape", "a derivative cannot forget what is being differentiated");
    last_ = nullptr;
    reached_ = false;
    std::erase_if(buffers_, [](const Buffer& buffer) { return !buffer.watched; });
    gradients_.reset();
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
    bool fresh;          // the first contribution overwrites
    bool spent = false;  // how it was computed is no longer known

    bool overlaps(const Buffer& other) const {
      return begin < other.begin + other.bytes && other.begin < begin + bytes;
    }
  };
  struct Node {
    Node* previous;
    const void* result;
    void (*run)(Node&, Context&);
  };
  template <class F>
  struct NodeOf : Node {
    F f;
  };
  /// A gradient in memory of its own, which is added to the right one when the step has ended.
  struct Late {
    Late* next;
    void (*add)(Late&);
  };
  template <class T, int Rank>
  struct LateOf : Late {
    View<T, Rank> from, to;
  };

  static const std::byte* bytes_of(const void* data) { return static_cast<const std::byte*>(data); }

  void forget_released(const Arena& arena) override {
    std::erase_if(buffers_, [&](const Buffer& buffer) {
      return arena.released(buffer.begin) || (buffer.watched && arena.released(buffer.gradient));
    });
    for (; last_ && arena.released(last_); last_ = last_->previous)
      if (Buffer* const result = find(last_->result)) result->spent = !result->watched;
  }

  /// Before anything in this arena is recorded.
  void record_in(Arena& arena) {
    if (host() == &arena) return;
    ensure(!last_ && std::all_of(buffers_.begin(), buffers_.end(), [](const Buffer& buffer) { return buffer.watched; }),
           "tape", "it has recorded in another context: reset() that first");
    enter(arena);
  }

  void insert(Buffer buffer) {
    const auto place =
        std::lower_bound(buffers_.begin(), buffers_.end(), buffer.begin,
                         [](const Buffer& other, const std::byte* begin) { return other.begin < begin; });
    ensure(buffer.watched || ((place == buffers_.begin() || !(place - 1)->overlaps(buffer)) &&
                              (place == buffers_.end() || !place->overlaps(buffer))),
           "tape", "memory of something that is watched was released, and is used again");
    if (place != buffers_.end() && place->begin == buffer.begin) *place = buffer;
    else buffers_.insert(place, buffer);
    keeps_what_is_allocated();
  }

  Buffer* find(const void* data) {
    const auto after =
        std::upper_bound(buffers_.begin(), buffers_.end(), bytes_of(data),
                         [](const std::byte* address, const Buffer& other) { return address < other.begin; });
    if (after == buffers_.begin()) return nullptr;
    Buffer& buffer = *(after - 1);
    return bytes_of(data) < buffer.begin + (std::max)(buffer.bytes, std::size_t{1}) ? &buffer : nullptr;
  }

  template <class F>
  void push(Arena& arena, const void* result, F f) {
    static_assert(std::is_trivially_destructible_v<F>, "a recorded step holds views and numbers only");
    static_assert(alignof(NodeOf<F>) <= alignment);
    auto* node = new (arena.allocate_bytes(sizeof(NodeOf<F>))) NodeOf<F>{{last_, result, nullptr}, f};
    node->run = [](Node& self, Context& ctx) { static_cast<NodeOf<F>&>(self).f(ctx); };
    last_ = node;
    keeps_what_is_allocated();
  }

  /// Gradients of what was computed by the last backward pass are no longer needed.
  void begin_backward() {
    ensure(!running_, "backward", "a derivative cannot be differentiated");
    bool needed = false;
    for (Buffer& buffer : buffers_) {
      if (buffer.spent) buffer.gradient = nullptr;
      needed |= !buffer.watched && buffer.gradient;
    }
    if (!needed) gradients_.reset();
    running_ = true;
  }
  void end_backward() {
    last_ = nullptr;
    lent_.clear();
    late_ = nullptr;
    running_ = false;
    for (Buffer& buffer : buffers_) buffer.spent = !buffer.watched;
  }

  /// Whether the running step was given a gradient of any of this memory already; if not, it is now.
  bool lent_before(const std::byte* begin, const std::byte* end) {
    const bool before = std::any_of(lent_.begin(), lent_.end(),
                                    [&](const auto& other) { return begin < other.second && other.first < end; });
    if (!before) lent_.emplace_back(begin, end);
    return before;
  }

  std::vector<Buffer> buffers_;  // by address, disjoint
  Node* last_ = nullptr;
  Arena gradients_;  // of what was computed, so that they outlive any scratch() scope within a derivative
  std::vector<std::pair<const std::byte*, const std::byte*>> lent_;  // what the running step was given
  Late* late_ = nullptr;
  bool reached_ = false, running_ = false;
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

  /// Ends a step: releases all activations and what tapes recorded of them.
  void reset() {
    if (tape) tape->clear();
    arena.reset();
  }

  /// Uninitialised memory for what an op returns.
  template <class T, int Rank>
  View<T, Rank> output(Shape<Rank> shape) {
    if (tape) tape->record_in(arena);
    const View<T, Rank> y = arena.allocate<T>(shape);
    if (tape)
      tape->insert({.begin = Tape::bytes_of(y.data()),
                    .bytes = static_cast<std::size_t>(y.size()) * sizeof(T),
                    .gradient = nullptr,
                    .watched = false,
                    .fresh = true});
    return y;
  }

  /// For ids, lengths and masks, which the caller may throw away before the backward pass: a copy that stays until then
  /// if there is a tape, x itself if not. Without gaps in any case.
  template <class T, int Rank>
  ConstView<T, Rank> save_for_backward(ConstView<T, Rank> x) {
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
    tape->record_in(arena);
    tape->push(arena, y.data(), [y, derivative](Context& ctx) {
      if (const auto dy = ctx.gradient_so_far(y)) derivative(ctx, View<const T, Rank>(dy));
    });
  }

  /// Where to put dL/dx; null if x is a constant. A derivative may ask for views of the same memory, of any shapes:
  /// what it puts into each counts.
  template <class T, int Rank>
  Gradient<std::remove_const_t<T>, Rank> gradient(View<T, Rank> x) {
    using Value = std::remove_const_t<T>;
    Tape::Buffer* const buffer = x && tape ? tape->find(x.data()) : nullptr;
    if (!buffer) {
      ensure(!x || x.size() == 0 || !arena.released(x.data()), "tape", "a value of ", x.shape(),
             " lay in memory that has been released since: it has no gradient");
      return {};
    }
    ensure(!buffer->spent, "tape", "how a value of ", x.shape(),
           " was computed is no longer known, since a backward pass or the end of a scratch scope: compute it again");
    const bool whole = x.contiguous() && static_cast<std::size_t>(x.size()) * sizeof(T) == buffer->bytes;
    for (int axis = 0; axis < Rank; ++axis)
      ensure(x.size() == 0 || x.extent(axis) <= 1 || x.stride(axis) != 0, "tape", "a view of ", x.shape(),
             " that repeats its elements along axis ", axis, " has no gradient: copy it first");
    tape->reached_ |= buffer->watched;
    if (!buffer->gradient) buffer->gradient = static_cast<std::byte*>(tape->gradients_.allocate_bytes(buffer->bytes));
    const View<Value, Rank> there = same_view(x, *buffer);
    if (tape->running_ && x.size() > 0 &&
        tape->lent_before(Tape::bytes_of(there.data()), Tape::bytes_of(there.data() + last_offset(there) + 1)))
      return lend_late(there);
    const bool first = std::exchange(buffer->fresh, false);
    if (first && !whole) std::memset(buffer->gradient, 0, buffer->bytes);
    return {there, !(first && whole)};
  }

  /// dL/dx as collected so far; null if nothing was.
  template <class T, int Rank>
  View<std::remove_const_t<T>, Rank> gradient_so_far(View<T, Rank> x) {
    Tape::Buffer* const buffer = tape ? tape->find(x.data()) : nullptr;
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
    ensure(result.shape() == shape && result.contiguous(), "context", "expected a result of ", shape, ", not ",
           result.shape());
    std::copy_n(result.data(), result.size(), kept.data());
    return kept;
  }

  /// Runs what was recorded in reverse, given dL/dy. See backward().
  template <class T, int Rank>
  void replay(ConstView<T, Rank> y, ConstView<T, Rank> dy) {
    ensure(tape != nullptr, "backward", "nothing was recorded: the context has no tape");
    ensure(y.shape() == dy.shape() && y.contiguous() && dy.contiguous(), "backward", "result ", y.shape(),
           " and its gradient ", dy.shape(), " must have the same shape, without gaps");
    ensure(y && tape->find(y.data()), "backward",
           "the result was not computed in this context, or has been released since");
    ensure(tape->last_ != nullptr, "backward",
           "nothing was recorded since the last backward pass: one pass per recording");
    tape->begin_backward();
    const Ending ending{*tape};
    const Gradient<T, Rank> seed = gradient(y);
    for (Index i = 0; i < y.size(); ++i) seed.view.data()[i] = (seed.add ? seed.view.data()[i] : T{0}) + dy.data()[i];
    while (Tape::Node* const node = tape->last_) {
      tape->last_ = node->previous;
      tape->lent_.clear();
      node->run(*node, *this);
      for (; tape->late_; tape->late_ = tape->late_->next) tape->late_->add(*tape->late_);
    }
    for (Tape::Buffer& buffer : tape->buffers_)  // what the result does not depend on
      if (buffer.watched && std::exchange(buffer.fresh, false)) std::memset(buffer.gradient, 0, buffer.bytes);
  }

 private:
  struct Ending {
    Tape& tape;
    ~Ending() { tape.end_backward(); }
  };

  template <class T, int Rank>
  static void copy_elements(ConstView<T, Rank> from, View<T, Rank> to) {
    if constexpr (Rank == 1) std::copy_n(from.data(), from.size(), to.data());
    else
      for (Index i = 0; i < from.extent(0); ++i) copy_elements<T, Rank - 1>(from[i], to[i]);
  }
  template <class T, int Rank>
  static void add_elements(View<T, Rank> from, View<T, Rank> to) {
    if constexpr (Rank == 1) std::transform(to.data(), to.data() + to.size(), from.data(), to.data(), std::plus<T>());
    else
      for (Index i = 0; i < from.extent(0); ++i) add_elements<T, Rank - 1>(from[i], to[i]);
  }
  template <class T, int Rank>
  Gradient<T, Rank> lend_late(View<T, Rank> to) {
    Arena& memory = tape->gradients_;
    const View<T, Rank> own = memory.allocate<T>(to.shape());
    tape->late_ = new (memory.allocate_bytes(sizeof(Tape::LateOf<T, Rank>)))
        Tape::LateOf<T, Rank>{{tape->late_,
                               [](Tape::Late& late) {
                                 const auto& of = static_cast<Tape::LateOf<T, Rank>&>(late);
                                 add_elements<T, Rank>(of.from, of.to);
                               }},
                              own,
                              to};
    return {own, false};
  }
  template <class T, int Rank>
  static Index last_offset(View<T, Rank> x) {
    Index last = 0;
    for (int axis = 0; axis < Rank; ++axis) last += (x.extent(axis) - 1) * x.stride(axis);
    return last;
  }
  template <class T, int Rank>
  static View<std::remove_const_t<T>, Rank> same_view(View<T, Rank> x, const Tape::Buffer& buffer) {
    ensure(x.size() == 0 || Tape::bytes_of(x.data() + last_offset(x) + 1) <= buffer.begin + buffer.bytes, "tape",
           "a view of ", x.shape(), " reaches beyond the memory whose gradient is watched");
    auto* const data =
        reinterpret_cast<std::remove_const_t<T>*>(buffer.gradient + (Tape::bytes_of(x.data()) - buffer.begin));
    Shape<Rank> strides{};
    for (int axis = 0; axis < Rank; ++axis) strides[axis] = x.stride(axis);
    return {data, x.shape(), strides};
  }
};

/// Adds dL/dx to the gradient of everything that y was computed from, given dL/dy of y's shape. Should a derivative
/// throw, then what was recorded is used up all the same, and what is watched holds part of the sum.
template <class T, int Rank>
void backward(Context& ctx, ConstView<T, Rank> y, std::type_identity_t<ConstView<T, Rank>> dy) {
  ctx.replay(y, dy);
}

/// The same for a single number y, with dL/dy = seed.
template <class T>
void backward(Context& ctx, ConstView<T, 1> y, std::type_identity_t<T> seed = 1) {
  ensure(y.size() == 1, "backward", "expected a single number, not ", y.shape());
  backward(ctx, y, ConstView<T, 1>(&seed, Shape<1>{1}));
}

}  // namespace eigenformer
