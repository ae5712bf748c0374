// Every position with every attention: what one gives and the other does not use, or the reverse, does not compile.
#include <gtest/gtest.h>

#include <string>

#include "eigenformer/layer/attention/relative_attention.hpp"
#include "eigenformer/layer/attention/transformer_xl_attention.hpp"
#include "eigenformer/layer/position/learned.hpp"
#include "eigenformer/layer/position/relative.hpp"
#include "eigenformer/layer/position/rotary.hpp"
#include "eigenformer/model/marian.hpp"

namespace eigenformer::test {
namespace {

template <class... Attentions>
struct PairsWith {
  template <class Position>
  static std::string of() {
    std::string fits;
    (fits.append(position_fits<Position, Attentions> ? "1" : "0"), ...);
    return fits;
  }
};

template <class Heads>
using EveryScore = PairsWith<Attention<float, Heads, PlainScores<>>, Attention<float, Heads, AlibiScores<>>,
                             Attention<float, Heads, CappedScores<>>, Attention<float, Heads, BiasedScores<>>>;

/// By heads: plain, plain with a norm, rotary, rotary with a norm; in each by scores: plain, ALiBi, capped, biased.
/// Then attentions that have their own positions.
template <class Position>
std::string fits() {
  const auto with = []<class Heads>(Heads*) { return EveryScore<Heads>::template of<Position>() + " "; };
  return with(static_cast<PlainHeads<>*>(nullptr)) +
         with(static_cast<QkNorm<float, RmsNorm<>, PlainHeads<>>*>(nullptr)) +
         with(static_cast<RotaryHeads<>*>(nullptr)) + with(static_cast<QkNorm<>*>(nullptr)) +
         PairsWith<RelativeAttention<>, TransformerXlAttention<>>::of<Position>();
}

TEST(PositionPairs, OnlyThoseThatUseEachOther) {
  const std::string apart = "1110 1110 0000 0000 11";
  EXPECT_EQ(fits<NoPosition<>>(), apart);
  EXPECT_EQ(fits<Sinusoidal<>>(), apart);
  EXPECT_EQ(fits<SinusoidalHalves<>>(), apart);
  EXPECT_EQ(fits<Learned<>>(), apart);
  EXPECT_EQ(fits<Rotary<>>(), "0000 0000 1110 1110 00");
  EXPECT_EQ(fits<Relative<>>(), "0001 0001 0000 0000 00");
}

}  // namespace
}  // namespace eigenformer::test
