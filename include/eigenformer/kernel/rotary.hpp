// Rotary positions (RoFormer: Su et al. 2021): pair i of a query or key is turned by the angle position·frequency(i),
// so that q·k depends on the distance alone.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include "eigenformer/core/gradient.hpp"
#include "eigenformer/core/threads.hpp"
#include "eigenformer/core/view.hpp"
#include "eigenformer/kernel/angle_recurrence.hpp"
#include "eigenformer/kernel/positions.hpp"
#include "eigenformer/kernel/row.hpp"
#include "eigenformer/kernel/simd.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// Which elements make pair i of R: (2i, 2i + 1) as in RoFormer, or (i, i + R/2) as in GPT-NeoX and LLaMA.
enum class RotaryLayout { interleaved, halves };
constexpr std::array<std::string_view, 2> names_of(RotaryLayout) { return {"interleaved", "halves"}; }

namespace kernel {

/// cosine and sine (B or 1, N, R/2) of every position and pair, times the attention factor.
template <class T>
struct RotaryTable {
  ConstView<T, 3> cosine{}, sine{};
  RotaryLayout layout = RotaryLayout::halves;

  explicit operator bool() const { return static_cast<bool>(cosine); }
};

/// Fills the table.
template <class T>
void rotary_table(const Threads& threads, const std::vector<double>& frequencies, double factor,
                  const Positions& positions, View<T, 3> cosine, View<T, 3> sine) {
  threads.parallel_for(static_cast<Index>(frequencies.size()), 8, [&](Index begin, Index end) {
    for (Index pair = begin; pair < end; ++pair) {
      AngleRecurrence angle(frequencies[static_cast<std::size_t>(pair)]);
      for (Index b = 0; b < cosine.extent(0); ++b)
        for (Index n = 0; n < cosine.extent(1); ++n) {
          angle.to(positions.at(b, n));
          cosine(b, n, pair) = static_cast<T>(angle.cosine * factor);
          sine(b, n, pair) = static_cast<T>(angle.sine * factor);
        }
    }
  });
}

/// y ← x (B, N, H, E) with the first R elements of each head turned, forward or (direction −1) back; the others as they
/// are.
template <class T>
void rotary(const Threads& threads, ConstView<T, 4> x, const RotaryTable<T>& table, T direction, Gradient<T, 4> y) {
  if (!y) return;
  const Index tokens = x.extent(1), heads = x.extent(2), width = x.extent(3), half = table.cosine.extent(2);
  threads.parallel_for(x.extent(0) * tokens, row_grain(heads * width), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const Index b = i / tokens, n = i % tokens, table_b = table.cosine.extent(0) == 1 ? 0 : b;
      const T *const cosine = &table.cosine(table_b, n, 0), *const sine = &table.sine(table_b, n, 0);
      for (Index h = 0; h < heads; ++h) {
        const T* const in = &x(b, n, h, 0);
        T* const out = &y.view(b, n, h, 0);
        const auto put = [&](Index j, auto count, Vec<T> value) {
          store(out + j, y.add ? load(out + j, count) + value : value, count);
        };
        if (table.layout == RotaryLayout::halves) {
          for_vectors<T>(half, [&](Index j, auto count) {
            const Vec<T> one = load(in + j, count), other = load(in + half + j, count), c = load(cosine + j, count),
                         s = load(sine + j, count) * Vec<T>(direction);
            put(j, count, one * c - other * s);
            put(half + j, count, other * c + one * s);
          });
        } else {
          for (Index j = 0; j < half; ++j) {
            const T one = in[2 * j], other = in[2 * j + 1], s = sine[j] * direction, left = one * cosine[j] - other * s,
                    right = other * cosine[j] + one * s;
            out[2 * j] = y.add ? out[2 * j] + left : left;
            out[2 * j + 1] = y.add ? out[2 * j + 1] + right : right;
          }
        }
        for_vectors<T>(width - 2 * half,
                       [&](Index j, auto count) { put(2 * half + j, count, load(in + 2 * half + j, count)); });
      }
    }
  });
}

}  // namespace kernel
}  // namespace eigenformer
