// The version of the library. The build reads it from these three macros.
#pragma once

#define EIGENFORMER_VERSION_MAJOR 0
#define EIGENFORMER_VERSION_MINOR 1
#define EIGENFORMER_VERSION_PATCH 0

namespace eigenformer {

inline constexpr int version_major = EIGENFORMER_VERSION_MAJOR;
inline constexpr int version_minor = EIGENFORMER_VERSION_MINOR;
inline constexpr int version_patch = EIGENFORMER_VERSION_PATCH;

}  // namespace eigenformer
