// Counter-based random numbers: a value is a function of where it is used, not of how many were drawn before.
// Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3": Philox 4×32, 10 rounds.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "eigenformer/core/scalar.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

using PhiloxBlock = std::array<std::uint32_t, 4>;

inline constexpr int philox_rounds = 10;
inline constexpr std::uint32_t philox_factor0 = 0xD2511F53, philox_factor1 = 0xCD9E8D57, philox_step0 = 0x9E3779B9,
                               philox_step1 = 0xBB67AE85;

/// 128 random bits for a 128-bit counter and a 64-bit key.
constexpr PhiloxBlock philox(PhiloxBlock counter, std::uint64_t key) {
  auto key0 = static_cast<std::uint32_t>(key), key1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < philox_rounds; ++round) {
    const std::uint64_t a = std::uint64_t{philox_factor0} * counter[0], b = std::uint64_t{philox_factor1} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key0, static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key1, static_cast<std::uint32_t>(a)};
    key0 += philox_step0;
    key1 += philox_step1;
  }
  return counter;
}

/// A stream of sites: every random decision of a step takes the next one, in program order.
struct Random {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;       ///< e.g. the training step
  std::uint32_t next_site = 0;  ///< counts up within a step

  /// Begins a step.
  void start(std::uint32_t at_step) { step = at_step, next_site = 0; }
};

/// One site's random numbers, addressed by row and column.
struct RandomSite {
  std::uint64_t seed = 0;
  std::uint32_t step = 0, site = 0;

  RandomSite() = default;
  explicit RandomSite(Random& random) : seed(random.seed), step(random.step), site(random.next_site++) {}

  constexpr PhiloxBlock counter(Index row, Index block) const {
    return {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(row), site, step};
  }
  /// The 128 bits at (row, block).
  constexpr PhiloxBlock block(Index row, Index block) const { return philox(counter(row, block), seed); }
};

/// Uniform and normal numbers one after another, for initialisation and data; the same on every platform.
class RandomSequence {
 public:
  explicit RandomSequence(std::uint64_t seed, std::uint32_t stream = 0) : seed_(seed), stream_(stream) {}

  std::uint32_t bits() {
    if (used_ == 4) {
      block_ =
          philox({static_cast<std::uint32_t>(count_), static_cast<std::uint32_t>(count_ >> 32), stream_, ~0u}, seed_);
      ++count_;
      used_ = 0;
    }
    return block_[static_cast<std::size_t>(used_++)];
  }

  /// In [0, 1), a multiple of 2⁻⁵³.
  double uniform() {
    const std::uint64_t high = bits() >> 5, low = bits() >> 6;
    return static_cast<double>(high << 26 | low) * 0x1p-53;
  }

  /// In [0, n), without bias worth mentioning (< n·2⁻⁵³).
  Index below(Index n) { return static_cast<Index>(uniform() * static_cast<double>(n)); }

  /// Mean 0, variance 1 (Box and Muller 1958).
  double normal() {
    const double radius = std::sqrt(-2 * std::log1p(-uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  std::uint64_t seed_, count_ = 0;
  std::uint32_t stream_;
  PhiloxBlock block_{};
  int used_ = 4;
};

}  // namespace eigenformer
