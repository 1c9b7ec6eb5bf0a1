// Which directories are taken for state directories, what others can reach in them, and what --delete removes.
#include "io/local/state_dir.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "base/mutant.h"
#include "io/local/process.h"
#include "io/temp_dir.h"

namespace lockstep {
namespace {

unsigned mode_there(const std::string& path) {
  struct stat found {};
  return ::lstat(path.c_str(), &found) == 0 ? found.st_mode & 07777 : 0;
}
bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

class StateDirTest : public ::testing::Test {
 protected:
  std::string at(const std::string& name) const { return dir_.file(name); }
  void put(const std::string& name, const std::string& text = "x", unsigned mode = 0644) const {
    ASSERT_TRUE(make_dirs(at(name).substr(0, at(name).rfind('/'))).ok());
    ASSERT_TRUE(write_file(at(name), text, mode).ok());
  }
  // A home, with what a clumsy administrator would lose.
  void make_home() const {
    put("home/.bashrc");
    put("home/papers/thesis.tex");
    put("home/lockstep.db", "a table of mine");
  }
  // The rule itself: a directory that is not ours is not taken, and nothing of it is lost. True: it was kept.
  bool home_survives() const {
    make_home();
    for (const bool make : {true, false}) {
      auto dir = make ? claim_state_dir(at("home")) : find_state_dir(at("home"));
      if (dir.ok())
        (void)remove_state_dir(std::move(*dir));
    }
    return exists(at("home/.bashrc")) && exists(at("home/papers/thesis.tex")) && !exists(at("home/lockstep.id"));
  }
  TempDir dir_;
};

TEST_F(StateDirTest, AForeignDirectoryIsRefusedAndNotEmptied) {
  EXPECT_TRUE(home_survives());
  const auto refused = claim_state_dir(at("home"));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Errc::kDenied);
  EXPECT_NE(refused.error().message.find("not a Lockstep state directory"), std::string::npos);
  EXPECT_EQ(mode_there(at("home")), 0755u) << "its mode is none of our business";
}

TEST_F(StateDirTest, TheTestOfForeignDirectoriesNoticesWhenTheyAreTaken) {
  planted = Mutant::kForeignDirectory;
  const bool survived = home_survives();
  planted = Mutant::kNone;
  EXPECT_FALSE(survived);
}

TEST_F(StateDirTest, ANewOrEmptyOneIsTakenAndKnownAgain) {
  const auto made = claim_state_dir(at("new"));
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_GT(made->id.size(), 32u);
  EXPECT_EQ(mode_there(at("new")), pass_through_mode());
  EXPECT_EQ(mode_there(at("new/lockstep.id")), 0600u);
  EXPECT_EQ(claim_state_dir(at("new"))->id, made->id);
  EXPECT_EQ(find_state_dir(at("new"))->id, made->id);
  ASSERT_EQ(::mkdir(at("empty").c_str(), 0755), 0);
  EXPECT_EQ(find_state_dir(at("empty")).error().code, Errc::kNotFound);
  EXPECT_NE(claim_state_dir(at("empty"))->id, made->id);
  EXPECT_EQ(mode_there(at("empty")), pass_through_mode());
}

// Whoever of them makes the directory and whoever marks it: it was not there before.
// In a process of its own: it cannot be taken back.
TEST(ServeEveryone, OpensWhatLeadsToTheSocketAlsoToOthers) {
  EXPECT_EXIT(
      {
        if (::geteuid() == 0 && ::setuid(65534) != 0)
          ::_exit(2);
        const bool closed = socket_mode() == 0600 && pass_through_mode() == 0700 && !serves_others();
        serve_everyone();
        ::_exit(closed && socket_mode() == 0666 && pass_through_mode() == 0711 && serves_others() ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(StateDirTest, SomeThatBeginAtOnceMakeOneThatIsRemovedWhole) {
  for (int round = 0; round < 100; ++round) {
    const std::string path = at("both");
    std::vector<std::string> ids(4);
    std::vector<std::thread> threads;
    for (auto& id : ids)
      threads.emplace_back([&] {
        const auto made = claim_state_dir(path);
        id = made ? made->id : made.error().message;
      });
    for (auto& thread : threads) thread.join();
    for (const auto& id : ids) EXPECT_EQ(id, ids[0]);
    ASSERT_TRUE(remove_state_dir(std::move(*find_state_dir(path))).ok());
    ASSERT_FALSE(exists(path)) << "round " << round;
  }
}

TEST_F(StateDirTest, OneOfAnOlderVersionIsTakenAndClosed) {
  put("old/cluster.conf", "# Written by lockstep up.\nname=a\n");
  put("old/lockstep.db", "jobs");
  put("old/lockstep.db-shm", "locks");
  put("old/history.db", "jobs");
  put("old/lock", "1");
  put("old/hosts", "127.0.0.1 localhost");
  put("old/log/controller.log");
  put("old/pki/ca.pem");
  put("old/nodes/n1/agent.json");
  put("old/nodes/n1/state/journal");
  put("old/mine.txt");
  const auto dir = claim_state_dir(at("old"));
  ASSERT_TRUE(dir.ok()) << dir.error().message;
  EXPECT_GT(dir->tightened, 8u);
  for (const char* file : {"cluster.conf", "lockstep.db", "lockstep.db-shm", "history.db", "lock", "log/controller.log",
                           "pki/ca.pem", "nodes/n1/agent.json", "nodes/n1/state/journal"})
    EXPECT_EQ(mode_there(at("old/" + std::string(file))), 0600u) << file;
  for (const char* folder : {"log", "pki"}) EXPECT_EQ(mode_there(at("old/" + std::string(folder))), 0700u) << folder;
  for (const char* folder : {"", "/nodes", "/nodes/n1", "/nodes/n1/state"})
    EXPECT_EQ(mode_there(at("old" + std::string(folder))), pass_through_mode()) << folder;
  EXPECT_EQ(mode_there(at("old/hosts")), 0644u) << "every node reads it";
  EXPECT_EQ(mode_there(at("old/mine.txt")), 0644u) << "not ours";
  EXPECT_EQ(claim_state_dir(at("old"))->tightened, 0u);
}

TEST_F(StateDirTest, WhatOthersPutThereIsNoMark) {
  if (::geteuid() != 0)
    GTEST_SKIP() << "only root can give files away";
  put("a/lockstep.id", "This directory holds the state of a Lockstep cluster.\nid=" + std::string(32, 'a') + "\n");
  EXPECT_TRUE(find_state_dir(at("a")).ok());
  ASSERT_EQ(::chown(at("a/lockstep.id").c_str(), 12345, 12345), 0);
  EXPECT_EQ(find_state_dir(at("a")).error().code, Errc::kDenied);
  put("b/cluster.conf", "# Written by lockstep up.\n");
  ASSERT_EQ(::chown(at("b/cluster.conf").c_str(), 12345, 12345), 0);
  EXPECT_EQ(claim_state_dir(at("b")).error().code, Errc::kDenied);
}

TEST_F(StateDirTest, ADamagedMarkSaysWhatToDo) {
  ASSERT_TRUE(claim_state_dir(at("m")).ok());
  const std::string mark = at("m/lockstep.id");
  const std::string good = *read_file(mark);
  std::string flipped = good;
  flipped[good.find("id=") + 5] ^= 1;
  const auto said = [&] {
    const auto claimed = claim_state_dir(at("m")), found = find_state_dir(at("m"));
    EXPECT_FALSE(claimed.ok());
    EXPECT_FALSE(found.ok());
    return claimed.ok() || found.ok() ? "" : claimed.error().message + found.error().message;
  };
  for (const std::string& text :
       {std::string(), good.substr(0, 20), good.substr(0, 70), "q" + good.substr(1), flipped, std::string(100, '\0')}) {
    put("m/lockstep.id", text);
    EXPECT_NE(said().find(mark + " is damaged"), std::string::npos) << text;
    EXPECT_NE(said().find("lockstep down --dir " + at("m")), std::string::npos) << text;
  }
  ASSERT_EQ(::unlink(mark.c_str()), 0);
  ASSERT_EQ(::mkdir(mark.c_str(), 0700), 0);
  EXPECT_NE(said().find("lockstep down --dir"), std::string::npos);
}

TEST_F(StateDirTest, OnlyWhatIsOursIsRemoved) {
  auto dir = claim_state_dir(at("c"));
  for (const char* file : {"lockstep.db", "lockstep.db-wal", "history.db", "applying.list", "nodes/n1/state/shims/a/x"})
    put("c/" + std::string(file));
  put("elsewhere/precious");
  put("c/pki/ca.key");
  put("c/log/controller.log");
  put("c/nodes/n1/agent.json");
  put("c/nodes/n1/state/journal");
  put("c/nodes/n1/state/lease");
  put("c/nodes/n2/log");
  put("c/work/train.py");
  put("c/locked.txt");
  // Below the folders that are ours, too.
  put("c/nodes/thesis.tex");
  put("c/nodes/backup/thesis.tex");
  put("c/nodes/n1/notes.txt");
  put("c/nodes/n1/state/results/a");
  put("c/pki/corporate.pem");
  put("c/log/mine.log");
  ASSERT_EQ(::symlink(at("elsewhere").c_str(), at("c/nodes/n1/link").c_str()), 0);
  const auto removed = remove_state_dir(std::move(*dir));
  ASSERT_TRUE(removed.ok()) << removed.error().message;
  EXPECT_EQ(removed->kept, (std::vector<std::string>{"locked.txt", "log/mine.log", "nodes/backup/thesis.tex",
                                                     "nodes/n1/link", "nodes/n1/notes.txt", "nodes/n1/state/results",
                                                     "nodes/thesis.tex", "pki/corporate.pem", "work"}));
  for (const std::string file :
       {"work/train.py", "nodes/thesis.tex", "nodes/backup/thesis.tex", "nodes/n1/state/results/a"})
    EXPECT_TRUE(exists(at("c/" + file))) << file;
  EXPECT_TRUE(exists(at("elsewhere/precious"))) << "a link was followed";
  for (const std::string file : {"lockstep.db", "pki/ca.key", "log/controller.log", "nodes/n1/agent.json",
                                 "nodes/n1/state/journal", "nodes/n1/state/shims", "nodes/n2"})
    EXPECT_FALSE(exists(at("c/" + file))) << file;
  EXPECT_TRUE(find_state_dir(at("c")).ok()) << "what is left is still known as ours";

  auto other = claim_state_dir(at("d"));
  put("d/lockstep.db");
  const auto whole = remove_state_dir(std::move(*other));
  EXPECT_TRUE(whole->kept.empty() && !whole->directory_stays);
  EXPECT_FALSE(exists(at("d")));
}

TEST_F(StateDirTest, WhatWasThereBeforeUsStaysAsItWas) {
  for (const unsigned mode : {0755u, 0700u, 0750u, 02750u, 01755u}) {
    ASSERT_EQ(::mkdir(at("found").c_str(), 0700), 0);
    ASSERT_EQ(::chmod(at("found").c_str(), mode), 0);
    ASSERT_TRUE(claim_state_dir(at("found")).ok());
    auto again = claim_state_dir(at("found"));  // a second start does not forget
    ASSERT_TRUE(again.ok());
    put("found/lockstep.db");
    const auto removed = remove_state_dir(std::move(*again));
    ASSERT_TRUE(removed.ok()) << removed.error().message;
    EXPECT_TRUE(removed->directory_stays && removed->kept.empty());
    EXPECT_EQ(mode_there(at("found")), mode);
    EXPECT_EQ(::rmdir(at("found").c_str()), 0) << "something of ours was left";
  }
}

// Which noted nothing of where the directory came from, and had a lock of another name. Those before the mark, too.
TEST_F(StateDirTest, OneOfAnOlderVersionIsRemovedWhole) {
  for (const bool marked : {true, false}) {
    put("old/cluster.conf", "# Written by lockstep up.\nname=a\n", 0600);
    put("old/up.lock", "", 0600);
    if (marked)
      put("old/lockstep.id", "This directory holds the state of a Lockstep cluster.\nid=" + std::string(32, 'a') + "\n",
          0600);
    auto dir = claim_state_dir(at("old"));
    ASSERT_TRUE(dir.ok()) << dir.error().message;
    const auto removed = remove_state_dir(std::move(*dir));
    ASSERT_TRUE(removed.ok()) << removed.error().message;
    EXPECT_EQ(removed->kept, std::vector<std::string>());
    EXPECT_FALSE(removed->directory_stays);
    EXPECT_FALSE(exists(at("old"))) << marked;
  }
}

TEST_F(StateDirTest, OneThatOthersMayWriteToIsRefused) {
  for (const unsigned mode : {01777u, 0777u, 0775u, 0770u, 0722u}) {
    const std::string path = at("open");
    ASSERT_EQ(::mkdir(path.c_str(), 0700), 0);
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    const auto refused = claim_state_dir(path);
    ASSERT_FALSE(refused.ok()) << mode;
    EXPECT_EQ(refused.error().code, Errc::kDenied);
    EXPECT_NE(refused.error().message.find("open to other users"), std::string::npos) << refused.error().message;
    EXPECT_EQ(mode_there(path), mode) << "its mode is none of our business";
    EXPECT_EQ(::rmdir(path.c_str()), 0) << "something was written there";
  }
}

TEST_F(StateDirTest, NoClusterLiesInAnother) {
  ASSERT_TRUE(claim_state_dir(at("outer")).ok());
  ASSERT_EQ(::mkdir(at("outer/found").c_str(), 0700), 0);
  ASSERT_EQ(::symlink(at("outer").c_str(), at("way").c_str()), 0);
  for (const char* inner : {"outer/new", "outer/found", "outer/public/new/deep", "way/new"}) {
    const auto refused = claim_state_dir(at(inner));
    ASSERT_FALSE(refused.ok()) << inner;
    EXPECT_NE(refused.error().message.find("the state directory of another cluster"), std::string::npos) << inner;
    EXPECT_NE(refused.error().message.find(dir_.path()), std::string::npos) << inner;
  }
  EXPECT_FALSE(exists(at("outer/new")));
  EXPECT_TRUE(exists(at("outer/found")));
  ASSERT_EQ(::mkdir(at("above").c_str(), 0700), 0);
  ASSERT_TRUE(claim_state_dir(at("above/inner")).ok());
  EXPECT_NE(claim_state_dir(at("above")).error().message.find("not empty"), std::string::npos);
  if (::geteuid() == 0) {  // what somebody else calls a mark keeps nobody from anything
    put("shared/lockstep.id");
    ASSERT_EQ(::chown(at("shared/lockstep.id").c_str(), 12345, 12345), 0);
    EXPECT_TRUE(claim_state_dir(at("shared/mine")).ok());
  }
}

// What keeps it from its note or from its mark, as a full disk would.
TEST_F(StateDirTest, AClaimThatFailsLeavesADirectoryAsItWas) {
  for (const char* blocked : {"lockstep.dir.new", "lockstep.id.new"}) {
    ASSERT_EQ(::mkdir(at("found").c_str(), 0700), 0);
    ASSERT_EQ(::chmod(at("found").c_str(), 0750), 0);
    const std::string blocker = at("found/" + std::string(blocked));
    ASSERT_EQ(::mkdir(blocker.c_str(), 0700), 0);
    EXPECT_FALSE(claim_state_dir(at("found")).ok());
    EXPECT_EQ(mode_there(at("found")), 0750u) << blocked;
    ASSERT_EQ(::rmdir(blocker.c_str()), 0);
    EXPECT_EQ(::rmdir(at("found").c_str()), 0) << blocked << ": something of ours was left";
  }
}

TEST_F(StateDirTest, WhatAKilledClaimLeftIsRemoved) {
  const auto left = [&](const std::string& file, const std::string& text) {
    put("half/" + file, text, 0600);
    ASSERT_EQ(::chmod(at("half").c_str(), 0711), 0);
  };
  left("lockstep.dir", "found empty, with mode 750\n");
  left("lockstep.id.new", "");
  EXPECT_TRUE(*remove_begun_claim(at("half")));
  EXPECT_EQ(mode_there(at("half")), 0750u);
  EXPECT_FALSE(*remove_begun_claim(at("half"))) << "nothing is left of it";
  left("lockstep.dir.new", "found");
  EXPECT_TRUE(*remove_begun_claim(at("half")));
  EXPECT_TRUE(exists(at("half"))) << "nobody knows who made it";
  left("lockstep.dir", "made by lockstep\n");
  EXPECT_TRUE(*remove_begun_claim(at("half")));
  EXPECT_FALSE(exists(at("half")));
  left("lockstep.dir", "made by lockstep\n");
  put("half/mine.txt");
  EXPECT_FALSE(*remove_begun_claim(at("half")));
  EXPECT_TRUE(exists(at("half/mine.txt")) && exists(at("half/lockstep.dir")));
  ASSERT_TRUE(claim_state_dir(at("whole")).ok());
  EXPECT_FALSE(*remove_begun_claim(at("whole")));
  EXPECT_TRUE(find_state_dir(at("whole")).ok());
}

TEST_F(StateDirTest, ARemovalThatDidNotComeToItsEndIsKnown) {
  auto dir = claim_state_dir(at("c"));
  EXPECT_FALSE(is_half_deleted(dir->folder));
  put("c/cluster.conf");
  put("c/lockstep.db");
  put("c/lockstep.deleting", "");
  EXPECT_TRUE(is_half_deleted(dir->folder));
  put("c/mine.txt");
  const auto removed = remove_state_dir(std::move(*dir));
  EXPECT_EQ(removed->kept, std::vector<std::string>{"mine.txt"});
  auto rest = find_state_dir(at("c"));
  EXPECT_FALSE(is_half_deleted(rest->folder)) << "this one came to its end";
  ASSERT_EQ(::unlink(at("c/mine.txt").c_str()), 0);
  EXPECT_TRUE(remove_state_dir(std::move(*rest)).ok());
  EXPECT_FALSE(exists(at("c")));
}

TEST_F(StateDirTest, AClaimThatWasKilledIsBegunAgain) {
  for (const char* left : {"lockstep.id.new", "lockstep.dir.new", "lockstep.dir"}) {
    put("half/" + std::string(left), "", 0600);
    auto dir = claim_state_dir(at("half"));
    ASSERT_TRUE(dir.ok()) << left << ": " << dir.error().message;
    ASSERT_TRUE(remove_state_dir(std::move(*dir)).ok());
  }
}

}  // namespace
}  // namespace lockstep
