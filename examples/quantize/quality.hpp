// What a model in a format is worth beside the one in float: how well each knows a text, and how far apart they are.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "eigenformer/core/context.hpp"
#include "eigenformer/kernel/row.hpp"
#include "eigenformer/kernel/softmax.hpp"

namespace quantizing {

using eigenformer::ConstView;
using eigenformer::Context;
using eigenformer::Id;
using eigenformer::Index;
using eigenformer::Shape;

struct Quality {
  double perplexity = 0;
  double divergence = 0;  // of Kullback and Leibler, from the float model: nats per token
};

/// Windows of `length` tokens at most, each after bos if there is one.
inline std::vector<std::vector<Id>> windows_of(const std::vector<Id>& ids, std::optional<Id> bos, Index length) {
  std::vector<std::vector<Id>> windows;
  const std::size_t step = static_cast<std::size_t>(length - (bos ? 1 : 0));
  for (std::size_t first = 0; first < ids.size(); first += step) {
    std::vector<Id> window(ids.begin() + static_cast<std::ptrdiff_t>(first),
                           ids.begin() + static_cast<std::ptrdiff_t>((std::min)(first + step, ids.size())));
    if (bos) window.insert(window.begin(), *bos);
    if (window.size() > 1) windows.push_back(std::move(window));
  }
  return windows;
}

/// Of a model in a format, or of the one in float beside itself.
template <class Model>
Quality quality_of(Context& ctx, const Model& packed, const Model& exact, const std::vector<std::vector<Id>>& windows) {
  constexpr Index rows = 128;  // whose logits are held at a time
  double surprise = 0, divergence = 0;
  Index tokens = 0;
  for (const auto& window : windows) {
    const auto memory = ctx.scratch();
    const auto count = static_cast<Index>(window.size());
    const ConstView<Id, 2> ids(window.data(), Shape{Index{1}, count});
    const auto ours = packed.hidden(ctx, {.ids = ids}), theirs = exact.hidden(ctx, {.ids = ids});  // (1, N, D)
    for (Index first = 0; first + 1 < count; first += rows) {
      const auto of_rows = ctx.scratch();
      const Index now = (std::min)(rows, count - 1 - first);
      const auto q = packed.logits(ctx, ours.slice(1, first, now)).flat(),
                 p = exact.logits(ctx, theirs.slice(1, first, now)).flat();  // (now, V)
      std::vector<Quality> of(static_cast<std::size_t>(now));
      ctx.threads.parallel_for(now, eigenformer::kernel::row_grain(q.width()), [&](Index begin, Index end) {
        for (Index i = begin; i < end; ++i) {
          const auto normalizer = [&](const auto& logits) {
            return eigenformer::kernel::softmax_sum(logits.row(i), logits.width(), [](auto...) {}).log_sum_exp();
          };
          const double of_q = normalizer(q), of_p = normalizer(p);
          Quality& result = of[static_cast<std::size_t>(i)];
          result.perplexity = of_q - static_cast<double>(q(i, window[static_cast<std::size_t>(first + i + 1)]));
          for (Index v = 0; v < q.width(); ++v) {
            const double log_p = static_cast<double>(p(i, v)) - of_p, log_q = static_cast<double>(q(i, v)) - of_q;
            result.divergence += std::exp(log_p) * (log_p - log_q);
          }
        }
      });
      for (const Quality& each : of) surprise += each.perplexity, divergence += each.divergence;
      tokens += now;
    }
  }
  const auto all = static_cast<double>(tokens);
  return {std::exp(surprise / all), divergence / all};
}

}  // namespace quantizing
