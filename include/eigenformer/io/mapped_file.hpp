// A file as memory: mapped where the system can, so that what nobody reads is never loaded; else read.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <ios>
#include <istream>
#include <limits>
#include <streambuf>
#include <string>
#include <string_view>
#include <system_error>

#include "eigenformer/core/error.hpp"
#include "eigenformer/core/open_file.hpp"
#include "eigenformer/core/tensor.hpp"
#include "eigenformer/io/replace_file.hpp"

#if EIGENFORMER_POSIX_FILES && __has_include(<sys/mman.h>)
#define EIGENFORMER_MAPS_FILES 1
#include <sys/mman.h>
#else
#define EIGENFORMER_MAPS_FILES 0
#endif

namespace eigenformer::inline EIGENFORMER_ABI {

/// The bytes of a regular file, on a cache line. Whoever replaces the file by another one, as replace_file() does,
/// changes nothing here; whoever writes into it or cuts it off does.
class MappedFile {
 public:
  MappedFile(std::string_view place, const std::filesystem::path& path) {
    std::ifstream stream = open_file(place, path);  // throws if it is no regular file, or not to be read
#if EIGENFORMER_MAPS_FILES
    const detail::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct ::stat now {};
    const bool known = file.number >= 0 && ::fstat(file.number, &now) == 0;
    ensure(known, place, path.string(), ": cannot be read: ", detail::system_error_text(errno));
    ensure(static_cast<std::uintmax_t>(now.st_size) <= (std::numeric_limits<std::size_t>::max)(), place, path.string(),
           ": has ", now.st_size, " bytes, more than this program can address");
    size_ = static_cast<std::size_t>(now.st_size);
    if (size_ == 0) return;
    void* const memory = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.number, 0);
    ensure(memory != MAP_FAILED, place, path.string(), ": cannot be mapped: ", detail::system_error_text(errno));
#else
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(path, error);
    ensure(!error && size <= (std::numeric_limits<std::size_t>::max)(), place, path.string(), ": cannot be read");
    size_ = static_cast<std::size_t>(size);
    if (size_ == 0) return;
    void* const memory = aligned_allocate(size_);
    if (!stream.read(static_cast<char*>(memory), static_cast<std::streamsize>(size_))) {
      aligned_deallocate(memory);
      fail(place, path.string(), ": cannot be read, or was cut off while being read");
    }
#endif
    data_ = static_cast<std::byte*>(memory);
  }
  ~MappedFile() {
    if (!data_) return;
#if EIGENFORMER_MAPS_FILES
    ::munmap(data_, size_);
#else
    aligned_deallocate(data_);
#endif
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

namespace detail {

class MemoryBuffer : public std::streambuf {
 public:
  MemoryBuffer(const std::byte* data, std::size_t size) {
    char* const begin = const_cast<char*>(reinterpret_cast<const char*>(data));  // only read, as streambuf cannot say
    setg(begin, begin, begin + size);
  }

 protected:
  pos_type seekoff(off_type offset, std::ios::seekdir from, std::ios::openmode) override {
    const off_type size = egptr() - eback(), here = gptr() - eback(),
                   to = offset + (from == std::ios::beg   ? 0
                                  : from == std::ios::cur ? here
                                                          : size);
    if (to < 0 || to > size) return pos_type(off_type(-1));
    setg(eback(), eback() + to, egptr());
    return pos_type(to);
  }
  pos_type seekpos(pos_type position, std::ios::openmode mode) override {
    return seekoff(off_type(position), std::ios::beg, mode);
  }
};

}  // namespace detail

/// Reads memory, which must stay.
class MemoryStream : private detail::MemoryBuffer, public std::istream {
 public:
  MemoryStream(const std::byte* data, std::size_t size)
      : detail::MemoryBuffer(data, size), std::istream(static_cast<std::streambuf*>(this)) {}
};

}  // namespace eigenformer
