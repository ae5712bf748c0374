// Positions: where the tokens of a batch stand in their sequences.
#pragma once

#include <limits>
#include <string_view>

#include "eigenformer/core/error.hpp"
#include "eigenformer/core/view.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// Token n of every sequence stands at first + n; or where `given` (B, N) says, e.g. for padding on the left.
struct Positions {
  Index first = 0;
  ConstView<Index, 2> given{};

  Index at(Index b, Index n) const { return given ? given(b, n) : first + n; }
  /// Whether all sequences have the same ones.
  bool shared() const { return !given; }

  /// Throws unless they fit (B, N) and none is negative or past what can be counted.
  void validate(std::string_view place, Index batch, Index tokens) const {
    ensure(first >= 0, place, "position ", first, " is negative");
    ensure(first <= (std::numeric_limits<Index>::max)() - tokens, place, "positions from ", first,
           " on are too many for ", tokens, " tokens");
    if (!given) return;
    ensure(given.extent(0) == batch && given.extent(1) == tokens, place, "positions ", given.shape(),
           " do not fit a batch of ", batch, " times ", tokens, " tokens");
    for (Index b = 0; b < batch; ++b)
      for (Index n = 0; n < tokens; ++n)
        ensure(given(b, n) >= 0 && given(b, n) < (std::numeric_limits<Index>::max)(), place, "position ", given(b, n),
               " of token ", n, " in sequence ", b, " is negative, or too large");
  }
};

}  // namespace eigenformer
