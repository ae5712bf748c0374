// Counts what is asked from the system. The one unit that defines EIGENFORMER_COUNT_ALLOCATIONS replaces operator new.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace eigenformer::test {

inline std::atomic<std::size_t> allocations = 0, largest_allocation = 0;  // in bytes

}  // namespace eigenformer::test

#ifdef EIGENFORMER_COUNT_ALLOCATIONS

namespace {

void* counted(void* memory, std::size_t bytes) {
  ++eigenformer::test::allocations;
  if (bytes > eigenformer::test::largest_allocation) eigenformer::test::largest_allocation = bytes;
  if (!memory) throw std::bad_alloc();
  return memory;
}

}  // namespace

// Not inlined: g++ would take free() for the wrong partner of new.
[[gnu::noinline]] void* operator new(std::size_t bytes) { return counted(std::malloc(bytes > 0 ? bytes : 1), bytes); }
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t align) {
  const auto unit = static_cast<std::size_t>(align);
  return counted(std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit), bytes);
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++eigenformer::test::allocations;
  return std::malloc(bytes > 0 ? bytes : 1);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

#endif
