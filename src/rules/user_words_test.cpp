#include "rules/user_words.h"

#include <gtest/gtest.h>

#include "model/records.h"

namespace lockstep {
namespace {

TEST(UserWords, NameElseUidNeverTheRecordsNumber) {
  Directory directory;
  const auto add = [&](std::uint32_t id, std::uint32_t uid, std::string name) {
    User user;
    user.id = UserId(id);
    user.uid = uid;
    user.meta.name = std::move(name);
    directory.users[user.id] = std::make_shared<const User>(user);
  };
  add(2, 1001, "ann");
  add(3, 1007, "uid1007");
  add(4, 1008, "uid1001");  // somebody's login name
  EXPECT_EQ(user_words(directory, UserId(2)), "ann");
  EXPECT_EQ(user_words(directory, UserId(3)), "uid 1007");
  EXPECT_EQ(user_words(directory, UserId(4)), "uid1001");
  EXPECT_EQ(user_words(directory, UserId(5)).find('5'), std::string::npos);
}

}  // namespace
}  // namespace lockstep
