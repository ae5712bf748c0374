// Files that are there as a whole or as they were, whatever stands in their place.
#include "eigenformer/io/replace_file.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/files.hpp"

#if EIGENFORMER_POSIX_FILES
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#endif

namespace eigenformer::test {
namespace {

namespace fs = std::filesystem;

class ReplaceFileTest : public testing::Test {
 protected:
  TemporaryFolder folder;
  fs::path path = folder / "model";

  static void put(const fs::path& where, const std::string& text) { replace_text_file("test", where, text); }
  static std::string refusal(const fs::path& where) {
    return error_of([&] { put(where, "new"); });
  }
};

TEST_F(ReplaceFileTest, WritesAndReplaces) {
  put(path, "old, and longer");
  put(path, "new");
  EXPECT_EQ(read_file(path), "new");
  const std::string long_name(255, 'x');
  put(folder / long_name.c_str(), "long");
  put(folder / long_name.c_str(), "longer");
  EXPECT_EQ(read_file(folder / long_name.c_str()), "longer");
  EXPECT_EQ(folder.count(), 2);
}

TEST_F(ReplaceFileTest, WhatThrowsLeavesNothingBehind) {
  put(path, "old");
  for (const fs::path& where : {path, folder / "other"})
    EXPECT_THROW(replace_file("test", where, [](std::ostream& file) { file << "half", throw 7; }), int);
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(refusal(folder / "none/model"),
            "[test] " + (folder / "none/model").string() + ": cannot create a file there: No such file or directory");
  EXPECT_EQ(refusal(path / "x"), "[test] " + (path / "x").string() + ": cannot create a file there: Not a directory");
  EXPECT_EQ(folder.count(), 1);
}

#if EIGENFORMER_POSIX_FILES

int mode_of(const fs::path& path) { return static_cast<int>(fs::status(path).permissions()); }

/// Somebody whom permissions are for.
class NotRoot {
 public:
  NotRoot() { is_ = ::geteuid() != 0 || (changed_ = ::seteuid(65534) == 0); }
  ~NotRoot() {
    if (changed_ && ::seteuid(0) != 0) ADD_FAILURE() << "who am I?";
  }
  explicit operator bool() const { return is_; }

 private:
  bool is_ = false, changed_ = false;
};

TEST_F(ReplaceFileTest, OnlyRegularFilesAreReplaced) {
  fs::create_directory(folder / "folder");
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  const int plug = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = (folder / "socket").string();
  ASSERT_LT(name.size(), sizeof address.sun_path);
  name.copy(address.sun_path, name.size());
  ASSERT_EQ(::bind(plug, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  fs::create_symlink("/dev/full", folder / "device");
  fs::create_symlink("round", folder / "round");
  for (const auto& [what, why] : {std::pair{"folder", "it is a folder"},
                                  {"fifo", "it is a FIFO"},
                                  {"socket", "it is a socket"},
                                  {"device", "it is a device"},
                                  {"round", "Too many levels of symbolic links"}}) {
    EXPECT_EQ(refusal(folder / what), "[test] " + (folder / what).string() + ": cannot be replaced: " + why);
    EXPECT_THROW(open_file("test", folder / what), Error);
  }
  EXPECT_EQ(refusal("/dev/null"), "[test] /dev/null: cannot be replaced: it is a device");
  EXPECT_TRUE(fs::is_directory(folder / "folder") && fs::is_fifo(folder / "fifo") && fs::is_socket(folder / "socket") &&
              fs::is_symlink(folder / "device"));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_EQ(folder.count(), 5);
  ::close(plug);
}

TEST_F(ReplaceFileTest, KeepsTheMode) {
  const ::mode_t before = ::umask(027);
  put(path, "first");
  EXPECT_EQ(mode_of(path), 0640) << "of a new file: the system's";
  for (const int mode : {0600, 0660, 0666, 0755}) {
    ::chmod(path.c_str(), static_cast<::mode_t>(mode));
    put(path, std::to_string(mode));
    EXPECT_EQ(mode_of(path), mode);
    EXPECT_EQ(read_file(path), std::to_string(mode));
  }
  ::chmod(path.c_str(), 0600);
  replace_file("test", path, [&](std::ostream& file) {
    for (const auto& entry : fs::directory_iterator(path.parent_path()))
      EXPECT_EQ(mode_of(entry.path()), 0600) << "nor may others look before";
    file << "secret";
  });
  ::chmod(path.c_str(), 0444);
  EXPECT_EQ(refusal(path), "[test] " + path.string() + ": cannot be replaced: it is read-only");
  EXPECT_EQ(read_file(path), "secret");
  EXPECT_EQ(mode_of(path), 0444);
  ::umask(before);
}

TEST_F(ReplaceFileTest, FollowsLinks) {
  fs::create_directory(folder / "a");
  fs::create_directory(folder / "b");
  put(folder / "b/target", "old");
  fs::create_symlink("../b/middle", folder / "a/link");
  fs::create_symlink(folder / "b/target", folder / "b/middle");
  put(folder / "a/link", "new");
  EXPECT_EQ(read_file(folder / "b/target"), "new");
  EXPECT_EQ(fs::read_symlink(folder / "a/link"), "../b/middle");
  EXPECT_EQ(fs::read_symlink(folder / "b/middle"), folder / "b/target");
  fs::remove(folder / "b/target");
  put(folder / "a/link", "made");
  EXPECT_FALSE(fs::is_symlink(folder / "b/target"));
  EXPECT_EQ(read_file(folder / "b/target"), "made");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "a"), fs::directory_iterator()), 1);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "b"), fs::directory_iterator()), 2);
}

TEST_F(ReplaceFileTest, CleansWhatTheKilledLeft) {
  put(path, "old");
  write_file(folder / "model.0123456789abcdef.tmp", "a user's");
  write_file(folder / "model.0123456789abcdeg.eigenformer-tmp", "a user's");
  for (int left = 1; left <= 3; ++left) {
    const ::pid_t child = ::fork();
    if (child == 0) {
      replace_file("test", path, [&](std::ostream& file) {
        file << "half" << std::flush;
        if (left < 3) ::_exit(0);
        ::raise(SIGKILL);
      });
      ::_exit(1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(left < 3 ? WIFEXITED(status) && WEXITSTATUS(status) == 0 : WIFSIGNALED(status));
    EXPECT_EQ(folder.count(), 4) << "each cleans after the one before";
  }
  EXPECT_EQ(read_file(path), "old");
  put(folder / "other", "");
  EXPECT_EQ(folder.count(), 5) << "of another target";
  put(path, "new");
  EXPECT_EQ(folder.count(), 4);
  EXPECT_EQ(read_file(path), "new");
}

TEST_F(ReplaceFileTest, LeavesTheLivingAlone) {
  put(path, "old");
  replace_file("test", path, [&](std::ostream& outer) {
    outer << "slow";
    replace_file("test", path, [&](std::ostream& inner) {
      inner << "quick";
      EXPECT_EQ(folder.count(), 3);
    });
    EXPECT_EQ(read_file(path), "quick");
    EXPECT_EQ(folder.count(), 2);
  });
  EXPECT_EQ(read_file(path), "slow");
  EXPECT_EQ(folder.count(), 1);
}

TEST_F(ReplaceFileTest, ManyAtOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([this, text = std::string(1000, static_cast<char>('a' + i))] {
      for (int n = 0; n < 25; ++n) put(path, text);
    });
  for (std::thread& thread : threads) thread.join();
  const std::string text = read_file(path);
  EXPECT_EQ(text, std::string(1000, text[0]));
  EXPECT_EQ(folder.count(), 1);
}

TEST_F(ReplaceFileTest, PermissionIsNotAbsence) {
  put(path, "secret");
  ::chmod(path.c_str(), 0200);
  fs::create_directory(folder / "closed");
  put(folder / "closed/model", "old");
  ::chmod((folder / "closed/model").c_str(), 0666);
  ::chmod((folder / "closed").c_str(), 0555);
  const auto unreadable = [&](const fs::path& where) { return error_of([&] { open_file("test", where); }); };
  EXPECT_EQ(unreadable(folder / "none"), "[test] " + (folder / "none").string() + ": there is no such file");
  EXPECT_EQ(unreadable(folder / "closed"),
            "[test] " + (folder / "closed").string() + ": there is no such file, but a folder");
  {
    const NotRoot user;
    if (!user) GTEST_SKIP() << "needs a user without all rights";
    EXPECT_EQ(unreadable(path), "[test] " + path.string() + ": cannot be read: Permission denied");
    EXPECT_EQ(refusal(folder / "closed/model"),
              "[test] " + (folder / "closed/model").string() + ": cannot create a file there: Permission denied");
    EXPECT_EQ(refusal(folder / "closed/new"),
              "[test] " + (folder / "closed/new").string() + ": cannot create a file there: Permission denied");
  }
  ::chmod((folder / "closed").c_str(), 0700);
  EXPECT_EQ(read_file(folder / "closed/model"), "old");
  {
    ::chmod((folder / "closed").c_str(), 0000);
    const NotRoot user;
    EXPECT_EQ(unreadable(folder / "closed/model"),
              "[test] " + (folder / "closed/model").string() + ": cannot be read: Permission denied");
    EXPECT_EQ(refusal(folder / "closed/model"),
              "[test] " + (folder / "closed/model").string() + ": cannot be replaced: Permission denied");
  }
  ::chmod((folder / "closed").c_str(), 0700);
}

#endif

}  // namespace
}  // namespace eigenformer::test
