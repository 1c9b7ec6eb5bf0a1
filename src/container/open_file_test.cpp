#include "container/open_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "container/box.h"
#include "container/step_files.h"

namespace lockstep {
namespace {

class InRoot : public testing::Test {
 protected:
  InRoot() {
    char path[] = "/tmp/lockstep-container-XXXXXX";
    dir_ = ::mkdtemp(path);
    EXPECT_TRUE(make_folders(dir_ + "/root/etc").ok());
    EXPECT_TRUE(write_file(dir_ + "/outside", "outside").ok());
    root_ = OpenFile(::open((dir_ + "/root").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  }
  ~InRoot() override { EXPECT_TRUE(remove_tree(dir_).ok()); }
  void link(const std::string& to, const std::string& at) {
    ASSERT_EQ(::symlink(to.c_str(), (dir_ + "/root" + at).c_str()), 0);
  }
  bool exists(const std::string& path) const { return ::access((dir_ + path).c_str(), F_OK) == 0; }

  std::string dir_;
  OpenFile root_;
};

TEST_F(InRoot, LinksAndDotsStayInside) {
  link("../../../../.." + dir_ + "/outside", "/relative");
  link(dir_ + "/outside", "/absolute");
  link("/etc/there", "/inside");
  ASSERT_TRUE(write_file(dir_ + "/root/etc/there", "within").ok());
  EXPECT_EQ(read_in_root(root_.get(), "/relative", 100), "");
  EXPECT_EQ(read_in_root(root_.get(), "/absolute", 100), "");
  EXPECT_EQ(read_in_root(root_.get(), "/../outside", 100), "");
  EXPECT_EQ(read_in_root(root_.get(), "/inside", 100), "within");
  EXPECT_EQ(read_in_root(root_.get(), "/inside", 3), "");
}

TEST_F(InRoot, OnlyFilesAreRead) {
  ASSERT_EQ(::mkfifo((dir_ + "/root/fifo").c_str(), 0600), 0);
  EXPECT_EQ(read_in_root(root_.get(), "/fifo", 100), "");
  EXPECT_EQ(read_in_root(root_.get(), "/etc", 100), "");
}

TEST_F(InRoot, TargetsAreMadeInside) {
  link(dir_, "/out");
  link("/etc", "/in");
  EXPECT_TRUE(make_in_root(root_.get(), "/in/a/b", Target::kFolder).ok());
  EXPECT_TRUE(exists("/root/etc/a/b"));
  EXPECT_TRUE(make_in_root(root_.get(), "/etc/f", Target::kFile).ok());
  EXPECT_TRUE(exists("/root/etc/f"));
  EXPECT_FALSE(make_in_root(root_.get(), "/out/made", Target::kFolder).ok());
  EXPECT_FALSE(exists("/made"));
  EXPECT_FALSE(make_in_root(root_.get(), "/a/../../b", Target::kFolder).ok());
}

TEST_F(InRoot, ALinkThatLeadsToNothingIsReplacedWhereThatIsWanted) {
  link("/nowhere", "/gone");
  link(dir_, "/out");
  EXPECT_FALSE(make_in_root(root_.get(), "/gone/a", Target::kFile).ok());
  EXPECT_TRUE(make_in_root(root_.get(), "/gone/a", Target::kFile, Dangling::kReplaced).ok());
  EXPECT_TRUE(exists("/root/gone/a"));
  EXPECT_TRUE(make_in_root(root_.get(), "/out/made", Target::kFolder, Dangling::kReplaced).ok());
  EXPECT_FALSE(exists("/made"));
  EXPECT_TRUE(exists("/root/out/made"));
}

TEST_F(InRoot, AFolderTakesThePlaceOfWhateverStandsThere) {
  link(dir_, "/dev");
  ASSERT_TRUE(write_file(dir_ + "/root/sys", "a file").ok());
  for (const auto& [path, other] :
       std::vector<std::pair<const char*, bool>>{{"/dev", true}, {"/sys", true}, {"/etc", false}, {"/new", false}}) {
    const auto replaced = settle_folder_in_root(root_.get(), path);
    ASSERT_TRUE(replaced.ok()) << path;
    EXPECT_EQ(*replaced, other) << path;
    struct stat stat {};
    EXPECT_EQ(::lstat((dir_ + "/root" + path).c_str(), &stat), 0);
    EXPECT_TRUE(S_ISDIR(stat.st_mode)) << path;
  }
  EXPECT_TRUE(exists("/outside"));
}

TEST_F(InRoot, APlaceIsToldWithoutLinks) {
  link("/etc", "/in");
  const auto made = make_in_root(root_.get(), "/in/a", Target::kFolder);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(path_in_root(*made, root_.get()), "/etc/a");
  EXPECT_EQ(path_in_root(OpenFile(::open("/", O_PATH)), root_.get()), "");
}

TEST_F(InRoot, TreesGoThatForbidIt) {
  ASSERT_TRUE(make_folders(dir_ + "/tree/closed/below").ok());
  ASSERT_EQ(::symlink((dir_ + "/outside").c_str(), (dir_ + "/tree/link").c_str()), 0);
  ASSERT_EQ(::chmod((dir_ + "/tree/closed").c_str(), 0), 0);
  EXPECT_TRUE(remove_tree(dir_ + "/tree").ok());
  EXPECT_FALSE(exists("/tree"));
  EXPECT_TRUE(exists("/outside"));
  EXPECT_TRUE(remove_tree(dir_ + "/tree").ok());
}

TEST(Layers, AsOverlayfsReadsThem) {
  BoxPlan plan;
  plan.lower = {"/a:b", "/c,d\\e"};
  EXPECT_EQ(overlay_options(plan), "lowerdir=/a\\:b:/c\\,d\\\\e,userxattr");
  plan.upper = "/u";
  plan.work = "/w";
  EXPECT_EQ(overlay_options(plan), "lowerdir=/a\\:b:/c\\,d\\\\e,upperdir=/u,workdir=/w,userxattr");
}

TEST(State, IsReadAsItWasWritten) {
  const BoxState state{17, {5, 7}, "mnt:[4026532261]", "sha256-ab", {"A=b c", "D="}};
  EXPECT_EQ(decode_state(encode_state(state)), state);
  EXPECT_EQ(decode_state("holder x\nunknown\n"), BoxState{});
  EXPECT_EQ(decode_state("holder 99999999999\nother 4\n").holder, 0);
  EXPECT_FALSE(StepFiles::of({{}, "/tmp", "../../etc", {}}).ok());
}

}  // namespace
}  // namespace lockstep
