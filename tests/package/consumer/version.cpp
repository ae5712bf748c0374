// Cheap to compile: what the target must make visible is only looked for.
#include <cstdio>
#include <eigenformer/version.hpp>

#if __cplusplus < 202002L || !__has_include(<Eigen/Core>)
#error "the target must bring C++20 and Eigen"
#endif

int main() {
  std::printf("%d.%d.%d\n", eigenformer::version_major, eigenformer::version_minor, eigenformer::version_patch);
}
