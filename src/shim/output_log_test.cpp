#include "shim/output_log.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/rng.h"

namespace lockstep {
namespace {

class OutputLogTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/lockstep-output-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    dir_ = name;
  }
  void TearDown() override { EXPECT_EQ(::rmdir(dir_.c_str()), 0); }  // the log removes its file
  static std::string everything(OutputLog& log, std::uint64_t from, std::size_t piece) {
    std::string all;
    for (;;) {
      const auto bytes = log.read(from, piece);
      if (bytes.empty())
        return all;
      all.append(bytes);
      from += bytes.size();
    }
  }
  std::string dir_;
};

TEST_F(OutputLogTest, SpillsAndComesBackInOrder) {
  OutputLog log(dir_ + "/out", {8, 1000});
  log.append("01234567");
  log.append("89abcdef");
  EXPECT_NE(::access((dir_ + "/out").c_str(), F_OK), 0);  // nobody has to clean up
  EXPECT_EQ(everything(log, 0, 3), "0123456789abcdef");
  EXPECT_EQ(everything(log, 10, 100), "abcdef");
  log.trim(12);
  EXPECT_EQ(log.base(), 12u);
  EXPECT_EQ(everything(log, log.base(), 100), "cdef");
  log.trim(16);
  log.append("gh");  // in memory again
  EXPECT_EQ(everything(log, 16, 100), "gh");
}

TEST_F(OutputLogTest, FullFileStopsTheReader) {
  OutputLog log(dir_ + "/out", {4, 10});
  log.append("0123");
  log.append("456789abcd");
  EXPECT_FALSE(log.has_room());
  log.trim(14);
  EXPECT_TRUE(log.has_room());
}

TEST_F(OutputLogTest, DiskThatRefusesLosesNothing) {
  OutputLog log(dir_ + "/no/such/folder/out", {4, 10});
  log.append("0123");
  log.append("4567");
  EXPECT_FALSE(log.has_room());
  EXPECT_EQ(everything(log, 0, 3), "01234567");
  log.trim(2);
  EXPECT_TRUE(log.has_room());
  EXPECT_EQ(everything(log, log.base(), 3), "234567");
  log.trim(100);
  EXPECT_EQ(log.base(), 8u);
}

TEST_F(OutputLogTest, AgreesWithAPlainString) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng(seed);
    const bool refuses = seed % 4 == 0;
    OutputLog log(dir_ + (refuses ? "/no/out" : "/out"), {64, 200});
    std::string all;
    for (int step = 0; step < 100; ++step) {
      if (log.has_room()) {
        const std::string bytes(rng.below(50), static_cast<char>('a' + rng.below(26)));
        all += bytes;
        log.append(bytes);
      }
      if (rng.chance(0.3))
        log.trim(log.base() + rng.below(60));
      ASSERT_EQ(log.end(), all.size());
      ASSERT_LE(log.base(), log.end());
      ASSERT_EQ(everything(log, log.base(), 1 + rng.below(40)), all.substr(log.base())) << seed;
    }
  }
}

TEST_F(OutputLogTest, OutputsOfAStepShareTheirRoom) {
  SpillRoom room{.bytes_max = 100};
  OutputLog one(dir_ + "/one", {8, 1000, &room});
  one.append(std::string(8, 'a'));
  one.append(std::string(100, 'b'));
  EXPECT_EQ(room.bytes_used, 100u);
  EXPECT_FALSE(one.has_room());
  {
    OutputLog two(dir_ + "/two", {8, 1000, &room});
    EXPECT_TRUE(two.has_room());  // what fits in memory is everybody's own
    two.append(std::string(8, 'c'));
    EXPECT_FALSE(two.has_room());
    two.trim(8);
    EXPECT_TRUE(two.has_room());
    one.trim(108);
    EXPECT_EQ(room.bytes_used, 0u);
    two.append(std::string(50, 'd'));
    EXPECT_EQ(room.bytes_used, 50u);
  }
  EXPECT_EQ(room.bytes_used, 0u);
  EXPECT_TRUE(one.has_room());
}

}  // namespace
}  // namespace lockstep
