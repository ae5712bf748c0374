// OpenBLAS. Its interface has no weights packed ahead.
#include <cblas.h>

#include "peer.hpp"

namespace eigenformer::bench {
namespace {

const int registered = [] {
  peers().push_back({.name = "OpenBLAS", .linear = [](auto x, auto weight, auto y) -> Work {
                       const auto rows = static_cast<blasint>(x.extent(0)), in = static_cast<blasint>(x.extent(1)),
                                  out = static_cast<blasint>(weight.extent(0));
                       if (rows == 1)
                         return [=] {
                           cblas_sgemv(CblasRowMajor, CblasNoTrans, out, in, 1, weight.data(), in, x.data(), 1, 0,
                                       y.data(), 1);
                         };
                       return [=] {
                         cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, out, in, 1, x.data(), in,
                                     weight.data(), in, 0, y.data(), out);
                       };
                     }});
  return 0;
}();

}  // namespace
}  // namespace eigenformer::bench
