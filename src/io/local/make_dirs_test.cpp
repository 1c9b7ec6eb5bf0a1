#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/local/folder.h"
#include "io/local/process.h"
#include "io/temp_dir.h"

namespace lockstep {
namespace {

unsigned mode_of_path(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode) ? found.st_mode & 07777 : 0;
}

// From where one stands, too: `lockstep kubeconfig kc/admin`.
TEST(MakeDirs, TakesAnyPath) {
  const TempDir dir;
  ASSERT_TRUE(make_dirs(dir.file("a/b"), 0700).ok());
  EXPECT_EQ(mode_of_path(dir.file("a/b")), 0700u);
  char before[4096];
  ASSERT_TRUE(::getcwd(before, sizeof before));
  ASSERT_EQ(::chdir(dir.file("a").c_str()), 0);
  EXPECT_TRUE(make_dirs("kc", 0700).ok());
  EXPECT_TRUE(make_dirs("x/y//z/", 0750).ok());
  EXPECT_TRUE(make_dirs("./x/../w", 0700).ok());
  EXPECT_TRUE(make_dirs("").ok());
  EXPECT_TRUE(make_dirs("/").ok());
  EXPECT_TRUE(Folder::make("own/folder", 0700).ok());
  ASSERT_EQ(::chdir(before), 0);
  EXPECT_EQ(mode_of_path(dir.file("a/kc")), 0700u);
  EXPECT_EQ(mode_of_path(dir.file("a/x/y/z")), 0750u);
  EXPECT_EQ(mode_of_path(dir.file("a/w")), 0700u);
  EXPECT_EQ(mode_of_path(dir.file("a/own/folder")), 0700u);
  EXPECT_FALSE(make_dirs("/proc/nothing/here").ok());
}

}  // namespace
}  // namespace lockstep
