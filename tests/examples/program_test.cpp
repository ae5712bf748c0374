// What the examples share.
#include "../../examples/support/program.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <string>

#include "support/error.hpp"
#include "support/files.hpp"

namespace example {
namespace {

using namespace eigenformer::test;

TEST(Program, ShowsControlCharacters) {
  EXPECT_EQ(visible("a\tb\nc"), "a\tb\nc");
  EXPECT_EQ(visible("\x1b[2J"), "␛[2J");
  EXPECT_EQ(visible(std::string(1, '\0') + "\a\r\x7f"), "␀␇␍␡");
  EXPECT_EQ(visible("\xC2\x9B"
                    "5mé\xC2\xA0"),
            "\xEF\xBF\xBD"
            "5mé\xC2\xA0");                  // U+009B begins sequences as ESC [ does
  EXPECT_EQ(visible("백😀\xC2"), "백😀\xC2");  // cut off after the first byte
}

TEST(Program, ACtrlCAsksOnce) {
  Interrupt interrupt;
  EXPECT_FALSE(interrupt.asked());
  std::raise(SIGINT);
  EXPECT_TRUE(interrupt.asked());
  void (*const next)(int) = std::signal(SIGINT, SIG_DFL);
  EXPECT_EQ(next, SIG_DFL);  // a second one ends the program
}

TEST(Program, ErrorsAreExitCodes) {
  EXPECT_EQ(guarded_main([] { return 0; }), 0);
  EXPECT_EQ(guarded_main([]() -> int { eigenformer::fail("test", "as it should"); }, 2), 2);
}

TEST(Program, OutputFoldersAreChecked) {
  const TemporaryFolder folder;
  require_writable_folder(folder / "new");
  EXPECT_TRUE(std::filesystem::is_directory(folder / "new"));
  EXPECT_EQ(folder.count(), 1);
  write_file(folder / "file", "here");
  EXPECT_THROW(require_writable_folder(folder / "file"), eigenformer::Error);
  EXPECT_THROW(require_writable_folder(folder / "no" / "parent"), eigenformer::Error);
  EXPECT_THROW(require_writable_file(folder / "new"), eigenformer::Error);
  require_writable_file(folder / "file");
  EXPECT_EQ(read_file(folder / "file"), "here");
}

}  // namespace
}  // namespace example
