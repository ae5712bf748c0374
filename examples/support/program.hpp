// What every example owes its user: errors in one line, a failed write that is an error, Ctrl-C that loses nothing, its
// version.
#pragma once

#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <string>
#include <system_error>

#include "eigenformer/core/error.hpp"
#include "eigenformer/version.hpp"

namespace example {

inline std::string version() {
  return "eigenformer " + std::to_string(eigenformer::version_major) + "." +
         std::to_string(eigenformer::version_minor) + "." + std::to_string(eigenformer::version_patch);
}

/// Writes out what is buffered; throws if some of what was printed is lost, e.g. on a full disk.
inline void flush_output() {
  if (!std::cout.flush() || std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    eigenformer::fail("output", "cannot write what was printed");
}

/// The exit code of run(), or `failure` after a line on standard error.
template <class Run>
int guarded_main(Run&& run, int failure = 1) {
  try {
    const int code = run();
    flush_output();
    return code;
  } catch (const std::exception& error) {
    std::fflush(stdout);
    std::fprintf(stderr, "%s\n", error.what());
    return failure;
  }
}

/// While it lives, the first Ctrl-C asks to stop; a second one ends the program.
class Interrupt {
 public:
  Interrupt() {
    asked_ = 0;
    previous_ = std::signal(SIGINT, on_signal);
  }
  ~Interrupt() { std::signal(SIGINT, previous_ == SIG_ERR ? SIG_DFL : previous_); }
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  bool asked() const { return asked_ != 0; }
  static constexpr int exit_code = 130;  // as shells have it

 private:
  static void on_signal(int signal) {
    asked_ = 1;
    std::signal(signal, SIG_DFL);
  }
  static inline volatile std::sig_atomic_t asked_ = 0;
  void (*previous_)(int) = SIG_DFL;
};

/// Fails unless files can be written into the folder, which is made if its parent is there.
inline void require_writable_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directory(folder, error);
  eigenformer::ensure(std::filesystem::is_directory(folder), "output", "cannot make the folder ", folder.string(),
                      error ? ": " + error.message() : "");
  const std::filesystem::path probe = folder / ".eigenformer_probe";
  std::FILE* const file = std::fopen(probe.string().c_str(), "wb");
  eigenformer::ensure(file != nullptr, "output", "cannot write into the folder ", folder.string());
  std::fclose(file);
  std::filesystem::remove(probe, error);
}

/// Fails early if a file could not be written there later.
inline void require_writable_file(const std::filesystem::path& file) {
  eigenformer::ensure(!std::filesystem::is_directory(file), "output", file.string(), " is a folder");
  const auto folder = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  eigenformer::ensure(std::filesystem::is_directory(folder), "output", "there is no folder ", folder.string());
  require_writable_folder(folder);
}

/// A text with its control characters shown as pictures (U+2400…), new lines and tabs apart: what a model writes must
/// not steer a terminal. Those of two bytes (U+0080 to U+009F) become U+FFFD.
inline std::string visible(const std::string& text) {
  std::string shown;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F) {
      shown += "\xE2\x90";
      shown += static_cast<char>(byte == 0x7F ? 0xA1 : 0x80 + byte);
    } else if (byte == 0xC2 && next >= 0x80 && next < 0xA0) {
      shown += "\xEF\xBF\xBD";
      ++i;
    } else {
      shown += text[i];
    }
  }
  return shown;
}

}  // namespace example
