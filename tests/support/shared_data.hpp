// Models and reference values that may lie beside the source tree: tests that want them skip where they are not.
#pragma once

#include <filesystem>

namespace eigenformer::test {

/// The folder with all of them, which need not be there.
inline std::filesystem::path shared_data() { return EIGENFORMER_SHARED_DATA; }

}  // namespace eigenformer::test
