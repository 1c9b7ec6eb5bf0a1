// Which directories are taken for state directories, what others can reach in them, and what --delete removes.
#include "io/local/state_dir.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

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
  ASSERT_EQ(::mkdir(at("empty").c_str(), 0777), 0);
  EXPECT_EQ(find_state_dir(at("empty")).error().code, Errc::kNotFound);
  EXPECT_NE(claim_state_dir(at("empty"))->id, made->id);
  EXPECT_EQ(mode_there(at("empty")), pass_through_mode());
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
  const auto kept = remove_state_dir(std::move(*dir));
  ASSERT_TRUE(kept.ok()) << kept.error().message;
  EXPECT_EQ(*kept, (std::vector<std::string>{"locked.txt", "log/mine.log", "nodes/backup/thesis.tex", "nodes/n1/link",
                                             "nodes/n1/notes.txt", "nodes/n1/state/results", "nodes/thesis.tex",
                                             "pki/corporate.pem", "work"}));
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
  EXPECT_TRUE(remove_state_dir(std::move(*other))->empty());
  EXPECT_FALSE(exists(at("d")));
}

}  // namespace
}  // namespace lockstep
