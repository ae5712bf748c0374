// Files that are there as a whole, or as they were.
#pragma once

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <ios>
#include <ostream>
#include <random>
#include <string>
#include <string_view>
#include <system_error>

#include "eigenformer/core/error.hpp"
#include "eigenformer/core/open_file.hpp"

// Without POSIX: nothing is locked, synchronised or cleaned, and modes are the system's.
#if !defined(EIGENFORMER_POSIX_FILES)
#if !defined(_WIN32) && __has_include(<fcntl.h>) && __has_include(<sys/file.h>) && __has_include(<unistd.h>)
#define EIGENFORMER_POSIX_FILES 1
#else
#define EIGENFORMER_POSIX_FILES 0
#endif
#endif
#if EIGENFORMER_POSIX_FILES
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

namespace eigenformer::inline EIGENFORMER_ABI {

namespace detail {

inline constexpr std::string_view temporary_suffix = ".eigenformer-tmp";

/// Names of temporary files beside a target: this, 16 hexadecimal digits, and the suffix. Short enough for any file
/// system.
inline std::string temporary_prefix(const std::filesystem::path& target) {
  return target.filename().string().substr(0, 200) + ".";
}
inline bool is_temporary_name(std::string_view name, std::string_view prefix) {
  if (name.size() != prefix.size() + 16 + temporary_suffix.size() || !name.starts_with(prefix) ||
      !name.ends_with(temporary_suffix))
    return false;
  return name.substr(prefix.size(), 16).find_first_not_of("0123456789abcdef") == std::string_view::npos;
}
inline std::filesystem::path temporary_beside(const std::filesystem::path& target) {
  std::string name = temporary_prefix(target);
  std::random_device random;
  for (int i = 0; i < 16; ++i) name += "0123456789abcdef"[random() % 16];
  return target.parent_path() / name.append(temporary_suffix);
}
inline std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : ".";
}

/// The regular file that `path` leads to, which need not be there. Throws if it may not be replaced.
inline std::filesystem::path replaceable(std::string_view place, std::filesystem::path path) {
  namespace fs = std::filesystem;
  const std::string name = path.string();
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  ensure(status.type() != fs::file_type::none, place, name, ": cannot be replaced: ", error.message());
  if (status.type() != fs::file_type::not_found) {
    ensure(status.type() == fs::file_type::regular, place, name, ": cannot be replaced: it is ",
           file_kind(status.type()));
    constexpr fs::perms writable = fs::perms::owner_write | fs::perms::group_write | fs::perms::others_write;
    ensure((status.permissions() & writable) != fs::perms::none, place, name, ": cannot be replaced: it is read-only");
#if EIGENFORMER_POSIX_FILES
    ensure(::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) == 0, place, name,
           ": cannot be replaced: ", system_error_text(errno));
#endif
  }
  for (int links = 0; links < 64 && fs::is_symlink(fs::symlink_status(path, error)); ++links)
    path = path.parent_path() / fs::read_symlink(path, error);
  return path;
}

#if EIGENFORMER_POSIX_FILES

struct Descriptor {
  int number;

  explicit Descriptor(int opened) : number(opened) {}
  Descriptor(Descriptor&& other) noexcept : number(other.number) { other.number = -1; }
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
  Descriptor& operator=(Descriptor&&) = delete;
};

/// Waits until a file or folder is on the disk. Returns an error number, or 0; also where there is nothing to wait for.
inline int synchronize(const Descriptor& file) {
  int result = 0;
  do result = ::fsync(file.number);
  while (result != 0 && errno == EINTR);
  return result == 0 || errno == EINVAL || errno == ENOTSUP ? 0 : errno;
}

/// Removes what killed processes have left beside a target. Who writes a temporary file holds its lock, which ends with
/// the process.
inline void remove_leftovers(const std::filesystem::path& target) {
  const std::string prefix = temporary_prefix(target);
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder_of(target), error), end; !error && entry != end;
       entry.increment(error)) {
    if (!is_temporary_name(entry->path().filename().string(), prefix)) continue;
    const Descriptor file(::open(entry->path().c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (file.number >= 0 && ::flock(file.number, LOCK_EX | LOCK_NB) == 0) ::unlink(entry->path().c_str());
  }
}

/// A new file under a lock. Somebody who cleans up may come between the two: then it is another one.
inline Descriptor create_locked(const std::filesystem::path& target, ::mode_t mode, std::filesystem::path& path) {
  for (int tries = 0;; ++tries) {
    path = temporary_beside(target);
    Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
    if (file.number < 0) return file;
    const bool locked =
        ::flock(file.number, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;  // some file systems have no locks
    struct ::stat now {};
    if ((locked && ::fstat(file.number, &now) == 0 && now.st_nlink > 0) || tries == 100) return file;
  }
}

/// A temporary file beside its target, which goes away unless it takes the target's place.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::filesystem::path& target)
      : target_(target), exists_(::stat(target.c_str(), &before_) == 0),
        file_(create_locked(target, exists_ ? S_IRUSR | S_IWUSR : 0666, path_)), error_(file_.number < 0 ? errno : 0) {}
  ~TemporaryFile() {
    if (error_ == 0) ::unlink(path_.c_str());  // gone already if it was renamed
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// An error number, or 0.
  int error() const { return error_; }

  /// All that was written, with the target's owner (as far as we may) and mode, to the disk.
  int finish() const {
    if (exists_) {
      if (::fchown(file_.number, before_.st_uid, before_.st_gid) != 0)
        static_cast<void>(::fchown(file_.number, static_cast<::uid_t>(-1), before_.st_gid) == 0);
      if (::fchmod(file_.number, before_.st_mode & 07777) != 0) return errno;
    }
    return synchronize(file_);
  }
  /// To the target's place.
  int rename() const { return ::rename(path_.c_str(), target_.c_str()) == 0 ? 0 : errno; }
  /// The new name, to the disk. Some may write to a folder that they cannot open.
  int finish_folder() const {
    const Descriptor folder(::open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    return folder.number < 0 ? 0 : synchronize(folder);
  }

 private:
  std::filesystem::path target_, path_;
  struct ::stat before_ {};
  bool exists_;
  Descriptor file_;
  int error_;
};

#else

inline void remove_leftovers(const std::filesystem::path&) {}

/// A temporary file beside its target, which goes away unless it takes the target's place.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::filesystem::path& target) : target_(target), path_(temporary_beside(target)) {}
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  int error() const { return 0; }
  int finish() const { return 0; }
  int rename() const {
    std::error_code error;
    std::filesystem::rename(path_, target_, error);
    return error.default_error_condition().value();
  }
  int finish_folder() const { return 0; }

 private:
  std::filesystem::path target_, path_;
};

#endif

}  // namespace detail

/// write(stream) fills a temporary file beside `path`, which is then renamed. A failure is an Error, leaves nothing
/// behind, and leaves a file that was there as it was. What is replaced is a regular file that may be written to, or
/// nothing, by way of symbolic links if `path` is one; it keeps its mode. After the call the new content is on the
/// disk, as far as the system can tell. Files that killed processes have left beside `path` are removed; those of live
/// ones are not. Without POSIX: neither locks nor waits for the disk.
template <class F>
void replace_file(std::string_view place, const std::filesystem::path& path, F&& write) {
  const auto validate = [&](int error, std::string_view what) {
    ensure(error == 0, place, path.string(), what, ": ", detail::system_error_text(error));
  };
  const std::filesystem::path target = detail::replaceable(place, path);
  detail::remove_leftovers(target);
  const detail::TemporaryFile temporary(target);
  validate(temporary.error(), ": cannot create a file there");
  errno = 0;
  std::ofstream file(temporary.path(), std::ios::binary | std::ios::trunc);
  if (!file.good()) validate(errno != 0 ? errno : EIO, ": cannot create a file there");
  write(static_cast<std::ostream&>(file));
  file.close();
  if (!file.good()) validate(errno != 0 ? errno : EIO, ": cannot be written");
  validate(temporary.finish(), ": cannot be written");
  validate(temporary.rename(), ": cannot be replaced");
  validate(temporary.finish_folder(), ": is replaced, but perhaps not for good");
}

/// The same with a text.
inline void replace_text_file(std::string_view place, const std::filesystem::path& path, std::string_view text) {
  replace_file(place, path,
               [&](std::ostream& file) { file.write(text.data(), static_cast<std::streamsize>(text.size())); });
}

}  // namespace eigenformer
