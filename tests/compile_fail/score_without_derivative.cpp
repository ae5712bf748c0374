// A misspelt derivative is not taken for that of s + something.
// error: static.assert.*the row of a Score has a derivative\(\), or the Score says that it is additive
#include "eigenformer/op/attention.hpp"
using namespace eigenformer;
struct Mine {
  struct Row {
    auto operator()(auto s, Index, auto) const { return s * s; }
    auto derivate(auto s, Index, auto) const { return s + s; }
  };
  Row row(const kernel::ScoreRow&, Index, Index) const { return {}; }
};
ConstView<float, 4> attended(Context& ctx, ConstView<float, 4> q) {
  return op::attention<float>(ctx, q, q, q, {}, Mine());
}
