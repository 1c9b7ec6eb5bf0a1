// What `lockstep status`, `down` and `up` say of a directory whose processes do not run.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/local_cluster.h"
#include "cli/test_dir.h"
#include "io/local/restarts.h"
#include "io/local/state_dir.h"

namespace lockstep {
namespace {

struct Claimed : TestDir {
  Claimed() {
    EXPECT_TRUE(claim_state_dir(dir().root).ok());
    ClusterConf conf;
    conf.name = "alpha";
    conf.nodes = 2;
    EXPECT_TRUE(dir().save(conf).ok());
  }
  void note(const RunNote& note) const {
    const auto file = RunNoteFile::open(dir().file(kControllerNoteFile));
    ASSERT_TRUE(file.ok());
    file->write(note);
  }
  ClusterStatus status() const {
    auto status = cluster_status(dir());
    EXPECT_TRUE(status.ok());
    return status ? *status : ClusterStatus{};
  }
};

// A process that has ended: its number may be anybody's by now, its start time cannot.
const ProcessId kGone{1, 1};

std::string joined(const std::vector<std::string>& notices) {
  std::string out;
  for (const auto& notice : notices) out += notice + "\n";
  return out;
}

std::pair<int, std::string> said_by(int (*verb)(int, char**), std::vector<std::string> words) {
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = verb(static_cast<int>(words.size()), argv.data());
  std::fflush(stdout);
  return {code, testing::internal::GetCapturedStdout() + testing::internal::GetCapturedStderr()};
}

TEST(LocalStatus, ADownClusterIsKnownByItsSettings) {
  const Claimed test;
  const ClusterStatus status = test.status();
  EXPECT_EQ(status.controller_state, "down");
  EXPECT_EQ(status.cluster, "alpha");
  EXPECT_EQ(status.dir, test.dir().root);
  EXPECT_FALSE(status.jobs_known);
  ASSERT_EQ(status.nodes.size(), 2u);
  EXPECT_EQ(status.nodes[0].state, "unknown");
  EXPECT_EQ(joined(status.notices), "");
}

TEST(LocalStatus, DamageIsNoticed) {
  const Claimed test;
  test.write(kConfFile, "{ torn");
  EXPECT_NE(joined(test.status().notices).find("its copy is used, and `lockstep up` makes it whole again"),
            std::string::npos);
  test.write("lockstep.db", "");
  EXPECT_NE(joined(test.status().notices).find("pki/ca.pem is missing"), std::string::npos);
  ASSERT_EQ(::unlink(test.dir().file(kMarkFile).c_str()), 0);
  EXPECT_NE(joined(test.status().notices).find("by which the processes of this cluster are known"), std::string::npos);
}

TEST(LocalStatus, AnEndThatNobodySawIsCounted) {
  const Claimed test;
  RunNote note;
  note.supervisor = kGone;
  note.process = kGone;
  note.ends = 2;
  note.ended = "signal 9 (Killed)";
  test.note(note);
  const ClusterStatus status = test.status();
  EXPECT_EQ(status.controller_state, "down");
  EXPECT_EQ(status.controller_pid, 0);
  EXPECT_EQ(status.ends, 3u);
  EXPECT_NE(status.last_end.find("nobody saw how"), std::string::npos);
}

TEST(LocalStatus, AStartThatFailedIsNoEnd) {
  const Claimed test;
  RunNote note;
  note.ends = 1;
  note.ended_by_itself = true;
  note.ended = "exit code 1: the port is taken";
  test.note(note);
  const ClusterStatus status = test.status();
  EXPECT_EQ(status.ends, 0u);
  EXPECT_NE(joined(status.notices).find("the controller did not start: exit code 1: the port is taken"),
            std::string::npos);
}

TEST(LocalStatus, TheTableSaysThatItIsDownByItsExitCode) {
  const Claimed test;
  const auto [code, text] = said_by(status_main, {"status", "--dir", test.dir().root});
  EXPECT_EQ(code, 3);
  EXPECT_NE(text.find("cluster     alpha ("), std::string::npos) << text;
  EXPECT_NE(text.find("controller  down"), std::string::npos) << text;
  EXPECT_NE(text.find("jobs        not known: the controller does not answer"), std::string::npos) << text;
  EXPECT_EQ(said_by(status_main, {"status", "--dir", test.dir().root, "-o", "xml"}).first, 2);
}

TEST(LocalStatus, WithoutAClusterItSaysHowToStartOne) {
  const TestDir test;
  const auto [code, text] = said_by(status_main, {"status", "--dir", test.dir().root});
  EXPECT_EQ(code, 1);
  EXPECT_EQ(text, "lockstep status: there is no cluster in " + test.dir().root +
                      "; start one with: lockstep up --dir " + test.dir().root + "\n");
  EXPECT_EQ(said_by(env_main, {"env", "--dir", test.dir().root}).first, 1);
}

TEST(Down, OfWhatDoesNotRunIsDone) {
  const Claimed test;
  const auto [code, text] = said_by(down_main, {"down", "--dir", test.dir().root});
  EXPECT_EQ(code, 0);
  EXPECT_EQ(text, "cluster \"alpha\" is down; `lockstep up --dir " + test.dir().root + "` starts it again\n");
  EXPECT_TRUE(test.dir().exists());
}

TEST(Down, DeleteLeavesWhatIsNotOurs) {
  const Claimed test;
  test.write("notes.txt", "mine");
  const auto [code, text] = said_by(down_main, {"down", "--delete", "--dir", test.dir().root});
  EXPECT_EQ(code, 0);
  EXPECT_NE(text.find("What is not ours stays in"), std::string::npos) << text;
  EXPECT_NE(text.find("notes.txt"), std::string::npos) << text;
  EXPECT_FALSE(test.dir().is_ours());
}

TEST(Down, DamagedSettingsAreSaid) {
  const Claimed test;
  test.write(kConfFile, "{ torn");
  const auto [code, text] = said_by(down_main, {"down", "--dir", test.dir().root});
  EXPECT_EQ(code, 0);
  EXPECT_NE(text.find("its copy was used"), std::string::npos) << text;
}

TEST(Down, WithoutAClusterFails) {
  const TestDir test;
  const auto [code, text] = said_by(down_main, {"down", "--dir", test.dir().root});
  EXPECT_EQ(code, 1);
  EXPECT_EQ(text, "lockstep down: there is no cluster in " + test.dir().root + "\n");
  EXPECT_EQ(said_by(down_main, {"down", "--frob"}).first, 2);
}

}  // namespace
}  // namespace lockstep
