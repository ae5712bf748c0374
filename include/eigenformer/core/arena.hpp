// Arena: the memory of activations. Allocation moves a pointer; everything is released at once.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "eigenformer/core/tensor.hpp"

#if defined(__SANITIZE_ADDRESS__)
#define EIGENFORMER_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EIGENFORMER_ADDRESS_SANITIZER 1
#endif
#endif
#ifdef EIGENFORMER_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#endif

namespace eigenformer::inline EIGENFORMER_ABI {

/// A stack of memory blocks. In steady state (the same work again after reset()) it asks the system for nothing.
/// Released memory is poisoned under AddressSanitizer, and new memory filled with NaN bytes in debug builds, so that
/// a view that outlived its arena is found.
class Arena {
 public:
  /// How far the stack reaches; from mark(), for rewind().
  struct Mark {
    std::size_t block = 0, used = 0;
    friend constexpr auto operator<=>(const Mark&, const Mark&) = default;
  };

  /// Who keeps addresses of an arena, and so has to forget them when their memory is released: forget_released() is
  /// called when it just has been, and can still be read. The arena and its guests may end in any order.
  class Guest {
   public:
    Guest() = default;
    Guest(const Guest&) = delete;
    Guest& operator=(const Guest&) = delete;

   protected:
    ~Guest() { leave(); }
    virtual void forget_released(const Arena& arena) = 0;

    const Arena* host() const { return host_; }
    /// Becomes a guest of this arena alone.
    void enter(Arena& arena) {
      if (host_ == &arena) return;
      leave();
      host_ = &arena;
      next_ = std::exchange(arena.guests_, this);
    }
    /// What it keeps lies before the end of what is allocated now.
    void keeps_what_is_allocated() {
      if (host_) reach_ = host_->mark();
    }

   private:
    friend Arena;
    void leave() {
      if (!host_) return;
      Guest** place = &host_->guests_;
      while (*place != this) place = &(*place)->next_;
      *place = next_;
      host_ = nullptr;
    }

    Arena* host_ = nullptr;
    Guest* next_ = nullptr;
    Mark reach_;
  };

  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() {
    rewind({});
    while (guests_) guests_->leave();
    release_all();
  }

  /// `count` uninitialised elements on a cache line; never null.
  template <class T>
  T* allocate(Index count) {
    ensure(checked_count(Shape{count}, sizeof(T)) >= 0, "arena", count, " elements of ", sizeof(T),
           " bytes are negative or too many");
    return static_cast<T*>(allocate_bytes(static_cast<std::size_t>((std::max)(count, Index{1})) * sizeof(T)));
  }

  /// An uninitialised tensor.
  template <class T, int Rank>
  View<T, Rank> allocate(Shape<Rank> shape) {
    ensure(checked_count(shape, sizeof(T)) >= 0, "arena", "a negative extent, or too many elements, in ", shape);
    return {allocate<T>(shape.size()), shape};
  }

  void* allocate_bytes(std::size_t bytes) {
    bytes = (bytes + alignment - 1) / alignment * alignment;
    while (position_.block < blocks_.size() && position_.used + bytes > blocks_[position_.block].bytes)
      position_ = {position_.block + 1, 0};
    if (position_.block == blocks_.size()) {
      const std::size_t grown = (std::max)({bytes, std::size_t{1} << 16, capacity()});
      blocks_.push_back({static_cast<std::byte*>(aligned_allocate(grown)), grown});
      poison(blocks_.back().data, grown);
    }
    std::byte* memory = blocks_[position_.block].data + position_.used;
    position_.used += bytes;
    unpoison(memory, bytes);
#ifndef NDEBUG
    std::memset(memory, 0xff, bytes);
#endif
    return memory;
  }

  Mark mark() const { return position_; }

  /// Whether this is an address in memory of the arena that is not allocated.
  bool released(const void* address) const {
    const auto before = std::less<const void*>();
    for (std::size_t block = position_.block; block < blocks_.size(); ++block) {
      const std::byte* const data = blocks_[block].data;
      if (!before(address, data + (block == position_.block ? position_.used : 0)) &&
          before(address, data + blocks_[block].bytes))
        return true;
    }
    return false;
  }

  /// Releases everything allocated since the mark; nothing, if that has been released already.
  void rewind(Mark mark) {
    if (position_ <= mark) return;
    const Mark end = std::exchange(position_, mark);
    for (Guest* guest = guests_; guest; guest = guest->next_)
      if (mark < guest->reach_) {
        guest->reach_ = mark;
        guest->forget_released(*this);
      }
    for (std::size_t block = mark.block; block < blocks_.size() && block <= end.block; ++block) {
      const std::size_t from = block == mark.block ? mark.used : 0;
      poison(blocks_[block].data + from, blocks_[block].bytes - from);
    }
  }

  /// Releases everything; several blocks become one, so that the next round of the same size needs no other.
  void reset() {
    rewind({});
    ++round_;
    if (blocks_.size() < 2) return;
    const std::size_t bytes = capacity();
    release_all();
    blocks_.push_back({static_cast<std::byte*>(aligned_allocate(bytes)), bytes});
    poison(blocks_.back().data, bytes);
  }

  /// Memory that is released at the end of the C++ scope.
  class Scratch {
   public:
    explicit Scratch(Arena& arena) : arena_(arena), mark_(arena.mark()), round_(arena.round_) {}
    ~Scratch() {
      if (arena_.round_ == round_) arena_.rewind(mark_);  // else a reset() did, and the mark means nothing now
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

   private:
    Arena& arena_;
    Mark mark_;
    std::size_t round_;
  };
  [[nodiscard]] Scratch scratch() { return Scratch(*this); }

  /// Bytes held from the system.
  std::size_t capacity() const {
    std::size_t sum = 0;
    for (const Block& block : blocks_) sum += block.bytes;
    return sum;
  }

 private:
  struct Block {
    std::byte* data;
    std::size_t bytes;
  };

  static void poison([[maybe_unused]] std::byte* data, [[maybe_unused]] std::size_t bytes) {
#ifdef EIGENFORMER_ADDRESS_SANITIZER
    ASAN_POISON_MEMORY_REGION(data, bytes);
#endif
  }
  static void unpoison([[maybe_unused]] void* data, [[maybe_unused]] std::size_t bytes) {
#ifdef EIGENFORMER_ADDRESS_SANITIZER
    ASAN_UNPOISON_MEMORY_REGION(data, bytes);
#endif
  }
  void release_all() {
    for (const Block& block : blocks_) {
      unpoison(block.data, block.bytes);
      aligned_deallocate(block.data);
    }
    blocks_.clear();
  }

  std::vector<Block> blocks_;
  Mark position_;
  std::size_t round_ = 0;  // resets so far
  Guest* guests_ = nullptr;
};

}  // namespace eigenformer
