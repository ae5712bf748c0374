// Tensor: an owning View.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "eigenformer/core/error.hpp"
#include "eigenformer/core/scalar.hpp"
#include "eigenformer/core/shape.hpp"
#include "eigenformer/core/view.hpp"

#if __has_include(<sys/mman.h>)
#include <sys/mman.h>
#endif

namespace eigenformer::inline EIGENFORMER_ABI {

/// Everything we allocate starts on a cache line, whatever instruction set the translation unit is compiled for.
inline constexpr std::size_t alignment = 64;

namespace detail {

/// Runs f, which makes the standard library get memory for `count` items, as an Error if there is none.
template <class F>
auto with_memory(std::string_view place, Index count, std::string_view items, F&& f) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  }
  fail(place, "there is no memory for ", count, " ", items);
}

}  // namespace detail

/// While it lives, this thread gets no more than so many bytes for what a model is made of: for sizes that only a file
/// vouches for. Scopes nest; what is freed is not given back.
class MemoryLimit {
 public:
  explicit MemoryLimit(std::uint64_t bytes) : outer_(left_) { left_ = (std::min)(left_, bytes); }
  ~MemoryLimit() { left_ = outer_; }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

  /// Fails if there may not be so many bytes more.
  static void take(std::uint64_t bytes) {
    ensure(bytes <= left_, "memory", bytes, " bytes are asked for, but the limit leaves ", left_);
    if (left_ != none) left_ -= bytes;
  }

 private:
  static constexpr std::uint64_t none = (std::numeric_limits<std::uint64_t>::max)();
  static inline thread_local std::uint64_t left_ = none;

  std::uint64_t outer_;
};

/// Large blocks are read front to back, over and over: a hint, which the system may refuse.
inline void ask_for_huge_pages([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t bytes) {
#ifdef MADV_HUGEPAGE
  constexpr std::size_t huge = std::size_t{2} << 20;
  if (bytes < 2 * huge) return;
  const std::size_t skipped = (huge - reinterpret_cast<std::uintptr_t>(memory) % huge) % huge;
  ::madvise(static_cast<std::byte*>(memory) + skipped, (bytes - skipped) / huge * huge, MADV_HUGEPAGE);
#endif
}
/// Error if there is no memory.
inline void* aligned_allocate(std::size_t bytes) {
  MemoryLimit::take(bytes);
  void* const memory = detail::with_memory("memory", static_cast<Index>(bytes), "bytes",
                                           [&] { return ::operator new (bytes, std::align_val_t{alignment}); });
  ask_for_huge_pages(memory, bytes);
  return memory;
}
/// Gives the pages within back to the system; what they held is lost. Freed memory alone may stay with the allocator.
inline void give_back_pages([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t bytes) {
#ifdef MADV_DONTNEED
  constexpr std::size_t page = std::size_t{1} << 16;  // a multiple of any system's
  const std::size_t skipped = (page - reinterpret_cast<std::uintptr_t>(memory) % page) % page;
  if (bytes >= skipped + page)
    ::madvise(static_cast<std::byte*>(memory) + skipped, (bytes - skipped) / page * page, MADV_DONTNEED);
#endif
}
inline void aligned_deallocate(void* memory) { ::operator delete (memory, std::align_val_t{alignment}); }

namespace detail {

/// From so many bytes on, a tensor's memory comes from the system as zeros: pages that nobody writes to take none.
inline constexpr std::size_t large_tensor = std::size_t{1} << 20;

/// Zeros on a cache line.
inline void* allocate_zeros(std::size_t bytes) {
  MemoryLimit::take(bytes);
  constexpr std::size_t room = alignment + sizeof(void*);
  void* const memory = bytes < bytes + room ? std::calloc(bytes + room, 1) : nullptr;
  if (!memory) fail("memory", "there is no memory for ", bytes, " bytes");
  const auto first = reinterpret_cast<std::uintptr_t>(memory) + sizeof(void*);
  std::byte* const zeros =
      static_cast<std::byte*>(memory) + sizeof(void*) + (alignment - first % alignment) % alignment;
  std::memcpy(zeros - sizeof(void*), &memory, sizeof(void*));
  ask_for_huge_pages(zeros, bytes);
  return zeros;
}
inline void deallocate_zeros(void* zeros) {
  void* memory = nullptr;
  std::memcpy(&memory, static_cast<std::byte*>(zeros) - sizeof(void*), sizeof(void*));
  std::free(memory);
}

}  // namespace detail

/// Throws unless the system could give memory for `count` items of so many bytes each: to be asked before many are made
/// one by one.
inline void require_memory(std::string_view place, Index count, Index bytes) {
  bytes = (std::max)(bytes, Index{1});
  ensure(checked_count(Shape{count}, bytes) >= 0, place, "there is no memory for ", count, " times ", bytes, " bytes");
  const auto all = static_cast<std::size_t>(count * bytes);
  const MemoryLimit given_back(all);
  aligned_deallocate(aligned_allocate(all));
}

/// Room for `count` items in all; Error if there is no memory for them.
template <class Item>
void reserve_memory(std::string_view place, std::vector<Item>& items, Index count) {
  require_memory(place, count, static_cast<Index>(sizeof(Item)));
  items.reserve(static_cast<std::size_t>(count));
}

/// A contiguous array that owns its memory; copies are deep, new elements are zero.
template <class T, int Rank>
class Tensor {
  static_assert(std::is_trivially_copyable_v<T> && !std::is_const_v<T>);

 public:
  using Value = T;
  static constexpr int rank = Rank;

  Tensor() = default;

  /// Zeros.
  explicit Tensor(Shape<Rank> shape) : shape_(shape) {
    for (int axis = 0; axis < Rank; ++axis) ensure(shape[axis] >= 0, "tensor", "negative extent in ", shape);
    ensure(checked_count(shape, sizeof(T)) >= 0, "tensor", "too many elements in ", shape);
    if constexpr (std::is_same_v<T, NoValue>) {
      data_ = &nothing_;
      return;
    }
    const std::size_t bytes = bytes_of(shape);
    if (is_large()) {
      data_ = static_cast<T*>(detail::allocate_zeros(bytes));
      return;
    }
    data_ = static_cast<T*>(aligned_allocate((std::max)(bytes, sizeof(T))));  // empty is not "not given"
    std::fill_n(data_, shape.size(), T{});
  }

  /// A copy; absent if the view is.
  explicit Tensor(ConstView<T, Rank> view) {
    if (!view) return;
    *this = Tensor(view.shape());
    if constexpr (std::is_same_v<T, NoValue>) return;
    const auto rows = view.flat();
    for (Index i = 0; i < rows.extent(0); ++i) std::copy_n(rows.row(i), rows.width(), data_ + i * rows.width());
  }

  Tensor(const Tensor& other) : Tensor(other.view()) {}
  Tensor(Tensor&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), shape_(std::exchange(other.shape_, {})) {}
  Tensor& operator=(Tensor other) noexcept {
    std::swap(data_, other.data_);
    std::swap(shape_, other.shape_);
    return *this;
  }
  ~Tensor() {
    if (!data_ || std::is_same_v<T, NoValue>) return;
    if (is_large()) detail::deallocate_zeros(data_);
    else aligned_deallocate(data_);
  }

  /// Whether there is one, be it empty.
  explicit operator bool() const { return data_ != nullptr; }

  T* data() { return data_; }
  const T* data() const { return data_; }
  const Shape<Rank>& shape() const { return shape_; }
  Index extent(int axis) const { return shape_[axis]; }
  Index size() const { return shape_.size(); }

  /// Absent if there is none.
  View<T, Rank> view() { return data_ ? View<T, Rank>(data_, shape_) : View<T, Rank>(); }
  ConstView<T, Rank> view() const { return data_ ? ConstView<T, Rank>(data_, shape_) : ConstView<T, Rank>(); }
  operator View<T, Rank>() { return view(); }
  operator ConstView<T, Rank>() const { return view(); }

  template <class... Indices>
  T& operator()(Indices... indices) {
    return view()(indices...);
  }
  template <class... Indices>
  const T& operator()(Indices... indices) const {
    return view()(indices...);
  }

  /// As a rows×width Eigen matrix, without a copy.
  MatrixMap<T> matrix() { return view().matrix(); }
  MatrixMap<const T> matrix() const { return view().matrix(); }

 private:
  static std::size_t bytes_of(const Shape<Rank>& shape) { return static_cast<std::size_t>(shape.size()) * sizeof(T); }
  bool is_large() const { return bytes_of(shape_) >= detail::large_tensor; }

  static inline T nothing_{};  // the address of what has no value

  T* data_ = nullptr;
  Shape<Rank> shape_{};
};

}  // namespace eigenformer
