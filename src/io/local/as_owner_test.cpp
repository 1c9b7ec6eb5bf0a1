// Root in another user's directory has that user's rights, and its own again afterwards.
#include "io/local/as_owner.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "io/temp_dir.h"

namespace lockstep {
namespace {

constexpr uid_t kUser = 4711;
constexpr gid_t kGroup = 4712;

bool can_read(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ::close(fd);
  return fd >= 0;
}

class AsOwnerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0)
      GTEST_SKIP() << "only root can have another user's rights";
    std::ofstream(dir_.file("secret")) << "x";
    ASSERT_EQ(::chmod(dir_.file("secret").c_str(), 0640), 0);
    ASSERT_EQ(::chmod(dir_.path().c_str(), 0755), 0);
    ASSERT_EQ(::mkdir(theirs_.c_str(), 0700), 0);
    ASSERT_EQ(::chown(theirs_.c_str(), kUser, kGroup), 0);
    ASSERT_EQ(::symlink(dir_.file("secret").c_str(), (theirs_ + "/link").c_str()), 0);
  }
  TempDir dir_;
  std::string theirs_ = dir_.file("theirs");
};

TEST_F(AsOwnerTest, ALinkLeadsNoFurtherThanItLeadsTheOwner) {
  const int fd = ::open(theirs_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  {
    const AsOwner owner(fd);
    EXPECT_FALSE(can_read(theirs_ + "/link"));
    std::ofstream(theirs_ + "/made") << "x";
    EXPECT_FALSE(std::ofstream(dir_.file("elsewhere")).is_open());
  }
  ::close(fd);
  EXPECT_TRUE(can_read(theirs_ + "/link"));
  struct stat made {};
  ASSERT_EQ(::stat((theirs_ + "/made").c_str(), &made), 0);
  EXPECT_EQ(made.st_uid, kUser);
  EXPECT_EQ(made.st_gid, kGroup);
  EXPECT_TRUE(std::ofstream(dir_.file("elsewhere")).is_open());
}

TEST_F(AsOwnerTest, OwnGroupsCountForNothingMeanwhile) {
  ASSERT_EQ(::chown(dir_.file("secret").c_str(), 0, ::getegid()), 0);
  const AsOwner owner(kUser, kGroup);
  EXPECT_FALSE(can_read(dir_.file("secret")));
}

TEST_F(AsOwnerTest, NothingChangesWhereTheOwnerIsRoot) {
  const AsOwner owner(0, 0);
  EXPECT_TRUE(can_read(dir_.file("secret")));
}

}  // namespace
}  // namespace lockstep
