// The smallest model there is: some numbers.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "eigenformer/core/visit.hpp"

namespace eigenformer::test {

struct Bag {
  Tensor<float, 2> matrix;  // decays
  Tensor<float, 1> vector;  // does not

  Bag(std::initializer_list<float> first, std::initializer_list<float> second)
      : matrix(Shape{Index{1}, static_cast<Index>(first.size())}), vector(Shape{static_cast<Index>(second.size())}) {
    std::copy(first.begin(), first.end(), matrix.data());
    std::copy(second.begin(), second.end(), vector.data());
  }
  static void visit(auto&& f, auto&... m) {
    f(Leaf{"matrix", Init::xavier, Decay::yes}, m.matrix...);
    f(Leaf{"vector"}, m.vector...);
  }
  std::vector<float> numbers() const {
    std::vector<float> all(matrix.data(), matrix.data() + matrix.size());
    all.insert(all.end(), vector.data(), vector.data() + vector.size());
    return all;
  }
};

}  // namespace eigenformer::test
