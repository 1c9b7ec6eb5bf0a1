#include "frontends/slurm/client/key_rows.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep::slurm {
namespace {

TEST(KeyRows, AWordIsOneOfThoseBetweenBlanks) {
  EXPECT_TRUE(is_among("qos qoslevel", "qos"));
  EXPECT_TRUE(is_among("qos qoslevel", "qoslevel"));
  EXPECT_TRUE(is_among("qos", "qos"));
  for (const char* other : {"", "q", "qosl", "qos qoslevel", "level", " "})
    EXPECT_FALSE(is_among("qos qoslevel", other)) << other;
}

struct Record {
  std::string name;
  int size = 0;
};
Result<void> set_name(Record& record, const std::string& word) {
  record.name = word;
  return {};
}
Result<void> set_size(Record& record, const std::string& word) {
  if (word.empty())
    return invalid("no size");
  record.size = static_cast<int>(word.size());
  return {};
}
constexpr KeyRow<Record, std::string> kRows[] = {{"name names", set_name}, {"size", set_size}};

TEST(KeyRows, TheRowOfAKeyWritesItsValue) {
  Record record;
  EXPECT_TRUE(*set_by_key(kRows, record, "names", std::string("ann")));
  EXPECT_EQ(record.name, "ann");
  EXPECT_TRUE(*set_by_key(kRows, record, "size", std::string("abc")));
  EXPECT_EQ(record.size, 3);
  EXPECT_FALSE(*set_by_key(kRows, record, "nam", std::string("bob")));
  EXPECT_EQ(record.name, "ann");
  EXPECT_EQ(set_by_key(kRows, record, "size", std::string()).error().message, "no size");
}

}  // namespace
}  // namespace lockstep::slurm
