// The version of the library, and the namespace that all of it lives in.
#pragma once

// The build reads the version from these three.
#define EIGENFORMER_VERSION_MAJOR 0
#define EIGENFORMER_VERSION_MINOR 1
#define EIGENFORMER_VERSION_PATCH 0

// Code that was compiled for different instruction sets, or from different versions of these headers, must not be
// merged by the linker: it could keep the copy that the machine cannot run, and registers, panels and layouts differ.
// Each has an inline namespace of its own, eigenformer::v0_1_0_avx512 for example, which nobody need write.
#if defined(EIGEN_DONT_VECTORIZE)
#define EIGENFORMER_INSTRUCTION_SET scalar
#elif defined(__AVX512FP16__)
#define EIGENFORMER_INSTRUCTION_SET avx512fp16
#elif defined(__AVX512BF16__)
#define EIGENFORMER_INSTRUCTION_SET avx512bf16
#elif defined(__AVX512VNNI__)
#define EIGENFORMER_INSTRUCTION_SET avx512vnni
#elif defined(__AVX512F__) && defined(__AVX512VL__) && defined(__AVX512BW__) && defined(__AVX512DQ__)
#define EIGENFORMER_INSTRUCTION_SET avx512
#elif defined(__AVX512F__)
#define EIGENFORMER_INSTRUCTION_SET avx512f
#elif defined(__AVX2__) && defined(__FMA__) && defined(__AVXVNNI__)
#define EIGENFORMER_INSTRUCTION_SET avx2vnni
#elif defined(__AVX2__) && defined(__FMA__)
#define EIGENFORMER_INSTRUCTION_SET avx2
#elif defined(__AVX__)
#define EIGENFORMER_INSTRUCTION_SET avx
#elif defined(__SSE4_1__)
#define EIGENFORMER_INSTRUCTION_SET sse4
#else
#define EIGENFORMER_INSTRUCTION_SET baseline
#endif

#define EIGENFORMER_ABI_NAME_(major, minor, patch, instructions) v##major##_##minor##_##patch##_##instructions
#define EIGENFORMER_ABI_NAME(major, minor, patch, instructions) EIGENFORMER_ABI_NAME_(major, minor, patch, instructions)
#define EIGENFORMER_ABI                                                                                 \
  EIGENFORMER_ABI_NAME(EIGENFORMER_VERSION_MAJOR, EIGENFORMER_VERSION_MINOR, EIGENFORMER_VERSION_PATCH, \
                       EIGENFORMER_INSTRUCTION_SET)

namespace eigenformer::inline EIGENFORMER_ABI {

inline constexpr int version_major = EIGENFORMER_VERSION_MAJOR;
inline constexpr int version_minor = EIGENFORMER_VERSION_MINOR;
inline constexpr int version_patch = EIGENFORMER_VERSION_PATCH;

}  // namespace eigenformer
