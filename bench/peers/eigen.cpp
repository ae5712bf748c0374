// Eigen's own products. They have no weights packed ahead.
#include "peer.hpp"

namespace eigenformer::bench {
namespace {

const int registered = [] {
  peers().push_back({.name = "Eigen", .linear = [](auto x, auto weight, auto y) -> Work {
                       return [=] { y.matrix().noalias() = x.matrix() * weight.matrix().transpose(); };
                     }});
  return 0;
}();

}  // namespace
}  // namespace eigenformer::bench
