// Files to be read: why one cannot be, in the system's words.
#pragma once

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <ios>
#include <string>
#include <string_view>
#include <system_error>

#include "eigenformer/core/error.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

namespace detail {

inline std::string system_error_text(int number) { return std::error_code(number, std::generic_category()).message(); }

/// What is there instead of a regular file.
inline std::string_view file_kind(std::filesystem::file_type type) {
  switch (type) {
    case std::filesystem::file_type::directory: return "a folder";
    case std::filesystem::file_type::character:
    case std::filesystem::file_type::block: return "a device";
    case std::filesystem::file_type::fifo: return "a FIFO";
    case std::filesystem::file_type::socket: return "a socket";
    default: return "something else";
  }
}

/// Whether nothing has this name. Of what may not be looked at that is not said.
inline bool is_missing(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::status(path, ignored).type() == std::filesystem::file_type::not_found;
}

}  // namespace detail

/// A regular file, open to be read. An Error says why it cannot be: that it is not there is said of no other.
inline std::ifstream open_file(std::string_view place, const std::filesystem::path& path) {
  std::error_code error;
  const auto type = std::filesystem::status(path, error).type();
  ensure(type != std::filesystem::file_type::not_found, place, path.string(), ": there is no such file");
  ensure(type != std::filesystem::file_type::none, place, path.string(), ": cannot be read: ", error.message());
  ensure(type == std::filesystem::file_type::regular, place, path.string(), ": there is no such file, but ",
         detail::file_kind(type));
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  ensure(file.is_open(), place, path.string(), ": cannot be read: ", detail::system_error_text(errno));
  return file;
}

}  // namespace eigenformer
