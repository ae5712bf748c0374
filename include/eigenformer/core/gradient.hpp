// Where a backward kernel puts a derivative.
#pragma once

#include "eigenformer/core/view.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// A place for dL/dx, and whether what is there counts: the first contribution overwrites, the others add.
/// A null one (`!gradient`) means that nobody asked.
template <class T, int Rank>
struct Gradient {
  View<T, Rank> view;
  bool add = false;

  explicit operator bool() const { return static_cast<bool>(view); }
  Gradient<T, 2> flat() const { return {view ? view.flat() : View<T, 2>(), add}; }
  T* row(Index i) const requires(Rank == 2) { return view.row(i); }

  /// Writes an Eigen expression over `destination`, a map of some of the view's elements.
  void put(auto&& destination, const auto& expression) const {
    if (add) destination += expression;
    else destination = expression;
  }
};

}  // namespace eigenformer
