// Whether standard output is a terminal.
#pragma once

#if __has_include(<unistd.h>)
#include <unistd.h>
#endif

namespace example {

inline bool writes_to_terminal() {
#if __has_include(<unistd.h>)
  return isatty(STDOUT_FILENO) == 1;
#else
  return false;
#endif
}

inline bool reads_from_terminal() {
#if __has_include(<unistd.h>)
  return isatty(STDIN_FILENO) == 1;
#else
  return false;
#endif
}

}  // namespace example
