// Memory that ends, or begins, at a page nobody may touch: a kernel that reads or writes past its data crashes.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <random>

#include "eigenformer/core/tensor.hpp"

namespace eigenformer::test {

/// Which edge of the memory the data touches. At `begin` it starts on a page, at `end` wherever its size puts it.
enum class Edge { begin, end };

struct Layout {
  Index gap = 0;  ///< elements between the slices of every axis but the last
  Edge edge = Edge::end;
};

/// Aligned, unaligned, and strided ways for a tensor to lie in memory.
inline constexpr Layout layouts[] = {{0, Edge::begin}, {0, Edge::end}, {3, Edge::end}, {5, Edge::begin}};

/// Numbers in [-1, 1), from a generator that the standard defines.
class Numbers {
 public:
  explicit Numbers(std::uint32_t seed) : engine_(seed) {}
  double operator()() { return static_cast<double>(engine_()) * 0x1p-31 - 1; }

 private:
  std::mt19937 engine_;
};

/// A tensor in guarded memory. Elements and gaps begin as bytes ff (a float is NaN then); when it dies, the gaps must
/// still be that.
template <class T, int Rank>
class Guarded {
 public:
  explicit Guarded(Shape<Rank> shape, Layout layout = {}) {
    Shape<Rank> strides{};
    Index span = 1, stride = 1;
    for (int axis = Rank - 1; axis >= 0; --axis) {
      strides[axis] = stride;
      span += (shape[axis] - 1) * stride;
      stride = stride * shape[axis] + layout.gap;
    }
    if (shape.size() == 0) span = 0;
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t used = static_cast<std::size_t>(span) * sizeof(T);
    bytes_ = (used + page - 1) / page * page;
    total_ = bytes_ + 2 * page;
    memory_ = mmap(nullptr, total_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
    begin_ = static_cast<unsigned char*>(memory_) + page;
    if (bytes_ > 0) mprotect(begin_, bytes_, PROT_READ | PROT_WRITE);
    std::memset(begin_, 0xff, bytes_);
    view_ = {reinterpret_cast<T*>(layout.edge == Edge::begin ? begin_ : begin_ + bytes_ - used), shape, strides};
  }

  /// With random elements.
  Guarded(Shape<Rank> shape, Layout layout, std::uint32_t seed) : Guarded(shape, layout) { fill(Numbers(seed)); }

  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  ~Guarded() {
    for_rows([](T* row, Index width) {
      std::memset(static_cast<void*>(row), 0xff, static_cast<std::size_t>(width) * sizeof(T));
    });
    std::size_t touched = 0;
    for (std::size_t i = 0; i < bytes_; ++i) touched += begin_[i] != 0xff;
    EXPECT_EQ(touched, 0u) << "bytes between the rows were written";
    munmap(memory_, total_);
  }

  View<T, Rank> view() const { return view_; }
  operator View<T, Rank>() const { return view_; }
  operator ConstView<T, Rank>() const { return view_; }
  template <class... Indices>
  T& operator()(Indices... indices) const {
    return view_(indices...);
  }

  /// Every element from next(), in order.
  void fill(auto&& next) const {
    for_rows([&](T* row, Index width) {
      for (Index j = 0; j < width; ++j) row[j] = static_cast<T>(next());
    });
  }

  /// The elements, for an oracle.
  Tensor<double, Rank> values() const {
    Tensor<double, Rank> copy(view_.shape());
    double* to = copy.data();
    for_rows([&](const T* row, Index width) {
      for (Index j = 0; j < width; ++j) *to++ = static_cast<double>(row[j]);
    });
    return copy;
  }

 private:
  void for_rows(auto&& f) const {
    if (view_.size() == 0) return;
    for (Index i = 0; i < view_.rows(); ++i) {
      Index rest = i, offset = 0;
      for (int axis = Rank - 2; axis >= 0; --axis) {
        offset += rest % view_.extent(axis) * view_.stride(axis);
        rest /= view_.extent(axis);
      }
      f(view_.data() + offset, view_.width());
    }
  }

  void* memory_;
  unsigned char* begin_;
  std::size_t bytes_, total_;
  View<T, Rank> view_;
};

}  // namespace eigenformer::test
