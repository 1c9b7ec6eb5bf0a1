#include "frontends/kube/server/account_tokens.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "base/text.h"
#include "frontends/kube/store/stored_object.h"

namespace lockstep::kube {
namespace {

// A cluster with one account, a pod and a node. A token is its claims.
struct AccountTokens : testing::Test {
  Tables tables;
  TokenPowers powers{.sign = [](std::string_view claims) { return std::string(claims); },
                     .verify = [](std::string_view token) { return std::optional<std::string>(token); },
                     .key_set = [] { return std::string(); }};

  void put(const char* type, const char* tree, std::uint64_t uid) {
    Object object = object_of(type, boost::json::parse(tree).as_object());
    object.meta.uid = Uid(uid);
    object.meta.seq = tables.seq + 1;
    tables.apply({tables.seq + 1, std::make_shared<const Object>(std::move(object)), false});
  }
  void SetUp() override {
    put("serviceaccounts", R"({"metadata":{"name":"a","namespace":"n"}})", 1);
    put("pods", R"({"metadata":{"name":"p","namespace":"n"}})", 2);
    put("nodes", R"({"metadata":{"name":"n1"}})", 3);
  }
  bool holds(const std::string& bound) const {
    return holder_of(
               powers, tables,
               format(
                   R"({{"exp":100,"kubernetes.io":{{"namespace":"n","serviceaccount":{{"name":"a","uid":"{}"}},{}}}}})",
                   uid_text(Uid(1)), bound),
               50)
        .has_value();
  }
  static std::string bound(const char* what, const char* name, std::uint64_t uid) {
    return format(R"("{}":{{"name":"{}","uid":"{}"}})", what, name, uid_text(Uid(uid)));
  }
};

TEST_F(AccountTokens, AreAsGoodAsWhatTheyAreBoundTo) {
  EXPECT_TRUE(holds(bound("pod", "p", 2)));
  EXPECT_FALSE(holds(bound("pod", "p", 9))) << "another pod of that name";
  EXPECT_FALSE(holds(bound("pod", "gone", 2)));
  EXPECT_TRUE(holds(bound("node", "n1", 3)));
  EXPECT_FALSE(holds(bound("node", "n1", 9)));
}

// A Node that was deleted and made anew has another uid; the pods there go on, and so do their tokens.
TEST_F(AccountTokens, OfPodsAreJudgedByThePodAlone) {
  EXPECT_TRUE(holds(bound("pod", "p", 2) + "," + bound("node", "n1", 9)));
  EXPECT_TRUE(holds(bound("pod", "p", 2) + "," + bound("node", "gone", 3)));
  EXPECT_FALSE(holds(bound("pod", "p", 9) + "," + bound("node", "n1", 3)));
}

}  // namespace
}  // namespace lockstep::kube
