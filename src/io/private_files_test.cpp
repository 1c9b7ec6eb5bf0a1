// The lock and the reserve of a state directory: nobody else can hold them, and nothing is written through what lies
// there.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "io/directory_lock.h"
#include "io/disk_reserve.h"
#include "io/temp_dir.h"

namespace lockstep {
namespace {

constexpr std::int64_t kPlenty = std::int64_t{1} << 40;

unsigned mode_of(const std::string& path) {
  struct stat found {};
  return ::lstat(path.c_str(), &found) == 0 ? found.st_mode & 07777 : 0;
}
std::int64_t size_of(const std::string& path) {
  struct stat found {};
  return ::lstat(path.c_str(), &found) == 0 ? found.st_size : -1;
}

TEST(DirectoryLock, CannotBeOpenedByOthers) {
  const TempDir dir;
  std::ofstream(dir.file("lock")) << "1";
  ASSERT_EQ(::chmod(dir.file("lock").c_str(), 0666), 0);  // of an older version
  const auto lock = DirectoryLock::take(dir.path());
  ASSERT_TRUE(lock.ok()) << lock.error().message;
  EXPECT_EQ(mode_of(dir.file("lock")), 0600u);
}

TEST(DirectoryLock, FollowsNothing) {
  const TempDir dir;
  std::ofstream(dir.file("precious")) << "precious";
  ASSERT_EQ(::symlink("precious", dir.file("lock").c_str()), 0);
  EXPECT_FALSE(DirectoryLock::take(dir.path()).ok());
  EXPECT_EQ(size_of(dir.file("precious")), 8);
}

TEST(DiskReserve, IsMadeAnewWhateverLiesThere) {
  for (const bool fifo : {false, true}) {
    const TempDir dir;
    std::ofstream(dir.file("precious")) << "precious";
    ASSERT_EQ(fifo ? ::mkfifo(dir.file("reserve").c_str(), 0600) : ::symlink("precious", dir.file("reserve").c_str()),
              0);
    DiskReserve reserve(dir.file("reserve"), 1 << 16, [] { return kPlenty; });
    EXPECT_FALSE(reserve.held());
    EXPECT_TRUE(reserve.restore());
    EXPECT_EQ(size_of(dir.file("reserve")), 1 << 16);
    EXPECT_EQ(mode_of(dir.file("reserve")), 0600u);
    EXPECT_EQ(size_of(dir.file("precious")), 8);
  }
}

TEST(DiskReserve, IsGivenBackAtAStartOnlyWhenTheDiskIsFull) {
  const TempDir dir;
  DiskReserve reserve(dir.file("reserve"), 1 << 16, [] { return kPlenty; });
  ASSERT_TRUE(reserve.restore());
  EXPECT_FALSE(give_back_reserve(dir.file("reserve"))) << "there is room";
  EXPECT_EQ(size_of(dir.file("reserve")), 1 << 16);
}

}  // namespace
}  // namespace lockstep
