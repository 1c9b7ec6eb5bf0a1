#include "base/hostlist.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"
#include "base/text.h"

namespace lockstep {
namespace {

std::string expanded(std::string_view text) {
  const auto names = expand_hostlist(text);
  return names.ok() ? join(*names, " ") : "error: " + names.error().message;
}

std::string again(std::string_view text) {
  const auto names = expand_hostlist(text);
  return names.ok() ? compress_hostlist(*names) : "error: " + names.error().message;
}

TEST(Hostlist, Expands) {
  EXPECT_EQ(expanded(""), "");
  EXPECT_EQ(expanded("n1"), "n1");
  EXPECT_EQ(expanded("n[1-3,7],gpu01"), "n1 n2 n3 n7 gpu01");
  EXPECT_EQ(expanded("n[9-11]"), "n9 n10 n11");
  EXPECT_EQ(expanded("n[08-11]"), "n08 n09 n10 n11");
  EXPECT_EQ(expanded("n[098-101]"), "n098 n099 n100 n101");
  EXPECT_EQ(expanded("node[001-0003],host2"), "node001 node002 node003 host2");  // the first number's width counts
  EXPECT_EQ(expanded("n[3,1,2,1]"), "n3 n1 n2 n1");                              // as written, duplicates kept
  EXPECT_EQ(expanded("n[5]"), "n5");
  EXPECT_EQ(expanded("[1-3]"), "1 2 3");
  EXPECT_EQ(expanded("n[1-2]-ib"), "n1-ib n2-ib");
  EXPECT_EQ(expanded("login-1.example.org"), "login-1.example.org");
}

TEST(Hostlist, SeveralGroupsTheLastCountsFastest) {
  EXPECT_EQ(expanded("rack[1-2]n[1-3]"), "rack1n1 rack1n2 rack1n3 rack2n1 rack2n2 rack2n3");
  EXPECT_EQ(expanded("r[1-2]c[01-02]n[5,7]x"),
            "r1c01n5x r1c01n7x r1c02n5x r1c02n7x r2c01n5x r2c01n7x r2c02n5x r2c02n7x");
  EXPECT_EQ(expanded("[1-2][3-4]"), "13 14 23 24");
}

TEST(Hostlist, SeparatorsAsInSlurm) {
  EXPECT_EQ(expanded("a,b"), "a b");
  EXPECT_EQ(expanded(" a b\tc\nd "), "a b c d");
  EXPECT_EQ(expanded(",a,,b,"), "a b");
}

TEST(Hostlist, RefusesAndNamesTheColumn) {
  const struct {
    std::string text, message;
  } cases[] = {
      {"n[1-3", "column 2: '[' is never closed"},
      {"n[", "column 2: '[' is never closed"},
      {"n[1,", "column 2: '[' is never closed"},
      {"n[1-", "column 2: '[' is never closed"},
      {"a,n]", "column 4: ']' without '['"},
      {"n[]", "column 3: expected a number"},
      {"n[a]", "column 3: expected a number"},
      {"n[1,]", "column 5: expected a number"},
      {"n[1-]", "column 5: expected a number"},
      {"n[-1]", "column 3: expected a number"},
      {"n[1-2-3]", "column 6: expected"},
      {"n[1 2]", "column 4: expected"},
      {"n[1[2]]", "column 4: expected"},
      {"n[1-3:2]", "column 6: expected"},
      {"n[3-1]", "column 3: 3-1 runs backwards"},
      {"n[1,3-2]", "column 5: 3-2 runs backwards"},
      {"n[1234567890123456789]", "column 3: a number has at most 18 digits"},
      {std::string(256, 'x'), "column 1: a host name has at most 255 characters"},
      {"a," + std::string(250, 'x') + "[1-999999]", "column 3: a host name has at most"},
  };
  for (const auto& c : cases) {
    const auto got = expand_hostlist(c.text);
    ASSERT_FALSE(got.ok()) << c.text;
    EXPECT_EQ(got.error().code, Errc::kInvalid) << c.text;
    EXPECT_NE(got.error().message.find(c.message), std::string::npos) << c.text << ": " << got.error().message;
  }
}

TEST(Hostlist, BoundsWhatAShortTextUnfoldsTo) {
  EXPECT_EQ(expand_hostlist("n[1-1000000]")->size(), kHostlistMax);
  for (const std::string_view text :
       {"n[0-1000000]", "n[1-999999999999999999]", "a[1-1000]b[1-1001]", "n[1-1000000],x",
        "a[1-99999]b[1-99999]c[1-99999]d[1-99999]", "n[1-500000,1-500001]", "n[0-999999999999999999,1]"}) {
    const auto got = expand_hostlist(text);
    ASSERT_FALSE(got.ok()) << text;
    EXPECT_EQ(got.error().code, Errc::kExhausted) << text;
  }
}

TEST(Hostlist, CompressesAsSlurmDoes) {
  EXPECT_EQ(compress_hostlist({}), "");
  EXPECT_EQ(compress_hostlist({"n1"}), "n1");
  EXPECT_EQ(compress_hostlist({"n1", "n2", "n3", "n7"}), "n[1-3,7]");
  EXPECT_EQ(compress_hostlist({"n1", "n2", "n3", "n7", "gpu01"}), "n[1-3,7],gpu01");
  EXPECT_EQ(compress_hostlist({"n1", "n2"}), "n[1-2]");
  EXPECT_EQ(compress_hostlist({"n1", "n3"}), "n[1,3]");
  EXPECT_EQ(compress_hostlist({"a", "b"}), "a,b");
  EXPECT_EQ(compress_hostlist({"n1", "m1", "n2"}), "n1,m1,n2");  // only neighbours share a group
}

TEST(Hostlist, WidthsArePreserved) {
  EXPECT_EQ(compress_hostlist({"n001", "n002", "n003", "n007"}), "n[001-003,007]");
  EXPECT_EQ(compress_hostlist({"n9", "n10", "n11"}), "n[9-11]");
  EXPECT_EQ(compress_hostlist({"n09", "n10", "n11"}), "n[09-11]");
  EXPECT_EQ(compress_hostlist({"n099", "n100"}), "n[099-100]");
  EXPECT_EQ(compress_hostlist({"n99", "n100"}), "n[99-100]");
  EXPECT_EQ(compress_hostlist({"n09", "n010"}), "n[09,010]");  // another width: another range in the same group
  EXPECT_EQ(compress_hostlist({"n1", "n02"}), "n[1,02]");
  EXPECT_EQ(compress_hostlist({"n01", "n2"}), "n[01,2]");
  EXPECT_EQ(compress_hostlist({"n0", "n1"}), "n[0-1]");
  EXPECT_EQ(compress_hostlist({"n00", "n01"}), "n[00-01]");
}

TEST(Hostlist, OrderAndDuplicatesAreKept) {
  EXPECT_EQ(compress_hostlist({"n3", "n2", "n1"}), "n[3,2,1]");
  EXPECT_EQ(compress_hostlist({"n1", "n1"}), "n[1,1]");
  EXPECT_EQ(compress_hostlist({"n2", "n3", "n1"}), "n[2-3,1]");
}

TEST(Hostlist, OnlyTheLastNumberCounts) {
  EXPECT_EQ(compress_hostlist({"rack1n1", "rack1n2", "rack2n1", "rack2n2"}), "rack1n[1-2],rack2n[1-2]");
  EXPECT_EQ(compress_hostlist({"n1-ib", "n2-ib"}), "n1-ib,n2-ib");
  EXPECT_EQ(compress_hostlist({"1", "2", "3"}), "[1-3]");
  EXPECT_EQ(compress_hostlist({"n", "n1"}), "n,n1");
  EXPECT_EQ(compress_hostlist({"n12345678901234567890", "n12345678901234567891"}),
            "n12345678901234567890,n12345678901234567891");  // no number of ours
}

TEST(Hostlist, TextIsStable) {
  for (const std::string_view text : {"n[1-3,7],gpu01", "n[098-101]", "rack1n[1-3],rack2n[1-3]", "[1-3]", "n[1,05]"})
    EXPECT_EQ(again(text), text);
}

TEST(Hostlist, SortsByPrefixThenNumberThenWidth) {
  std::vector<std::string> names = {"n10", "n2", "gpu1", "n1", "rack10n1", "rack2n9", "n02", "n", "N5", "n10x"};
  sort_hosts(names);
  EXPECT_EQ(join(names, " "), "N5 gpu1 n n1 n2 n02 n10 n10x rack2n9 rack10n1");
  EXPECT_FALSE(host_less("n1", "n1"));
  EXPECT_TRUE(host_less("n2", "n10"));
  EXPECT_FALSE(host_less("n10", "n2"));
}

std::string random_name(Rng& rng) {
  constexpr std::string_view kPrefixes[] = {"n", "n0", "gpu", "rack1-", "", "n1x", "r2c"};
  std::string name(kPrefixes[rng.below(std::size(kPrefixes))]);
  const std::size_t width = rng.below(4);
  const std::string number = format("{}", rng.below(rng.chance(0.5) ? 12 : 1200));
  if (number.size() < width)
    name.append(width - number.size(), '0');
  return name + number + (rng.chance(0.1) ? "-ib" : "");
}

TEST(Hostlist, AnyNamesComeBack) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    Rng rng(seed);
    std::vector<std::string> names;
    for (std::uint64_t n = rng.below(40); n > 0; --n) names.push_back(random_name(rng));
    if (rng.chance(0.7))
      sort_hosts(names);
    const std::string text = compress_hostlist(names);
    const auto back = expand_hostlist(text);
    ASSERT_TRUE(back.ok()) << text << ": " << back.error().message;
    ASSERT_EQ(*back, names) << text;
    ASSERT_EQ(compress_hostlist(*back), text);
  }
}

TEST(Hostlist, OrderIsStrictAndTotal) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Rng rng(seed);
    std::vector<std::string> names;
    for (int n = 0; n < 12; ++n) names.push_back(random_name(rng));
    for (const auto& a : names) {
      ASSERT_FALSE(host_less(a, a));
      for (const auto& b : names) {
        ASSERT_EQ(!host_less(a, b) && !host_less(b, a), a == b) << a << " " << b;
        for (const auto& c : names) {
          if (host_less(a, b) && host_less(b, c)) {
            ASSERT_TRUE(host_less(a, c)) << a << " " << b << " " << c;
          }
        }
      }
    }
  }
}

TEST(Hostlist, ANodeIsCalledByNoWordForSeveral) {
  for (const char* name : {"ALL", "all", "DEFAULT", "default"}) EXPECT_TRUE(is_word_for_nodes(name)) << name;
  for (const char* name : {"all1", "n1", "defaults"}) EXPECT_FALSE(is_word_for_nodes(name)) << name;
}

TEST(Hostlist, NoiseIsRefusedOrComesBack) {
  constexpr std::string_view kAlphabet = "n01[]-,9 x";
  for (std::uint64_t seed = 0; seed < 20'000; ++seed) {
    Rng rng(seed);
    std::string text;
    for (std::uint64_t n = rng.below(16); n > 0; --n) text += kAlphabet[rng.below(kAlphabet.size())];
    const auto names = expand_hostlist(text);
    if (!names.ok()) {
      ASSERT_FALSE(names.error().message.empty());
      continue;
    }
    const auto back = expand_hostlist(compress_hostlist(*names));
    ASSERT_TRUE(back.ok()) << text;
    ASSERT_EQ(*back, *names) << text;
  }
}

}  // namespace
}  // namespace lockstep
