// What a model that keeps a state is given: the next tokens of every sequence, of any lengths, without padding.
#pragma once

#include <cstddef>
#include <numeric>
#include <span>
#include <string_view>

#include "eigenformer/core/error.hpp"
#include "eigenformer/core/scalar.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

struct NextTokens {
  std::span<const Id> ids;          ///< those of the first sequence, then those of the second, …
  std::span<const Index> counts;    ///< of each sequence; 0: none this time
  std::span<const Index> wanted{};  ///< after how many of its last tokens each sequence wants logits; null: after one

  /// Throws unless they are for so many sequences.
  void validate(std::string_view place, Index sequences) const {
    ensure(static_cast<Index>(counts.size()) == sequences, place, "tokens of ", counts.size(),
           " sequences, but there are ", sequences);
    Index total = 0;
    for (const Index count : counts) {
      ensure(count >= 0 && count <= static_cast<Index>(ids.size()) - total, place,
             "counts of tokens that do not add up to ", ids.size());
      total += count;
    }
    ensure(total == static_cast<Index>(ids.size()), place, "counts of ", total, " tokens, but there are ", ids.size());
  }

  Index wanted_of(std::size_t s) const { return wanted.empty() ? 1 : wanted[s]; }
  Index all_wanted() const {
    return wanted.empty() ? static_cast<Index>(counts.size()) : std::accumulate(wanted.begin(), wanted.end(), Index{0});
  }

  /// Throws if there are no tokens for the logits that are wanted.
  void check_wanted(std::string_view place) const {
    ensure(wanted.empty() || wanted.size() == counts.size(), place, "logits wanted of ", wanted.size(),
           " sequences, but there are ", counts.size());
    for (std::size_t s = 0; s < counts.size(); ++s) {
      ensure(counts[s] != 0 || wanted_of(s) == 0, place, "there is no token for sequence ", s,
             ", and so no logits of the next");
      ensure(wanted_of(s) >= 0 && wanted_of(s) <= counts[s], place, "logits wanted after ", wanted_of(s), " of ",
             counts[s], " tokens of sequence ", s);
    }
  }
};

}  // namespace eigenformer
