// What follows a product while its result is in the cache.
#pragma once

#include <type_traits>

#include "eigenformer/core/scalar.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::kernel {

/// What is done to every piece of C that is complete, while it is in the cache: f(row, column, pointer, count) for each
/// of its rows, and before that, where f has it, f.prefetch(row, column, count). A reference to f, whose type is
/// forgotten: products are compiled once, not once for every epilogue.
template <Real T>
class Epilogue {
 public:
  Epilogue() = default;  // nothing is done

  template <class F>
  requires std::is_invocable_v<const F&, Index, Index, T*, Index> Epilogue(const F& f) : f_(&f) {
    apply_ = [](const void* of, Index row, Index rows, Index column, T* out, Index stride, Index count) {
      for (Index i = 0; i < rows; ++i) (*static_cast<const F*>(of))(row + i, column, out + i * stride, count);
    };
    if constexpr (requires { f.prefetch(Index{}, Index{}, Index{}); })
      prefetch_ = [](const void* of, Index row, Index rows, Index column, Index count) {
        for (Index i = 0; i < rows; ++i) static_cast<const F*>(of)->prefetch(row + i, column, count);
      };
  }

  /// To rows [row, row + rows) of C, `count` columns from `column` on, which lie at `out`, `stride` apart.
  void operator()(Index row, Index rows, Index column, T* out, Index stride, Index count) const {
    if (apply_) apply_(f_, row, rows, column, out, stride, count);
  }
  void prefetch(Index row, Index rows, Index column, Index count) const {
    if (prefetch_) prefetch_(f_, row, rows, column, count);
  }

 private:
  const void* f_ = nullptr;
  void (*apply_)(const void* f, Index row, Index rows, Index column, T* out, Index stride, Index count) = nullptr;
  void (*prefetch_)(const void* f, Index row, Index rows, Index column, Index count) = nullptr;
};

}  // namespace eigenformer::kernel
