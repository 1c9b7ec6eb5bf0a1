#include "container/sandbox_sweep.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/text.h"
#include "container/open_file.h"

namespace lockstep {
namespace {

constexpr LogsKept kSettled{.settled_seconds = -60};

class SandboxSweeps : public ::testing::Test {
 protected:
  SandboxSweeps() {
    char name[] = "/tmp/sandbox-sweep-XXXXXX";
    home_ = ::mkdtemp(name);
  }
  ~SandboxSweeps() override { (void)remove_tree(home_); }

  std::string life(int job) const {
    return format("{}/jobs/{}/sandboxes/{}-1-task-0.0.1/containers/web/0", home_, job, job);
  }
  void make(int job) const {
    ASSERT_TRUE(make_folders(life(job) + "/upper/etc").ok());
    ASSERT_TRUE(make_folders(format("{}/jobs/{}/steps", home_, job)).ok());
    ASSERT_TRUE(make_folders(format("{}/jobs/{}/sandboxes/{}-1-task-0.0.1/volumes/v", home_, job, job)).ok());
    for (const char* file : {"log", "log.1", "alive", "config.json"})
      ASSERT_TRUE(write_file(format("{}/{}", life(job), file), "text").ok());
    ASSERT_TRUE(write_file(life(job) + "/../life", "0\n").ok());
  }
  bool has(const std::string& path) const { return ::access(path.c_str(), F_OK) == 0; }

  std::string home_;
};

TEST_F(SandboxSweeps, of_a_job_that_has_gone_the_logs_stay) {
  make(1);
  make(2);
  ASSERT_TRUE(sweep_sandboxes(home_, {"2"}, kSettled).ok());
  for (const char* file : {"log", "log.1", "alive", "../life"})
    EXPECT_TRUE(has(format("{}/{}", life(1), file))) << file;
  for (const char* file : {"upper", "config.json"}) EXPECT_FALSE(has(format("{}/{}", life(1), file))) << file;
  EXPECT_FALSE(has(home_ + "/jobs/1/steps"));
  EXPECT_FALSE(has(home_ + "/jobs/1/sandboxes/1-1-task-0.0.1/volumes"));
  EXPECT_TRUE(has(life(2) + "/upper/etc")) << "it is here";
  EXPECT_TRUE(has(home_ + "/jobs/2/steps"));
}

TEST_F(SandboxSweeps, what_came_since_the_list_was_made_is_not_touched) {
  make(1);
  ASSERT_TRUE(make_folders(home_ + "/jobs/2/steps").ok());
  ASSERT_TRUE(sweep_sandboxes(home_, {}).ok());
  EXPECT_TRUE(has(life(1) + "/upper/etc"));
  EXPECT_TRUE(has(home_ + "/jobs/2/steps"));
  ASSERT_TRUE(sweep_sandboxes(home_, {}, kSettled).ok());
  EXPECT_FALSE(has(life(1) + "/upper/etc"));
  EXPECT_FALSE(has(home_ + "/jobs/2"));
}

TEST_F(SandboxSweeps, what_is_shown_of_logs_goes_with_them) {
  make(1);
  const std::string shown = home_ + "/logs/pods/lab_web_1/main", links = home_ + "/logs/containers";
  for (const std::string& folder : {shown, links}) ASSERT_TRUE(make_folders(folder).ok());
  ASSERT_EQ(::link((life(1) + "/log").c_str(), (shown + "/0.log").c_str()), 0);
  ASSERT_EQ(::symlink("/var/log/pods/lab_web_1/main/0.log", (links + "/web_lab_main-1.log").c_str()), 0);
  struct stat stat {};
  const auto is_link = [&] { return ::lstat((links + "/web_lab_main-1.log").c_str(), &stat) == 0; };
  ASSERT_TRUE(sweep_sandboxes(home_, {}, kSettled).ok());
  EXPECT_TRUE(has(shown + "/0.log"));
  EXPECT_TRUE(is_link());
  ASSERT_TRUE(sweep_sandboxes(home_, {}, {.seconds = -1, .settled_seconds = -60}).ok());
  EXPECT_FALSE(has(home_ + "/logs/pods/lab_web_1"));
  EXPECT_FALSE(is_link());
}

TEST_F(SandboxSweeps, they_go_when_they_are_old_or_too_many) {
  for (const int job : {1, 2, 3}) make(job);
  ASSERT_TRUE(sweep_sandboxes(home_, {"3"}, {.sandboxes_max = 1, .settled_seconds = -60}).ok());
  EXPECT_NE(has(home_ + "/jobs/1"), has(home_ + "/jobs/2"));
  ASSERT_TRUE(sweep_sandboxes(home_, {"3"}, {.seconds = -1, .settled_seconds = -60}).ok());
  EXPECT_FALSE(has(home_ + "/jobs/1"));
  EXPECT_FALSE(has(home_ + "/jobs/2"));
  EXPECT_TRUE(has(life(3)));
}

}  // namespace
}  // namespace lockstep
