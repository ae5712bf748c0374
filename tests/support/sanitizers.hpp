// Whether this is a program of a sanitizer that has ideas of its own about memory: what limits the system cannot be
// tested there.
#pragma once

namespace eigenformer::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool memory_is_sanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
inline constexpr bool memory_is_sanitized = true;
#else
inline constexpr bool memory_is_sanitized = false;
#endif
#else
inline constexpr bool memory_is_sanitized = false;
#endif

}  // namespace eigenformer::test
