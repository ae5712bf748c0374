// Key-value cache: the keys and values of tokens that have passed, so that the next ones need only themselves computed.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "eigenformer/core/context.hpp"
#include "eigenformer/core/error.hpp"
#include "eigenformer/core/format.hpp"
#include "eigenformer/core/settings.hpp"
#include "eigenformer/core/tensor.hpp"
#include "eigenformer/kernel/attention.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// Of one layer, for any number of sequences, each of its own length. A value: copies go on independently, and share
/// the blocks that neither changes; those that share are for one thread at a time.
///
/// Keys and values are kept in T, or, of float, in bf16 (half the memory) or int8 (about a quarter: whole numbers times
/// a scale for each token and head). Attention then computes in float with the numbers that are kept: the same bits
/// whatever the batch and the pieces in which tokens come, but not those of a pass without a cache.
template <Real T>
class KvCache {
 public:
  /// Of keys and values of K heads of width E. A window, if it is not 0, is the widest that any query has: blocks that
  /// it has left behind for good are used again.
  KvCache(Index sequences, Index kv_heads, Index head_width, Index window = 0, Format format = Format::scalar)
      : heads_(kv_heads), width_(head_width), window_(window), format_(format) {
    ensure(sequences >= 0 && sequences <= largest_extent, "kv_cache", "cannot keep ", sequences, " sequences");
    ensure(kv_heads > 0 && head_width > 0, "kv_cache", "cannot keep ", kv_heads, " heads of width ", head_width);
    ensure(bytes_for(kernel::key_block<T>, kv_heads, head_width, format) <= largest_index, "kv_cache", "a block of ",
           kv_heads, " heads of width ", head_width, " is too large");
    ensure(window >= 0, "kv_cache", "window ", window, " is invalid: must be 0 (none) or more");
    detail::with_memory("kv_cache", sequences, "sequences",
                        [&] { sequences_.resize(static_cast<std::size_t>(sequences)); });
  }
  KvCache(const KvCache& other)  // blocks for later use are each one's own
      : sequences_(other.sequences_), heads_(other.heads_), width_(other.width_), window_(other.window_),
        format_(other.format_), reserved_(other.reserved_), spare_(other.spare_) {}
  KvCache(KvCache&&) noexcept = default;
  KvCache& operator=(const KvCache& other) { return *this = KvCache(other); }
  KvCache& operator=(KvCache&&) noexcept = default;
  ~KvCache() = default;

  /// Whether both are for the same heads, and keep as much, in whatever formats.
  bool compatible(const KvCache& other) const {
    return heads_ == other.heads_ && width_ == other.width_ && window_ == other.window_;
  }
  /// Throws if queries with this window, or with none (0), may see what is no longer kept.
  void check_window(Index window) const {
    ensure(window_ == 0 || (window > 0 && window <= window_), "kv_cache", "a cache of a window of ", window_,
           " tokens does not keep what ", window == 0 ? "attention without a window" : "a wider one", " sees");
  }
  Index kv_heads() const { return heads_; }
  Index head_width() const { return width_; }
  Format format() const { return format_; }

  Index sequences() const { return static_cast<Index>(sequences_.size()); }
  /// Tokens so far.
  Index length(Index s) const {
    ensure(s >= 0 && s < sequences(), "kv_cache", "there is no sequence ", s, " of ", sequences());
    return sequences_[static_cast<std::size_t>(s)].length;
  }
  /// What so many tokens of one sequence take, without a reserve, for kv_heads K of width E; throws if 64 bits cannot
  /// say it.
  static std::int64_t bytes_for(Index tokens, Index kv_heads, Index head_width, Format format = Format::scalar) {
    constexpr Index size = kernel::key_block<T>;
    ensure(kernel::KvBlock<T>::keeps(format), "kv_cache", "cannot keep keys and values in ", format_name(format),
           std::is_same_v<T, float> ? ": must be scalar, bf16 or int8" : ": of double, must be scalar");
    ensure(tokens >= 0 && kv_heads > 0 && head_width > 0, "kv_cache", "cannot keep ", tokens, " tokens of ", kv_heads,
           " heads of width ", head_width);
    const double most = 2.0 * sizeof(T) * static_cast<double>(kv_heads) *
                        (static_cast<double>(head_width) + kernel::Vec<T>::lanes) *
                        (static_cast<double>(tokens) + size);
    ensure(most < static_cast<double>((std::numeric_limits<std::int64_t>::max)()), "kv_cache", tokens, " tokens of ",
           kv_heads, " heads of width ", head_width, " take more bytes than can be counted");
    const auto bytes = [=](Index capacity) {
      return kernel::KvBlock<T>{nullptr, capacity, kv_heads, head_width, format}.bytes();
    };
    const std::int64_t whole = bytes(size) * (tokens / size);
    return tokens % size == 0 ? whole : whole + bytes(kernel::KvBlock<T>::fitting(tokens % size, size));
  }

  /// Of memory, blocks that sequences share counted once, and those kept for later use too. Blocks that were made
  /// together are given back together.
  std::int64_t bytes() const {
    std::vector<const Block*> blocks;
    for (const Sequence& sequence : sequences_)
      for (const auto& block : sequence.blocks) blocks.push_back(block.get());
    for (const auto& block : free_) blocks.push_back(block.get());
    std::sort(blocks.begin(), blocks.end());
    blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
    std::int64_t bytes = 0;
    for (const Block* block : blocks) bytes += block ? memory_of(*block).bytes() : 0;
    return bytes;
  }

  /// Room for so many tokens of every sequence, so that it need not grow step by step. Of those appended from now on,
  /// truncate() can take back the last `spare` whatever a window has left behind.
  void reserve(Index tokens, Index spare = 0) {
    ensure(tokens >= 0 && spare >= 0, "kv_cache", "cannot keep ", tokens, " tokens, ", spare, " of them to spare");
    reserved_ = tokens;
    spare_ = spare;
  }

  /// The least that truncate() can leave of a sequence: what an append began with can always be had again.
  Index shortest(Index s) const {
    ensure(s >= 0 && s < sequences(), "kv_cache", "there is no sequence ", s, " of ", sequences());
    return shortest(sequences_[static_cast<std::size_t>(s)]);
  }
  /// Every sequence goes back to its first lengths[s] tokens.
  void truncate(std::span<const Index> lengths) {
    ensure(static_cast<Index>(lengths.size()) == sequences(), "kv_cache", "lengths of ", lengths.size(),
           " sequences, but there are ", sequences());
    for (std::size_t s = 0; s < lengths.size(); ++s)
      ensure(lengths[s] >= shortest(sequences_[s]) && lengths[s] <= sequences_[s].length, "kv_cache", "sequence ", s,
             " cannot go back to ", lengths[s], " tokens: it can to ", shortest(sequences_[s]), "…",
             sequences_[s].length);
    for (std::size_t s = 0; s < lengths.size(); ++s) {
      Sequence& sequence = sequences_[s];
      sequence.length = lengths[s];
      const Index used = (lengths[s] + kernel::key_block<T> - 1) / kernel::key_block<T>;
      for (; static_cast<Index>(sequence.blocks.size()) > used; sequence.blocks.pop_back())
        release(sequence.blocks.back());
    }
  }

  /// Sequence i becomes what which[i] was: reorders, drops and forks. Nothing is copied before one of those that share
  /// a block appends to it.
  void select(std::span<const Index> which) {
    for (const Index from : which)
      ensure(from >= 0 && from < sequences(), "kv_cache", "there is no sequence ", from, " of ", sequences());
    selected_.resize(which.size());
    for (std::size_t i = 0; i < which.size(); ++i) selected_[i] = sequences_[static_cast<std::size_t>(which[i])];
    std::swap(selected_, sequences_);
    for (Sequence& old : selected_) {
      for (auto& block : old.blocks) release(block);
      old.blocks.clear();
    }
  }

  /// Appends counts[s] tokens to each sequence: keys, which are multiplied by `scale`, and values (1, tokens of all, K,
  /// E), one sequence after the other.
  void append(const Threads& threads, ConstView<T, 4> keys, ConstView<T, 4> values, std::span<const Index> counts,
              double scale) {
    const Index heads = keys.extent(2), width = keys.extent(3);
    ensure(static_cast<Index>(counts.size()) == sequences(), "kv_cache", "tokens of ", counts.size(),
           " sequences, but there are ", sequences());
    ensure(keys.shape() == values.shape() && keys.extent(0) == 1, "kv_cache", "keys ", keys.shape(), " and values ",
           values.shape(), " do not fit");
    Index total = 0;
    for (const Index count : counts) {
      ensure(count >= 0, "kv_cache", "cannot take up ", count, " tokens");
      total += (std::min)(count, (std::numeric_limits<Index>::max)() - total);
    }
    ensure(total == keys.extent(1), "kv_cache", total, " tokens of all sequences, but keys ", keys.shape());
    ensure(heads == heads_ && width == width_, "kv_cache", "keys ", keys.shape(), " do not fit a cache of ", heads_,
           " heads of width ", width_);
    constexpr Index size = kernel::key_block<T>;
    Index first = 0;
    for (std::size_t s = 0; s < counts.size(); ++s) {
      Sequence& sequence = sequences_[s];
      const Index end = sequence.length + counts[s],
                  first_seen = sequence.length - (std::min)(spare_, sequence.length) - window_ + 1,
                  oldest = window_ > 0 ? (std::max)(first_seen, Index{0}) / size : 0;
      for (; sequence.passed < oldest; ++sequence.passed)
        release(sequence.blocks[static_cast<std::size_t>(sequence.passed)]);
      for (Index at = sequence.length, number = at / size; at < end; at = ++number * size) {
        const Index used = at - number * size, tokens = (std::min)(end, (number + 1) * size) - at;
        const kernel::KvBlock<T> block = room(sequence, number, used, used + tokens, [&](Index capacity) {
          Index like_it = 1;  // so many others need their next block of the same capacity
          for (std::size_t other = s + 1; other < counts.size(); ++other)
            if (counts[other] > 0) {
              const Index at_other = sequences_[other].length,
                          block_needed = (std::min)(at_other % size + counts[other], size);
              like_it += will_need(other, at_other / size, block_needed) &&
                         capacity_for(at_other / size, block_needed) == capacity;
            }
          return like_it;
        });
        threads.parallel_for(heads, 16384 / (tokens * width), [&](Index begin, Index last) {
          for (Index h = begin; h < last; ++h)
            block.put(h, used, kernel::detail::head(keys, 0, h).slice(0, first + at - sequence.length, tokens),
                      kernel::detail::head(values, 0, h).slice(0, first + at - sequence.length, tokens),
                      static_cast<T>(scale));
        });
      }
      first += counts[s];
      sequence.length = end;
    }
  }

  /// For attention by counts[s] queries of each sequence. Lives in the context.
  ConstView<typename kernel::CachedAttentionInputs<T>::Sequence, 1> view(Context& ctx,
                                                                         std::span<const Index> counts) const {
    ensure(static_cast<Index>(counts.size()) == sequences(), "kv_cache", "queries of ", counts.size(),
           " sequences, but there are ", sequences());
    Index room = largest_extent;
    for (const Index count : counts)
      ensure(count >= 0 && count <= room, "kv_cache", "cannot have ", count, " queries"), room -= count;
    const auto list = ctx.arena.allocate<typename kernel::CachedAttentionInputs<T>::Sequence>(Shape{sequences()});
    Index first = 0;
    for (std::size_t s = 0; s < counts.size(); ++s) {
      const Sequence& sequence = sequences_[s];
      auto* const blocks = ctx.arena.allocate<kernel::KvBlock<T>>(static_cast<Index>(sequence.blocks.size()));
      for (std::size_t i = 0; i < sequence.blocks.size(); ++i)
        blocks[i] = sequence.blocks[i] ? memory_of(*sequence.blocks[i]) : kernel::KvBlock<T>{};
      list[static_cast<Index>(s)] = {first, counts[s], sequence.length, blocks};
      first += counts[s];
    }
    return list;
  }

 private:
  struct Block {
    std::shared_ptr<T> data;  // of memory that several blocks share
    Index capacity;
  };
  using Shared = std::shared_ptr<Block>;
  struct Sequence {
    std::vector<Shared> blocks;
    Index length = 0, passed = 0;  // blocks that the window has left behind
  };

  /// The window sees none of the blocks that it has left behind.
  Index shortest(const Sequence& sequence) const {
    return sequence.passed == 0 ? 0 : sequence.passed * kernel::key_block<T> + window_ - 1;
  }

  kernel::KvBlock<T> memory_of(const Block& block) const { return block_at(block.data.get(), block.capacity); }
  kernel::KvBlock<T> block_at(T* data, Index capacity) const { return {data, capacity, heads_, width_, format_}; }

  static bool unshared(const Shared& block) {
    if (block.use_count() != 1) return false;
    std::atomic_thread_fence(std::memory_order_acquire);  // whoever shared it has read it
    return true;
  }
  void release(Shared& block) {
    if (block && unshared(block)) free_.push_back(std::move(block));
    block.reset();
  }

  /// Whether the block of this number is there, ours alone, and large enough.
  static bool has_room(const Sequence& sequence, Index number, Index needed) {
    const auto at = static_cast<std::size_t>(number);
    return at < sequence.blocks.size() && sequence.blocks[at] && sequence.blocks[at]->capacity >= needed &&
           unshared(sequence.blocks[at]);
  }

  /// Whether this sequence will have to take another block when its turn comes: of those that share one, the last keeps
  /// it.
  bool will_need(std::size_t s, Index number, Index needed) const {
    const auto at = static_cast<std::size_t>(number);
    const auto& blocks = sequences_[s].blocks;
    if (at >= blocks.size() || !blocks[at] || blocks[at]->capacity < needed) return true;
    return std::any_of(sequences_.begin() + static_cast<Index>(s) + 1, sequences_.end(), [&](const Sequence& later) {
      return at < later.blocks.size() && later.blocks[at] == blocks[at];
    });
  }

  Index capacity_for(Index number, Index needed) const {
    constexpr Index size = kernel::key_block<T>;
    return kernel::KvBlock<T>::fitting((std::max)(needed, (std::min)(reserved_ - number * size, size)), size);
  }

  /// The block of this number, with `used` tokens, ours alone and with room for `needed`. If there is none,
  /// wanted(capacity) says how many to make.
  kernel::KvBlock<T> room(Sequence& sequence, Index number, Index used, Index needed, auto&& wanted) {
    const auto at = static_cast<std::size_t>(number);
    if (sequence.blocks.size() <= at) sequence.blocks.resize(at + 1);
    Shared& block = sequence.blocks[at];
    if (has_room(sequence, number, needed)) return memory_of(*block);
    Shared larger = take(capacity_for(number, needed), wanted);
    if (block) memory_of(*larger).copy(memory_of(*block), used);
    release(block);
    block = std::move(larger);
    return memory_of(*block);
  }
  Shared take(Index capacity, auto&& wanted) {
    for (Shared& block : free_)
      if (block->capacity == capacity && unshared(block)) {
        std::swap(block, free_.back());
        Shared taken = std::move(free_.back());
        free_.pop_back();
        return taken;
      }
    // Several at once make memory in large pages. Nothing is set: no result depends on what is not written.
    const Index size = block_at(nullptr, capacity).size(),
                count = std::clamp(most_at_once / size, Index{1}, Index{wanted(capacity)});
    const std::shared_ptr<T> memory(
        static_cast<T*>(aligned_allocate(static_cast<std::size_t>(count * size) * sizeof(T))),
        [](T* data) { aligned_deallocate(data); });
    for (Index i = 1; i < count; ++i)
      free_.push_back(std::make_shared<Block>(Block{{memory, memory.get() + i * size}, capacity}));
    return std::make_shared<Block>(Block{memory, capacity});
  }

  static constexpr Index most_at_once = Index{1} << 22;  // elements

  std::vector<Sequence> sequences_, selected_;  // selected_: memory for select()
  std::vector<Shared> free_;                    // blocks for reuse
  Index heads_ = 0, width_ = 0, window_ = 0;
  Format format_ = Format::scalar;
  Index reserved_ = 0, spare_ = 0;
};

}  // namespace eigenformer
