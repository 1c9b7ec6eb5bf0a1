#include "container/sandbox_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/plain_file.h"
#include "base/text.h"
#include "container/open_file.h"

namespace lockstep {
namespace {

class VolumeFiles : public ::testing::Test {
 protected:
  VolumeFiles() {
    char name[] = "/tmp/volume-files-XXXXXX";
    folder_ = ::mkdtemp(name);
  }
  ~VolumeFiles() override { (void)remove_tree(folder_); }

  static FrontEndFiles::Volume volume(std::vector<FrontEndFiles::File> files) { return {"v", std::move(files)}; }
  std::string text(const std::string& path) const {
    const auto read = read_plain(format("{}/{}", folder_, path), Links::kFollowed);
    return read.ok() ? *read : "-";
  }
  std::string link(const std::string& path) const {
    char to[256];
    const ssize_t n = ::readlink(format("{}/{}", folder_, path).c_str(), to, sizeof to);
    return {to, n > 0 ? static_cast<std::size_t>(n) : 0};
  }

  std::string folder_;
};

TEST_F(VolumeFiles, lie_behind_links_that_all_turn_at_once) {
  ASSERT_TRUE(write_volume(folder_, volume({{"a", 0640, {}, "b25l"}, {"sub/b", 0644, {}, "dHdv"}}), {}).ok());
  EXPECT_EQ(text("a"), "one");
  EXPECT_EQ(text("sub/b"), "two");
  EXPECT_EQ(link("a"), "..data/a");
  EXPECT_EQ(link("sub"), "..data/sub");
  struct stat stat {};
  ASSERT_EQ(::stat((folder_ + "/a").c_str(), &stat), 0);
  EXPECT_EQ(stat.st_mode & 07777, 0640u);
  const std::string first = link("..data");
  ASSERT_TRUE(write_volume(folder_, volume({{"a", 0644, {}, "bmV3"}}), {}).ok());
  EXPECT_EQ(text("a"), "new");
  EXPECT_EQ(text("sub/b"), "-");
  EXPECT_EQ(link("sub"), "");
  EXPECT_NE(link("..data"), first);
  EXPECT_NE(::access(format("{}/{}", folder_, first).c_str(), F_OK), 0) << "the older version is gone";
}

TEST_F(VolumeFiles, that_are_given_to_a_group_can_be_read_by_it) {
  ASSERT_TRUE(write_volume(folder_, volume({{"token", 0600, {}, "b25l"}, {"a", 0644, {}, "dHdv"}}), ::getgid()).ok());
  struct stat stat {};
  ASSERT_EQ(::stat((folder_ + "/token").c_str(), &stat), 0);
  EXPECT_EQ(stat.st_mode & 07777, 0640u);
  ASSERT_EQ(::stat((folder_ + "/a").c_str(), &stat), 0);
  EXPECT_EQ(stat.st_mode & 07777, 0644u);
}

TEST_F(VolumeFiles, a_path_that_leads_out_is_refused_and_nothing_changes) {
  ASSERT_TRUE(write_volume(folder_, volume({{"a", 0644, {}, "b25l"}}), {}).ok());
  for (const char* path : {"../x", "/x", "a/../../x", "", "..data", "a//b", "./a"})
    EXPECT_FALSE(write_volume(folder_, volume({{path, 0644, {}, "b25l"}}), {}).ok()) << path;
  EXPECT_FALSE(write_volume(folder_, volume({{"a", 0644, {}, "no base64"}}), {}).ok());
  EXPECT_EQ(text("a"), "one");
}

}  // namespace
}  // namespace lockstep
