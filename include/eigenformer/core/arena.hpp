// Arena: the memory of activations. Allocation moves a pointer; everything is released at once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
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

namespace eigenformer {

/// A stack of memory blocks. In steady state (the same work again after reset()) it asks the system for nothing.
/// Released memory is poisoned under AddressSanitizer, and new memory filled with NaN bytes in debug builds, so that
/// a view that outlived its arena is found.
class Arena {
 public:
  /// How far the stack reaches; from mark(), for rewind().
  struct Mark {
    std::size_t block = 0, used = 0;
  };

  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() { release_all(); }

  /// `count` uninitialised elements on a cache line; never null.
  template <class T>
  T* allocate(Index count) {
    return static_cast<T*>(allocate_bytes(static_cast<std::size_t>((std::max)(count, Index{1})) * sizeof(T)));
  }

  /// An uninitialised tensor.
  template <class T, int Rank>
  View<T, Rank> allocate(Shape<Rank> shape) {
    require(checked_count(shape, sizeof(T)) >= 0, "arena", "a negative extent, or too many elements, in ", shape);
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

  /// Releases everything allocated since the mark.
  void rewind(Mark mark) {
    for (std::size_t block = mark.block; block < blocks_.size() && block <= position_.block; ++block) {
      const std::size_t from = block == mark.block ? mark.used : 0;
      poison(blocks_[block].data + from, blocks_[block].bytes - from);
    }
    position_ = mark;
  }

  /// Releases everything; several blocks become one, so that the next round of the same size needs no other.
  void reset() {
    rewind({});
    if (blocks_.size() < 2) return;
    const std::size_t bytes = capacity();
    release_all();
    blocks_.push_back({static_cast<std::byte*>(aligned_allocate(bytes)), bytes});
    poison(blocks_.back().data, bytes);
  }

  /// Memory that is released at the end of the C++ scope.
  class Scratch {
   public:
    explicit Scratch(Arena& arena) : arena_(arena), mark_(arena.mark()) {}
    ~Scratch() { arena_.rewind(mark_); }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

   private:
    Arena& arena_;
    Mark mark_;
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
};

}  // namespace eigenformer
