#include "container/lasting_sweep.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <map>

#include "container/open_file.h"

namespace lockstep {
namespace {

using enum LastingFate;

class LastingSweep : public testing::Test {
 protected:
  LastingSweep() {
    char name[] = "/tmp/lasting-sweep-XXXXXX";
    home_ = ::mkdtemp(name);
    ::mkdir((home_ + "/lasting").c_str(), 0700);
  }
  ~LastingSweep() override { (void)remove_tree(home_); }
  void make(const std::string& name) {
    ::mkdir((home_ + "/lasting/" + name).c_str(), 0700);
    std::ofstream(home_ + "/lasting/" + name + "/data") << "x";
    fates_[name] = kPassing;
  }
  bool has(const std::string& name) const {
    return ::access((home_ + "/lasting/" + name + "/data").c_str(), F_OK) == 0;
  }
  Result<void> sweep() {
    return sweep_lasting(home_, [this](const std::vector<std::string>& names) -> Result<std::vector<LastingFate>> {
      if (silent_)
        return Error{Errc::kUnavailable, "nobody answers", {}};
      std::vector<LastingFate> out;
      for (const std::string& name : names) out.push_back(fates_.at(name));
      return out;
    });
  }
  std::string home_;
  std::map<std::string, LastingFate> fates_;
  bool silent_ = false;
};

TEST_F(LastingSweep, AFolderGoesWithItsVolume) {
  make("pvc-1");
  make("pvc-2");
  ASSERT_TRUE(sweep().ok());
  EXPECT_TRUE(has("pvc-1") && has("pvc-2"));
  fates_["pvc-1"] = kGone;
  ASSERT_TRUE(sweep().ok());
  EXPECT_FALSE(has("pvc-1"));
  EXPECT_TRUE(has("pvc-2"));
  EXPECT_NE(::access((home_ + "/lasting/.passing/pvc-1").c_str(), F_OK), 0) << "a name that comes again begins anew";
}

TEST_F(LastingSweep, WhatWasNeverSaidToGoStays) {
  make("pvc-1");
  fates_["pvc-1"] = kGone;
  ASSERT_TRUE(sweep().ok());
  EXPECT_TRUE(has("pvc-1"));
  fates_["pvc-1"] = kComing;
  ASSERT_TRUE(sweep().ok());
  fates_["pvc-1"] = kGone;
  ASSERT_TRUE(sweep().ok());
  EXPECT_TRUE(has("pvc-1"));
}

TEST_F(LastingSweep, TheLastWordCounts) {
  make("pvc-1");
  ASSERT_TRUE(sweep().ok());
  fates_["pvc-1"] = kKept;  // its volume is to be retained since
  ASSERT_TRUE(sweep().ok());
  fates_["pvc-1"] = kGone;
  ASSERT_TRUE(sweep().ok());
  EXPECT_TRUE(has("pvc-1"));
}

TEST_F(LastingSweep, WithoutAnAnswerNothingGoes) {
  make("pvc-1");
  ASSERT_TRUE(sweep().ok());
  silent_ = true;
  EXPECT_FALSE(sweep().ok());
  EXPECT_TRUE(has("pvc-1"));
}

TEST_F(LastingSweep, ManyAreAskedInParts) {
  for (int i = 0; i < 120; ++i) make("pvc-" + std::to_string(i));
  ASSERT_TRUE(sweep().ok());
  for (auto& [name, fate] : fates_) fate = kGone;
  ASSERT_TRUE(sweep().ok());
  for (const auto& [name, fate] : fates_) EXPECT_FALSE(has(name)) << name;
}

}  // namespace
}  // namespace lockstep
