// View: a pointer with extents and strides. What every function takes and returns.
#pragma once

#include <concepts>
#include <cstddef>
#include <iterator>
#include <ranges>
#include <type_traits>
#include <utility>

#include "eigenformer/core/eigen.hpp"
#include "eigenformer/core/error.hpp"
#include "eigenformer/core/scalar.hpp"
#include "eigenformer/core/shape.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// A row-major Eigen matrix over somebody else's memory; rows may be further apart than they are wide.
template <class T>
using MatrixMap = Eigen::Map<
    std::conditional_t<std::is_const_v<T>,
                       const Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>,
                       Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>,
    Eigen::Unaligned, Eigen::OuterStride<>>;

template <class T>
using ArrayPointer = T (*)[];

/// Whether a pointer to U serves as one to T: it may gain const, and nothing else.
template <class U, class T>
concept ElementOf = std::convertible_to<ArrayPointer<std::remove_reference_t<U>>, ArrayPointer<T>>;

/// A std::vector, std::array, std::span or their like, of T.
template <class Range, class T>
concept ContiguousRange = std::ranges::contiguous_range<Range> && std::ranges::sized_range<Range> &&
    ElementOf<std::ranges::range_reference_t<Range>, T>;

/// An Eigen object that lies in memory row by row.
template <class Matrix>
concept RowMajorMatrix =
    std::derived_from<Matrix, Eigen::DenseBase<Matrix>> && bool(Matrix::IsRowMajor) && Matrix::InnerStrideAtCompileTime
                                                                                           == 1;

/// Such an object of T.
template <class Matrix, class T>
concept RowMajorMatrixOf =
    RowMajorMatrix<std::remove_cvref_t<Matrix>> && ElementOf<decltype(*std::declval<Matrix&>().data()), T>;

/// Rank extents over memory that it does not own; the last axis is contiguous, the others have any stride (0 repeats).
/// Trivially copyable. View<T> converts to View<const T>. A view that was never made of anything is absent: it stands
/// for "none", or for "not given". One without elements is given all the same, whatever address it was made of.
template <class T, int Rank>
class View {
 public:
  using Element = T;
  using Value = std::remove_const_t<T>;
  static constexpr int rank = Rank;

  /// Absent.
  constexpr View() = default;

  /// Contiguous.
  constexpr View(T* data, Shape<Rank> shape) : View(data, shape, contiguous_strides(shape)) {}

  /// Strided, in elements; the last stride is 1.
  constexpr View(T* data, Shape<Rank> shape, Shape<Rank> strides)
      : data_(data || shape.size() > 0 ? data : &nothing_), shape_(shape), strides_(strides) {}

  /// The elements of a std::vector, std::array or std::span, as one axis.
  template <ContiguousRange<T> Range>
  constexpr View(Range&& range) requires(Rank == 1)
      : View(std::ranges::data(range), Shape<1>{static_cast<Index>(std::ranges::size(range))}) {}

  /// A row-major Eigen matrix, map, reference or block, without a copy.
  template <RowMajorMatrixOf<T> Matrix>
  View(Matrix&& matrix) requires(Rank == 2)
      : View(matrix.data(), Shape<2>{matrix.rows(), matrix.cols()}, Shape<2>{matrix.outerStride(), 1}) {}

  constexpr operator View<const T, Rank>() const requires(!std::is_const_v<T>) {
    return View<const T, Rank>::at(data_, shape_, strides_);
  }

  /// Whether there is one, be it empty.
  constexpr bool given() const { return data_ != nullptr; }
  constexpr explicit operator bool() const { return given(); }
  constexpr T* data() const { return data_; }
  constexpr const Shape<Rank>& shape() const { return shape_; }
  constexpr Index extent(int axis) const { return shape_[axis]; }
  constexpr Index stride(int axis) const { return strides_[axis]; }
  constexpr Index size() const { return shape_.size(); }
  constexpr Index rows() const { return shape_.rows(); }
  constexpr Index width() const { return shape_.width(); }

  /// One element.
  template <class... Indices>
  constexpr T& operator()(Indices... indices) const requires(sizeof...(Indices) == Rank) {
    Index offset = 0;
    int axis = 0;
    ((offset += static_cast<Index>(indices) * strides_[axis++]), ...);
    return data_[offset];
  }

  /// The i-th slice along the first axis.
  constexpr View<T, Rank - 1> operator[](Index i) const requires(Rank > 1) {
    Shape<Rank - 1> shape{}, strides{};
    for (int axis = 1; axis < Rank; ++axis) shape[axis - 1] = shape_[axis], strides[axis - 1] = strides_[axis];
    return View<T, Rank - 1>::at(data_ + i * strides_[0], shape, strides);
  }
  constexpr T& operator[](Index i) const requires(Rank == 1) { return data_[i]; }

  /// `count` entries of `axis` from `first` on.
  constexpr View slice(int axis, Index first, Index count) const {
    View part = *this;
    part.data_ += first * strides_[axis];
    part.shape_[axis] = count;
    return part;
  }

  /// Whether the elements lie one after the other without gaps.
  constexpr bool contiguous() const {
    Index stride = 1;
    for (int axis = Rank - 1; axis >= 0; stride *= shape_[axis--])
      if (shape_[axis] != 1 && strides_[axis] != stride) return size() == 0;
    return true;
  }

  /// Distance between rows (slices of the last axis), or −1 if they are not equally far apart.
  constexpr Index row_stride() const {
    Index stride = -1, next = 0;
    for (int axis = Rank - 2; axis >= 0; --axis) {
      if (shape_[axis] == 1) continue;
      if (stride < 0) stride = strides_[axis];
      else if (strides_[axis] != next && size() > 0) return -1;
      next = strides_[axis] * shape_[axis];
    }
    return stride < 0 ? width() : stride;
  }

  /// First element of the i-th row.
  constexpr T* row(Index i) const requires(Rank == 2) { return data_ + i * strides_[0]; }

  /// The same memory as rows()×width().
  View<T, 2> flat() const {
    const Index stride = row_stride();
    ensure(stride >= 0, "view", "the leading axes of ", shape_, " do not flatten to rows: they have gaps");
    return View<T, 2>::at(data_, Shape<2>{rows(), width()}, Shape<2>{stride, 1});
  }

  /// The same elements under another shape; the view must be contiguous.
  template <int OtherRank>
  View<T, OtherRank> reshape(Shape<OtherRank> shape) const {
    ensure(contiguous() && shape.size() == size(), "view", "cannot reshape ", shape_, " to ", shape);
    return View<T, OtherRank>::at(data_, shape, View<T, OtherRank>::contiguous_strides(shape));
  }

  /// The last axis split in two: (…, a·b) → (…, a, b), for any strides of the others.
  View<T, Rank + 1> split_last(Index inner) const {
    ensure(inner > 0 && width() % inner == 0, "view", inner, " does not divide the last axis of ", shape_);
    Shape<Rank + 1> shape{}, strides{};
    for (int axis = 0; axis < Rank - 1; ++axis) shape[axis] = shape_[axis], strides[axis] = strides_[axis];
    shape[Rank - 1] = width() / inner, strides[Rank - 1] = inner;
    shape[Rank] = inner, strides[Rank] = 1;
    return View<T, Rank + 1>::at(data_, shape, strides);
  }

  /// As a rows()×width() Eigen matrix, without a copy.
  MatrixMap<T> matrix() const {
    const View<T, 2> view = flat();
    return {view.data(), view.extent(0), view.extent(1), Eigen::OuterStride<>(view.stride(0))};
  }

 private:
  template <class, int>
  friend class View;

  static constexpr Shape<Rank> contiguous_strides(const Shape<Rank>& shape) {
    Shape<Rank> strides{};
    Index stride = 1;
    for (int axis = Rank - 1; axis >= 0; stride *= shape[axis--]) strides[axis] = stride;
    return strides;
  }

  /// Of what another view shows: absent if that is.
  static constexpr View at(T* data, const Shape<Rank>& shape, const Shape<Rank>& strides) {
    View view;
    view.data_ = data, view.shape_ = shape, view.strides_ = strides;
    return view;
  }

  static inline Value nothing_{};  // the address of what is empty

  T* data_ = nullptr;
  Shape<Rank> shape_{};
  Shape<Rank> strides_{};
};

/// What a value is once it has been computed: nobody writes to it any more.
template <class T, int Rank>
using ConstView = View<const T, Rank>;

}  // namespace eigenformer
