// Blocks of cached keys and values in memory that holds anything.
#include "eigenformer/kernel/kv_block.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "eigenformer/kernel/attention.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

constexpr Index kv_width = 5, kv_lanes = kernel::Vec<float>::lanes;

struct Room {
  Index capacity;
  std::vector<float> memory;
  explicit Room(Index tokens)
      : capacity(kernel::KvBlock<float>::fitting(tokens, kernel::key_block<float>)),
        memory(static_cast<std::size_t>(kernel::KvBlock<float>{nullptr, capacity, 2, kv_width}.size()),
               std::numeric_limits<float>::quiet_NaN()) {}
  kernel::KvBlock<float> block() { return {memory.data(), capacity, 2, kv_width}; }
};

/// What a product reads of the first tokens: whole vectors.
void expect_kept(const kernel::KvBlock<float>& block, Index tokens, ConstView<float, 2> keys,
                 ConstView<float, 2> values) {
  for (Index h = 0; h < 2; ++h)
    for (Index j = 0; j < (tokens + kv_lanes - 1) / kv_lanes * kv_lanes; ++j)
      for (Index e = 0; e < kv_width; ++e)
        EXPECT_EQ(block.key_column(h, j)[e * block.key_stride()], j < tokens ? 2 * keys(j, e) : 0)
            << "token " << j << " of " << tokens;
  for (Index j = 0; j < tokens; ++j)
    for (Index e = 0; e < block.padded_width(); ++e)
      EXPECT_EQ(block.value_row(0, j)[e], e < kv_width ? values(j, e) : 0);
}

TEST(KvBlock, WholeVectorsAreNumbersWhateverTheMemoryHeld) {
  const Index panel = kernel::Tile<float>::width;
  for (const Index tokens : {Index{1}, kv_lanes - 1, kv_lanes, kv_lanes + 1, panel + 1, 2 * panel + kv_lanes + 3}) {
    if (tokens == 0) continue;
    const auto keys = random_tensor<float>(Shape{tokens, kv_width}, 1),
               values = random_tensor<float>(Shape{tokens, kv_width}, 2);
    for (const Index piece : {Index{1}, Index{3}, tokens}) {
      Room room(tokens), copied(tokens);
      for (Index first = 0; first < tokens; first += piece)
        for (Index h = 0; h < 2; ++h) {
          const Index count = (std::min)(piece, tokens - first);
          room.block().put(h, first, keys.view().slice(0, first, count), values.view().slice(0, first, count), 2.0F);
        }
      expect_kept(room.block(), tokens, keys, values);
      copied.block().copy(room.block(), tokens);
      expect_kept(copied.block(), tokens, keys, values);
    }
  }
}

}  // namespace
}  // namespace eigenformer::test
