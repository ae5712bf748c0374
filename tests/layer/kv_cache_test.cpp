// The key-value cache under every kind of attention: against one pass over everything, bit for bit, beyond the size of
// its blocks.
#include "eigenformer/layer/attention/kv_cache.hpp"

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "eigenformer/layer/attention/attention.hpp"
#include "eigenformer/layer/attention/relative_attention.hpp"
#include "eigenformer/layer/attention/transformer_xl_attention.hpp"
#include "support/error.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

constexpr Index cached_width = 6;

/// Sequences that go on in steps of counts[s] tokens, with whatever select() does to them; `layer` must not depend on
/// company. In float they give one pass over everything, in a format what each gives alone, token by token.
template <class Layer>
struct CachedRun {
  const Layer& layer;
  Tensor<float, 3> x;      // (B, N, D)
  Tensor<float, 3> whole;  // what is expected
  KvCache<float> cache;
  std::vector<Index> who;  // sequence i is a beginning of x[who[i]]

  CachedRun(const Layer& of, Index batch, Index tokens, Format format = Format::scalar)
      : layer(of), x(random_tensor<float>(Shape{batch, tokens, cached_width}, 7)), cache(of.cache(batch, format)) {
    Context ctx;
    for (Index b = 0; b < batch; ++b) who.push_back(b);
    if (format != Format::scalar) token_by_token();
    else whole = Tensor<float, 3>(layer(ctx, x, AttentionCall<float>{.mask = {.causal = true}}));
  }

  void token_by_token() {
    whole = Tensor<float, 3>(x.shape());
    const std::vector<Index> one{1};
    Context ctx;
    for (Index b = 0; b < x.extent(0); ++b) {
      KvCache<float> alone = layer.cache(1, cache.format());
      for (Index t = 0; t < x.extent(1); ++t) {
        ctx.reset();
        const auto y = layer(ctx, std::as_const(x).view().slice(0, b, 1).slice(1, t, 1),
                             AttentionCall<float>{.mask = {.causal = true}, .caches = &alone, .counts = one});
        std::copy_n(y.data(), cached_width, &whole(b, t, 0));
      }
    }
  }

  void next(const std::vector<Index>& counts, const Threads& threads = {}) {
    Index total = 0;
    for (const Index count : counts) total += count;
    Tensor<float, 3> rows(Shape{Index{1}, total, cached_width});
    std::vector<Index> first;
    float* to = rows.data();
    for (std::size_t s = 0; s < counts.size(); ++s) {
      first.push_back(cache.length(static_cast<Index>(s)));
      to = std::copy_n(x.view()[who[s]].slice(0, first[s], counts[s]).data(), counts[s] * cached_width, to);
    }
    Context ctx(threads);
    const auto y = layer(ctx, rows, AttentionCall<float>{.mask = {.causal = true}, .caches = &cache, .counts = counts});
    Index row = 0;
    for (std::size_t s = 0; s < counts.size(); row += counts[s++])
      ASSERT_TRUE(
          identical(y[0].slice(0, row, counts[s]), std::as_const(whole).view()[who[s]].slice(0, first[s], counts[s])))
          << "sequence " << s << " from " << first[s];
  }
  void select(const std::vector<Index>& which) {
    cache.select(which);
    std::vector<Index> chosen;
    for (const Index i : which) chosen.push_back(who[static_cast<std::size_t>(i)]);
    who = chosen;
  }
};

template <class Layer>
void check_layer(const Layer& layer, Index tokens, Format format = Format::scalar) {
  CachedRun<Layer> run(layer, 2, tokens, format);
  run.next({1, 700});
  run.next({511, 1}, Threads(3));
  run.next({1, 1});
  run.select({1, 0, 1, 1});
  run.next({3, 1, 400, 1});
  run.next({1, 600, 1, 1}, Threads(2));
  run.select({2, 1});
  run.next({tokens - run.cache.length(0), 1});
}

template <class Layer>
Layer randomized(Layer layer) {
  randomize(layer, 1);
  return layer;
}

}  // namespace

TEST(KvCache, IsOnePassBitForBit) {
  const AttentionConfig config{.width = cached_width, .heads = 4, .kv_heads = 2, .head_width = 5};
  check_layer(randomized(Attention<float>(config)), 1300);
  check_layer(randomized(Attention<float, PlainHeads<float>, AlibiScores<float>>(
                  {.width = cached_width, .heads = 4, .kv_heads = 2, .head_width = 5, .sinks = true})),
              1300);
  for (const Index window : {1, 3, 600}) {
    AttentionConfig narrow = config;
    narrow.window = window;
    check_layer(randomized(Attention<float>(narrow)), 1300);
  }
  check_layer(randomized(Attention<float, PlainHeads<float>, CappedScores<float>>(
                  {.width = cached_width, .heads = 1, .head_width = 70, .scores = {.cap = 2}})),  // wider than a panel
              1300);
}

TEST(KvCache, IsOnePassForRelativePositions) {
  check_layer(
      randomized(RelativeAttention<float>(RelativeAttentionConfig{.width = cached_width, .heads = 2, .clip = 4})),
      1201);
  check_layer(randomized(TransformerXlAttention<float>({.width = cached_width, .heads = 2})), 1201);
}

TEST(KvCache, InAFormatItIsThatOfEachAloneBitForBit) {
  for (const Format format : {Format::bf16, Format::int8}) {
    SCOPED_TRACE(format_name(format));
    AttentionConfig config{.width = cached_width, .heads = 4, .kv_heads = 2, .head_width = 5, .sinks = true};
    check_layer(randomized(Attention<float>(config)), 1300, format);
    config.window = 600;
    check_layer(randomized(Attention<float>(config)), 1300, format);
    check_layer(randomized(Attention<float, PlainHeads<float>, CappedScores<float>>(
                    {.width = cached_width, .heads = 1, .head_width = 70, .scores = {.cap = 2}})),
                1300, format);
    check_layer(
        randomized(RelativeAttention<float>(RelativeAttentionConfig{.width = cached_width, .heads = 2, .clip = 4})),
        1201, format);
    check_layer(randomized(TransformerXlAttention<float>({.width = cached_width, .heads = 2})), 1201, format);
  }
}

// Relative positions count as in float: outputs differ by what the numbers differ.
TEST(KvCache, InAFormatItIsNearlyFloat) {
  const auto check = [](const auto& layer) {
    const CachedRun exact(layer, 1, 300), narrow(layer, 1, 300, Format::bf16), whole(layer, 1, 300, Format::int8);
    EXPECT_LE(difference(narrow.whole, exact.whole), magnitude(exact.whole) / 128);
    EXPECT_LE(difference(whole.whole, exact.whole), magnitude(exact.whole) / 64);
    EXPECT_GT(difference(narrow.whole, exact.whole), 0);
    EXPECT_GT(difference(whole.whole, exact.whole), 0);
  };
  check(randomized(Attention<float, PlainHeads<float>, AlibiScores<float>>({.width = cached_width, .heads = 2})));
  check(randomized(RelativeAttention<float>(RelativeAttentionConfig{.width = cached_width, .heads = 2, .clip = 4})));
  check(randomized(TransformerXlAttention<float>({.width = cached_width, .heads = 2})));
}

// A window needs no more memory than its blocks and those that a step adds, however long the text.
TEST(KvCache, AWindowIsARing) {
  const auto layer = randomized(Attention<float>({.width = cached_width, .heads = 2, .window = 100}));
  CachedRun run(layer, 1, 4000);
  std::int64_t most = 0;
  for (int i = 0; i < 100; ++i) {
    run.next({40});
    most = (std::max)(most, run.cache.bytes());
  }
  EXPECT_LE(most, 3 * KvCache<float>::bytes_for(kernel::key_block<float>, 2, 3));
  EXPECT_EQ(run.cache.length(0), 4000);
}

// Forks share what they have in common: a copy of the last, partly filled block is all that going on costs.
TEST(KvCache, ForksShare) {
  const auto layer = randomized(Attention<float>({.width = cached_width, .heads = 2}));
  CachedRun run(layer, 1, 1300);
  run.next({1100});
  const std::int64_t one = run.cache.bytes(), block = KvCache<float>::bytes_for(kernel::key_block<float>, 2, 3);
  run.select({0, 0, 0});
  EXPECT_EQ(run.cache.bytes(), one);
  run.next({1, 1, 1});
  EXPECT_LE(run.cache.bytes(), one + 2 * block);
  run.select({1});
  run.select({0, 0, 0});
  run.next({1, 1, 1});
  EXPECT_LE(run.cache.bytes(), one + 2 * block) << "blocks are used again";
}

// Tokens that were taken back leave no trace, in blocks of one's own and in those that forks share; a window's blocks
// come back as far as they are still there.
TEST(KvCache, GoesBack) {
  constexpr Index block = kernel::key_block<float>;
  for (const Index window : {Index{0}, Index{3}, block + 1}) {
    const auto layer = randomized(
        Attention<float>({.width = cached_width, .heads = 4, .kv_heads = 2, .head_width = 5, .window = window}));
    CachedRun run(layer, 2, 3 * block);
    run.cache.reserve(0, 5);
    run.next({block - 2, 2 * block - 1});
    for (int i = 0; i < 5; ++i) run.next({1, 1});
    run.cache.truncate(std::vector<Index>{block - 2, 2 * block - 1});
    run.next({7, 3});
    run.select({0, 0, 1});
    run.next({block, 1, 9});
    run.cache.truncate(std::vector<Index>{block + 5, block + 5, 2 * block + 2});
    run.next({2, block, block - 9});
  }
  const auto layer = randomized(Attention<float>({.width = cached_width, .heads = 2, .window = 100}));
  CachedRun run(layer, 1, 3 * block);
  run.next({2 * block + 50});
  EXPECT_EQ(run.cache.shortest(0), 0) << "what an append began with";
  run.next({70});
  EXPECT_EQ(run.cache.shortest(0), block + 99) << "one block is left behind, and 100 tokens see back into it";
  EXPECT_EQ(error_of([&] { run.cache.truncate(std::vector<Index>{block + 98}); }),
            "[kv_cache] sequence 0 cannot go back to " + std::to_string(block + 98) + " tokens: it can to " +
                std::to_string(block + 99) + "…" + std::to_string(2 * block + 120));
  EXPECT_THROW(run.cache.truncate(std::vector<Index>{2 * block + 121}), Error);
  EXPECT_EQ(error_of([&] { run.cache.truncate({}); }), "[kv_cache] lengths of 0 sequences, but there are 1");
  EXPECT_EQ(error_of([&] { run.cache.reserve(1, -1); }), "[kv_cache] cannot keep 1 tokens, -1 of them to spare");
  run.cache.truncate(std::vector<Index>{block + 99});
  run.next({block});
}

// Two queries after three keys that the cache has, all scores 0, values 1 … 5: the last query sees all (bottom-right).
TEST(KvCache, AlignsBottomRight) {
  Context ctx;
  KvCache<float> cache(2, 1, 1);
  const std::vector<Index> before{3, 0}, now{2, 2};
  Tensor<float, 4> zeros(Shape{1, 4, 1, 1}), values(Shape{1, 4, 1, 1});
  const auto put = [&](std::initializer_list<float> list, const std::vector<Index>& counts) {
    const auto count = static_cast<Index>(list.size());
    std::copy(list.begin(), list.end(), values.data());
    cache.append(ctx.threads, zeros.view().slice(1, 0, count), std::as_const(values).view().slice(1, 0, count), counts,
                 1);
  };
  put({1, 2, 3}, before);
  put({4, 5, 7, 9}, now);
  const auto y = op::cached_attention<float>(ctx, zeros, cache.view(ctx, now), 1, 1, {.causal = true});
  const float want[] = {2.5F, 3, 7, 8};  // the other sequence has its own length
  for (Index i = 0; i < 4; ++i) EXPECT_FLOAT_EQ(y(0, i, 0, 0), want[i]);
}

// By hand: one head of width 3 in whole vectors of 16 bytes or more; a token is a key and a value.
TEST(KvCache, SaysItsMemory) {
  constexpr std::int64_t lanes = kernel::Vec<float>::lanes;
  EXPECT_EQ(KvCache<float>::bytes_for(1, 2, 3), 2 * 4 * lanes * (3 + (3 + lanes - 1) / lanes * lanes));
  EXPECT_EQ(KvCache<float>::bytes_for(kernel::key_block<float> + 1, 1, 16),
            4 * 2 * 16 * (kernel::key_block<float> + lanes));
  if constexpr (sizeof(Index) == 8) {  // 2⁴⁰ whole blocks: of each token 8 heads, keys and values of 128 floats
    constexpr auto tokens = static_cast<Index>((std::int64_t{1} << 40) * kernel::key_block<float>);
    EXPECT_EQ(KvCache<float>::bytes_for(tokens, 8, 128), std::int64_t{tokens} * 8 * 2 * 128 * 4);
    EXPECT_EQ(KvCache<float>::bytes_for(tokens - 1, 8, 128), std::int64_t{tokens} * 8 * 2 * 128 * 4);
    constexpr Index most = std::numeric_limits<Index>::max();
    EXPECT_EQ(error_of([&] { KvCache<float>::bytes_for(4 * tokens, 8, 128); }),
              "[kv_cache] " + std::to_string(4 * tokens) +
                  " tokens of 8 heads of width 128 take more bytes than can be counted");
    for (const auto& [count, kept_heads, kept_width] : {std::tuple{most, Index{1}, Index{1}},
                                                        {Index{1}, most, Index{1}},
                                                        {Index{1}, Index{1}, most},
                                                        {most, most, most}})
      EXPECT_THROW(KvCache<float>::bytes_for(count, kept_heads, kept_width), Error);
  }
  EXPECT_EQ(KvCache<float>::bytes_for(0, 2, 3), 0);
  // More than 32 bits hold: of each token 8 heads, keys and values of 128 floats.
  EXPECT_EQ(KvCache<float>::bytes_for(4096 * kernel::key_block<float>, 8, 128),
            4096 * std::int64_t{kernel::key_block<float>} * 8 * 2 * 128 * 4);
  for (const auto& [count, kept_heads, kept_width] : {std::tuple{-1, 2, 3}, {1, 0, 3}, {1, 2, 0}, {1, -2, 3}})
    EXPECT_THROW(KvCache<float>::bytes_for(count, kept_heads, kept_width), Error);
  const auto layer = randomized(Attention<float>({.width = cached_width, .heads = 2}));
  for (const Format format : {Format::scalar, Format::bf16, Format::int8})
    for (const Index tokens : {1, 40, 700}) {
      CachedRun run(layer, 1, tokens, format);
      EXPECT_EQ(run.cache.bytes(), 0);
      run.next({tokens});
      EXPECT_EQ(run.cache.bytes(), KvCache<float>::bytes_for(tokens, 2, 3, format));
      const auto copy = run.cache;
      EXPECT_EQ(copy.format(), format);
    }
}

// By hand, of each token and head: keys and values of 128 numbers of 4, 2 or 1 bytes; in int8 two scales of 4 bytes.
TEST(KvCache, SaysItsMemoryInAFormat) {
  constexpr std::int64_t tokens = 8 * kernel::key_block<float>;
  EXPECT_EQ(KvCache<float>::bytes_for(tokens, 8, 128), tokens * 8 * 2 * 128 * 4);
  EXPECT_EQ(KvCache<float>::bytes_for(tokens, 8, 128, Format::bf16), tokens * 8 * 2 * 128 * 2);
  EXPECT_EQ(KvCache<float>::bytes_for(tokens, 8, 128, Format::int8), tokens * 8 * 2 * (128 + 4));
  EXPECT_EQ(error_of([&] { KvCache<float>::bytes_for(1, 1, 1, Format::int4); }),
            "[kv_cache] cannot keep keys and values in int4: must be scalar, bf16 or int8");
  EXPECT_EQ(error_of([&] { KvCache<double>(1, 1, 1, 0, Format::int8); }),
            "[kv_cache] cannot keep keys and values in int8: of double, must be scalar");
}

TEST(KvCache, ForksShareInAFormat) {
  const auto layer = randomized(Attention<float>({.width = cached_width, .heads = 2}));
  for (const Format format : {Format::bf16, Format::int8}) {
    CachedRun run(layer, 1, 1300, format);
    run.next({1100});
    const std::int64_t one = run.cache.bytes();
    run.select({0, 0, 0});
    EXPECT_EQ(run.cache.bytes(), one);
    run.next({1, 1, 1});
    EXPECT_EQ(run.cache.bytes(), one + 2 * KvCache<float>::bytes_for(1101 % kernel::key_block<float>, 2, 3, format))
        << "two copies of the last block";
    const std::vector<Index> back{1050, 1050, 1101};
    run.cache.truncate(back);
    run.next({60, 3, 1});
  }
}

// A copy from before every step, to undo it, costs no more and more memory.
TEST(KvCache, CopiesFromStepToStep) {
  const auto layer = randomized(Attention<float>({.width = cached_width, .heads = 2}));
  CachedRun run(layer, 4, 400);
  run.next({1, 100, 7, 50});
  std::int64_t after = 0;
  auto before = run.cache;
  for (int step = 0; step < 200; ++step) {
    before = run.cache;
    run.next({1, 1, 0, step < 2 ? 1 : 0});
    if (step == 100) after = run.cache.bytes() + before.bytes();
  }
  EXPECT_LE(run.cache.bytes() + before.bytes(), 2 * after);
}

// A batch of one long and some short prompts does not give the short ones the room of the long one.
TEST(KvCache, MakesWhatIsNeeded) {
  const auto layer = randomized(Attention<float>({.width = cached_width, .heads = 2}));
  CachedRun run(layer, 4, 500);
  run.next({500, 40, 30, 4});
  std::int64_t needed = 0;
  for (const Index tokens : {500, 40, 30, 4}) needed += KvCache<float>::bytes_for(tokens, 2, 3);
  EXPECT_EQ(run.cache.bytes(), needed);
}

TEST(KvCache, ReservedItDoesNotGrow) {
  const auto layer = randomized(Attention<float>({.width = cached_width, .heads = 2}));
  CachedRun run(layer, 1, 300);
  run.cache.reserve(300);
  run.next({1});
  const std::int64_t bytes = run.cache.bytes();
  for (int i = 0; i < 13; ++i) run.next({23});
  EXPECT_EQ(run.cache.bytes(), bytes);
}

// A call that sees less than the layer leaves the cache what later calls see.
TEST(KvCache, KeepsWhatTheWidestWindowSees) {
  const auto layer = randomized(Attention<float>({.width = cached_width, .heads = 2, .window = 900}));
  CachedRun run(layer, 1, 1300);
  run.next({1200});
  auto narrow = run.cache;
  Context ctx;
  const std::vector<Index> one{1};
  AttentionCall<float> call{.mask = {.causal = true, .window = 2}, .caches = &narrow, .counts = one};
  const auto x = run.x.view().slice(1, 1200, 1);
  layer(ctx, x, call);
  call.mask.window = 0;
  const auto expected = run.x.view().slice(1, 0, 1202);
  EXPECT_TRUE(identical(layer(ctx, run.x.view().slice(1, 1201, 1), call),
                        layer(ctx, expected, {.mask = {.causal = true}}).slice(1, 1201, 1)));

  const auto plain = randomized(Attention<float>({.width = cached_width, .heads = 2}));
  const Index length = run.cache.length(0);
  call.caches = &run.cache;
  EXPECT_EQ(error_of([&] { plain(ctx, x, call); }),
            "[kv_cache] a cache of a window of 900 tokens does not keep what attention without a window sees");
  call.mask.window = 901;
  EXPECT_EQ(error_of([&] { plain(ctx, x, call); }),
            "[kv_cache] a cache of a window of 900 tokens does not keep what a wider one sees");
  call.mask.window = -1;
  EXPECT_EQ(error_of([&] { plain(ctx, x, call); }), "[attention] window -1 is invalid: must be 0 (none) or more");
  EXPECT_EQ(run.cache.length(0), length) << "nothing has changed";
  call.mask.window = 900;
  EXPECT_NO_THROW(plain(ctx, x, call));
}

TEST(KvCache, Errors) {
  const auto layer = randomized(Attention<float>({.width = cached_width, .heads = 2})),
             other = randomized(Attention<float>({.width = cached_width, .heads = 3}));
  Context ctx;
  KvCache<float> cache = layer.cache(2);
  const Tensor<float, 3> x(Shape{Index{1}, Index{3}, cached_width});
  const std::vector<Index> counts{1, 2}, three{1, 1, 1}, four{2, 2}, missing{2};
  const AttentionCall<float> call{.mask = {.causal = true}, .caches = &cache, .counts = counts};
  layer(ctx, x, call);
  EXPECT_EQ(error_of([&] { other(ctx, x, call); }),
            "[kv_cache] keys (1, 3, 3, 2) do not fit a cache of 2 heads of width 3");
  AttentionCall<float> wrong = call;
  wrong.counts = three;
  EXPECT_EQ(error_of([&] { layer(ctx, x, wrong); }), "[kv_cache] tokens of 3 sequences, but there are 2");
  wrong.counts = four;
  EXPECT_EQ(error_of([&] { layer(ctx, x, wrong); }), "[kv_cache] 4 tokens of all sequences, but keys (1, 3, 2, 3)");
  wrong = call;
  wrong.mask.key_lengths = lengths({3});
  EXPECT_EQ(error_of([&] { layer(ctx, x, wrong); }), "[attention] with a cache, a mask is causal or has a window");
  Tape tape;
  ctx.tape = &tape;
  EXPECT_EQ(error_of([&] { layer(ctx, x, call); }),
            "[attention] passes with a cache are neither recorded nor with dropout");
  EXPECT_EQ(error_of([&] { cache.select(std::vector<Index>{2}); }), "[kv_cache] there is no sequence 2 of 2");
  EXPECT_EQ(error_of([&] { KvCache<float>(-1, 1, 1); }), "[kv_cache] cannot keep -1 sequences");
  EXPECT_EQ(cache.length(0), 1) << "nothing has changed";
  EXPECT_EQ(cache.length(1), 2);
}

}  // namespace eigenformer::test
