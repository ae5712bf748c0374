// Files that are there as a whole, or as they were.
#pragma once

#include <filesystem>
#include <fstream>
#include <ios>
#include <ostream>
#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "eigenformer/core/error.hpp"

namespace eigenformer {

namespace detail {

struct TemporaryFile {
  std::filesystem::path path;

  explicit TemporaryFile(std::filesystem::path beside) : path(std::move(beside)) {
    std::random_device random;
    path += "." + std::to_string(random()) + std::to_string(random()) + ".tmp";
  }
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);  // gone already if it was renamed
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
};

}  // namespace detail

/// write(stream) fills a temporary file beside `path`, which is then renamed: a failure is an Error, leaves nothing behind, and
/// leaves a file that was there as it was.
template <class F>
void replace_file(std::string_view place, const std::filesystem::path& path, F&& write) {
  const detail::TemporaryFile temporary(path);
  {
    std::ofstream file(temporary.path, std::ios::binary | std::ios::trunc);
    require(file.good(), place, path.string(), ": cannot create a file there");
    write(static_cast<std::ostream&>(file));
    file.close();
    require(file.good(), place, path.string(), ": cannot be written, perhaps for lack of space");
  }
  std::error_code error;
  std::filesystem::rename(temporary.path, path, error);
  require(!error, place, path.string(), ": cannot be replaced: ", error.message());
}

/// The same with a text.
inline void replace_text_file(std::string_view place, const std::filesystem::path& path, std::string_view text) {
  replace_file(place, path, [&](std::ostream& file) { file.write(text.data(), static_cast<std::streamsize>(text.size())); });
}

}  // namespace eigenformer
