// What may lie in a file's place: nothing of it is waited for or followed.
#include "base/plain_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

namespace lockstep {
namespace {

class PlainFile : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/lockstep-plain-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    dir_ = name;
    std::ofstream(dir_ + "/file") << "text";
  }
  void TearDown() override { ASSERT_EQ(::system(("rm -rf " + dir_).c_str()), 0); }
  std::string dir_;
};

TEST_F(PlainFile, AFileIsReadAndMade) {
  EXPECT_EQ(read_plain(dir_ + "/file").value(), "text");
  EXPECT_EQ(read_plain(dir_ + "/none").error().code, Errc::kNotFound);
  EXPECT_EQ(read_plain(dir_ + "/file", Links::kRefused, 3).error().code, Errc::kExhausted);
  EXPECT_NE(read_plain("/proc/self/stat").value(), "");
  const auto made = open_plain(dir_ + "/new", O_RDWR | O_CREAT);
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(::fcntl(*made, F_GETFD), FD_CLOEXEC);
  ::close(*made);
}

TEST_F(PlainFile, NothingElseIsWaitedForOrFollowed) {
  ASSERT_EQ(::mkfifo((dir_ + "/fifo").c_str(), 0600), 0);
  ASSERT_EQ(::mkdir((dir_ + "/folder").c_str(), 0700), 0);
  ASSERT_EQ(::symlink("file", (dir_ + "/link").c_str()), 0);
  for (const char* name : {"fifo", "folder", "link"})
    for (const int flags : {O_RDONLY, O_WRONLY | O_CREAT, O_RDWR}) {
      const std::string path = dir_ + "/" + name;
      const auto opened = open_plain(path, flags);
      ASSERT_FALSE(opened.ok()) << path;
      EXPECT_EQ(opened.error().code, Errc::kDenied) << path << opened.error().message;
      EXPECT_NE(opened.error().message.find(path), std::string::npos);
    }
  EXPECT_EQ(open_plain("/dev/null", O_RDWR).error().code, Errc::kDenied);
  EXPECT_EQ(read_plain(dir_ + "/link", Links::kFollowed).value(), "text");
}

}  // namespace
}  // namespace lockstep
