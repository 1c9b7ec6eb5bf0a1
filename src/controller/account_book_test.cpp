// How fresh the records of local users are, with a user database that the test holds in its hands.
#include "controller/account_book.h"

#include <atomic>

#include "base/mutant.h"
#include "controller/test_world.h"

namespace lockstep {
namespace {

struct Database {
  std::mutex mutex;
  std::map<std::uint32_t, User> users;
  bool silent = false, broken = false;
  std::atomic<int> questions = 0;
  std::condition_variable awake;

  Result<std::optional<User>> look_up(std::uint32_t uid) {
    ++questions;
    std::unique_lock lock(mutex);
    awake.wait(lock, [this] { return !silent; });
    if (broken)
      return Error{Errc::kUnavailable, "the directory is down", {}};
    const auto it = users.find(uid);
    return it == users.end() ? std::optional<User>() : std::optional<User>(it->second);
  }
  void put(std::uint32_t uid, const std::string& name, std::vector<std::uint32_t> groups) {
    const std::lock_guard lock(mutex);
    User user;
    user.uid = uid;
    user.gid = groups.empty() ? 100 : groups.front();
    user.meta.name = name;
    user.groups = std::move(groups);
    users[uid] = user;
  }
  void set(bool Database::*flag, bool value) {
    {
      const std::lock_guard lock(mutex);
      this->*flag = value;
    }
    awake.notify_all();
  }
};

class AccountBookTest : public ::testing::Test {
 protected:
  AccountBookTest() {
    AccountBook::World world{loop, [db = database](std::uint32_t uid) { return db->look_up(uid); },
                             [this] { return now; },
                             [this](std::uint32_t uid) {
                               const auto it = records.find(uid);
                               return it == records.end() ? nullptr : &it->second;
                             },
                             [this](User user, const AccountBook::Then& then) {
                               records[user.uid] = std::move(user);
                               then({});
                             }};
    book = std::make_unique<AccountBook>(std::move(world));
  }
  ~AccountBookTest() override { database->set(&Database::silent, false); }

  // What a request of that user does.
  Result<void> ask(std::uint32_t uid) {
    if (!book->is_due(uid))
      return {};
    std::optional<Result<void>> answer;
    book->ask(uid, 100, seconds(5), [&](const Result<void>& done) { answer = done; });
    loop.until([&] { return answer.has_value(); });
    return *answer;
  }
  // A group is taken away and another one given: what do the next requests see?
  bool groups_are_followed() {
    database->put(1000, "ann", {100, 7});
    EXPECT_TRUE(ask(1000).ok());
    EXPECT_EQ(records[1000].groups, (std::vector<std::uint32_t>{100, 7}));
    database->put(1000, "ann", {100, 8});
    now = now + minutes(1);
    EXPECT_TRUE(ask(1000).ok());
    return records[1000].groups == std::vector<std::uint32_t>{100, 8};
  }

  TestLoop loop;
  Instant now{1'000'000};
  std::shared_ptr<Database> database = std::make_shared<Database>();
  std::map<std::uint32_t, User> records;
  std::unique_ptr<AccountBook> book;
};

TEST_F(AccountBookTest, GroupsCountWithinAMinute) { EXPECT_TRUE(groups_are_followed()); }

TEST_F(AccountBookTest, AMutantThatReadsThemOnceIsNoticed) {
  planted = Mutant::kStaleGroup;
  const bool followed = groups_are_followed();
  planted = Mutant::kNone;
  EXPECT_FALSE(followed);
}

TEST_F(AccountBookTest, NobodyIsAskedAboutTwiceInHalfAMinute) {
  database->put(1000, "ann", {100});
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(ask(1000).ok());
  EXPECT_EQ(database->questions, 1);
}

TEST_F(AccountBookTest, WhoHasWorkIsFollowedWithoutAskingForAnything) {
  database->put(1000, "ann", {100, 7});
  ASSERT_TRUE(ask(1000).ok());
  database->put(1000, "ann", {100});
  now = now + minutes(1);
  book->refresh({1000});
  EXPECT_TRUE(loop.until([&] { return records[1000].groups == std::vector<std::uint32_t>{100}; }));
}

TEST_F(AccountBookTest, ASilentDatabaseDelaysNobodyForLong) {
  database->put(1000, "ann", {100, 7});
  ASSERT_TRUE(ask(1000).ok());
  database->set(&Database::silent, true);
  now = now + minutes(1);
  std::optional<Result<void>> known, stranger;
  book->ask(1000, 100, millis(250), [&](const Result<void>& done) { known = done; });
  book->ask(1001, 100, seconds(5), [&](const Result<void>& done) { stranger = done; });
  loop.fire(millis(250));
  loop.fire(seconds(5));
  ASSERT_TRUE(known && stranger);
  EXPECT_TRUE(known->ok());  // by the last answer
  EXPECT_EQ(records[1000].groups, (std::vector<std::uint32_t>{100, 7}));
  EXPECT_EQ(stranger->error().code, Errc::kUnavailable);
  EXPECT_FALSE(book->is_due(1000));  // the next requests do not wait again
  database->put(1000, "ann", {100});
  database->set(&Database::silent, false);
  EXPECT_TRUE(loop.until([&] { return records[1000].groups == std::vector<std::uint32_t>{100}; }));
}

TEST_F(AccountBookTest, AnAnswerAfterTheEndIsNobodys) {
  database->set(&Database::silent, true);
  book->ask(1000, 100, seconds(5), [](const Result<void>&) { ADD_FAILURE(); });
  book.reset();
  database->set(&Database::silent, false);
}

TEST_F(AccountBookTest, ABrokenDatabaseTakesNothingAway) {
  database->put(1000, "ann", {100, 7});
  ASSERT_TRUE(ask(1000).ok());
  database->set(&Database::broken, true);
  now = now + minutes(1);
  EXPECT_TRUE(ask(1000).ok());
  EXPECT_EQ(records[1000].groups, (std::vector<std::uint32_t>{100, 7}));
  EXPECT_FALSE(ask(1001).ok());
}

TEST_F(AccountBookTest, ADeletedUserKeepsNoGroups) {
  database->put(1000, "ann", {100, 7});
  ASSERT_TRUE(ask(1000).ok());
  {
    const std::lock_guard lock(database->mutex);
    database->users.clear();
  }
  now = now + minutes(1);
  EXPECT_TRUE(ask(1000).ok());
  EXPECT_EQ(records[1000].groups.size(), 2u);  // a database that starts anew knows nobody either
  now = now + minutes(1);
  EXPECT_TRUE(ask(1000).ok());
  EXPECT_EQ(records[1000].groups, std::vector<std::uint32_t>{100});
  EXPECT_EQ(records[1000].meta.name, "ann");
}

TEST_F(AccountBookTest, WhomNoDatabaseKnowsGoesByNumber) {
  EXPECT_TRUE(ask(1234).ok());
  EXPECT_EQ(records[1234].meta.name, "uid1234");
  EXPECT_EQ(records[1234].groups, std::vector<std::uint32_t>{100});
}

TEST(LookUpAccount, KnowsRootAndNotEverybody) {
  const auto root = look_up_account(0);
  ASSERT_TRUE(root.ok() && *root);
  EXPECT_EQ((*root)->meta.name, "root");
  const auto nobody = look_up_account(3'999'999'999u);
  EXPECT_TRUE(nobody.ok() && !*nobody);
}

}  // namespace
}  // namespace lockstep
