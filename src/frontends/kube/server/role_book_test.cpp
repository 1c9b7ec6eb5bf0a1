#include "frontends/kube/server/role_book.h"

#include <gtest/gtest.h>

#include "frontends/kube/server/kinds.h"
#include "frontends/kube/server/target.h"
#include "model/records.h"

namespace lockstep::kube {
namespace {

struct Book {
  RoleBook book;
  Tables tables;

  void put(const std::string& type, const std::string& ns, const std::string& name, const std::string& body,
           std::vector<std::pair<std::string, std::string>> labels = {}) {
    Object object;
    object.type = type + ".rbac.authorization.k8s.io";
    object.meta.ns = ns;
    object.meta.name = name;
    object.meta.seq = ++tables.seq;
    object.body = body;
    MetaExtra extra;
    extra.labels = std::move(labels);
    object.meta.extra = std::make_shared<const MetaExtra>(std::move(extra));
    book.change(tables, {tables.seq, std::make_shared<const Object>(std::move(object)), false});
  }
  bool may(const std::string& user, const std::string& verb, const std::string& resource, const std::string& ns,
           const std::string& name = "", const std::string& sub = "") const {
    return book.allows({user, "", {"team"}, {}}, {verb, "", "v1", resource, sub, ns, name, ""});
  }
};

constexpr const char* kReads =
    R"({"rules":[{"verbs":["get","list"],"apiGroups":[""],"resources":["pods","pods/log"]}]})";

TEST(RoleBook, AllowsWhatIsBound) {
  Book b;
  b.put("roles", "n", "reader", kReads);
  EXPECT_FALSE(b.may("ann", "get", "pods", "n"));
  b.put("rolebindings", "n", "x",
        R"({"roleRef":{"kind":"Role","name":"reader"},"subjects":[{"kind":"User","name":"ann"}]})");
  EXPECT_TRUE(b.may("ann", "get", "pods", "n"));
  EXPECT_TRUE(b.may("ann", "get", "pods", "n", "web", "log"));
  EXPECT_FALSE(b.may("ann", "get", "pods", "n", "web", "exec"));
  EXPECT_FALSE(b.may("ann", "delete", "pods", "n"));
  EXPECT_FALSE(b.may("ann", "get", "pods", "m"));
  EXPECT_FALSE(b.may("ann", "get", "pods", ""));
  EXPECT_FALSE(b.may("bob", "get", "pods", "n"));
}

TEST(RoleBook, GroupsAccountsAndClusterRoles) {
  Book b;
  b.put("clusterroles", "", "reader", kReads);
  b.put("clusterrolebindings", "", "x",
        R"({"roleRef":{"kind":"ClusterRole","name":"reader"},"subjects":[{"kind":"Group","name":"team"}]})");
  EXPECT_TRUE(b.may("anybody", "list", "pods", ""));
  EXPECT_TRUE(b.may("anybody", "list", "pods", "n"));
  b.put("clusterroles", "", "writer",
        R"({"rules":[{"verbs":["*"],"apiGroups":[""],"resources":["secrets"],"resourceNames":["one"]}]})");
  b.put("rolebindings", "n", "y",
        R"({"roleRef":{"kind":"ClusterRole","name":"writer"},"subjects":[{"kind":"ServiceAccount","name":"robot"}]})");
  EXPECT_TRUE(b.may("system:serviceaccount:n:robot", "update", "secrets", "n", "one"));
  EXPECT_FALSE(b.may("system:serviceaccount:n:robot", "update", "secrets", "n", "two"));
  EXPECT_FALSE(b.may("system:serviceaccount:m:robot", "update", "secrets", "n", "one"));
}

TEST(RoleBook, RolesThatGatherEachOtherEnd) {
  Book b;
  const auto gathers = [](const char* label) {
    return std::string(R"({"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{")") + label + R"(":"true"}}]}})";
  };
  b.put("clusterroles", "", "a", gathers("b"), {{"a", "true"}});
  b.put("clusterroles", "", "b", gathers("a"), {{"b", "true"}});
  b.put("clusterroles", "", "c", kReads, {{"b", "true"}});
  b.put("clusterrolebindings", "", "x",
        R"({"roleRef":{"kind":"ClusterRole","name":"a"},"subjects":[{"kind":"User","name":"ann"}]})");
  EXPECT_TRUE(b.may("ann", "get", "pods", "n"));
  EXPECT_FALSE(b.may("ann", "get", "secrets", "n"));
}

TEST(RoleBook, NobodyGivesAwayWhatHeHasNot) {
  Book b;
  b.put("clusterroles", "", "reader", kReads);
  b.put("clusterrolebindings", "", "x",
        R"({"roleRef":{"kind":"ClusterRole","name":"reader"},"subjects":[{"kind":"User","name":"ann"}]})");
  const KubeUser ann{"ann", "", {}, {}};
  EXPECT_TRUE(b.book.covers(ann, "", {{{"get"}, {""}, {"pods"}, {}, {}}}));
  EXPECT_FALSE(b.book.covers(ann, "", {{{"get", "delete"}, {""}, {"pods"}, {}, {}}}));
  EXPECT_FALSE(b.book.covers(ann, "", {{{"*"}, {"*"}, {"*"}, {}, {}}}));
  EXPECT_FALSE(b.book.covers(ann, "", {{{"get"}, {}, {}, {}, {"/metrics"}}}));
  EXPECT_TRUE(b.book.covers({"root", "", {std::string(kMasters)}, {}}, "", {{{"*"}, {"*"}, {"*"}, {}, {}}}));
  PolicyRule wide;
  for (int i = 0; i < 1000; ++i) {
    wide.verbs.push_back("v" + std::to_string(i));
    wide.resources.push_back("r" + std::to_string(i));
  }
  wide.groups = {""};
  EXPECT_FALSE(b.book.covers(ann, "", {wide})) << "too many to look at is refused";
}

TEST(Target, PathsOfTheApi) {
  const auto parse = [](const char* method, const char* path) {
    HttpRequest request;
    request.method = method;
    request.path = path;
    const auto t = target_of(request);
    return t ? t->verb + " " + t->group + "|" + t->version + "|" + t->ns + "|" + t->resource + "|" + t->name + "|" +
                   t->subresource + "|" + t->rest
             : "none";
  };
  EXPECT_EQ(parse("GET", "/api/v1/namespaces/default/pods/web/log"), "get |v1|default|pods|web|log|");
  EXPECT_EQ(parse("GET", "/apis/apps/v1/deployments"), "list apps|v1||deployments|||");
  EXPECT_EQ(parse("GET", "/api/v1/watch/namespaces/a/pods"), "watch |v1|a|pods|||");
  EXPECT_EQ(parse("PUT", "/api/v1/namespaces/a/status"), "update |v1||namespaces|a|status|");
  EXPECT_EQ(parse("PUT", "/api/v1/namespaces/a/finalize"), "update |v1||namespaces|a|finalize|");
  EXPECT_EQ(parse("DELETE", "/api/v1/namespaces/a"), "delete |v1||namespaces|a||");
  EXPECT_EQ(parse("DELETE", "/api/v1/namespaces/a/pods"), "deletecollection |v1|a|pods|||");
  EXPECT_EQ(parse("GET", "/api/v1/namespaces/a/services/web/proxy/x/y"), "get |v1|a|services|web|proxy|x/y");
  for (const char* other : {"/", "/api", "/apis", "/apis/apps", "/v1/jobs", "", "//", "/api//"})
    EXPECT_EQ(parse("GET", other), "none") << other;
}

TEST(Kinds, VersionsComeInTheirOrder) {
  const char* ordered[] = {"v10",     "v2",        "v1",        "v11beta2", "v10beta3",
                           "v3beta1", "v12alpha1", "v11alpha2", "foo1",     "foo10"};
  for (std::size_t i = 0; i + 1 < std::size(ordered); ++i) {
    EXPECT_TRUE(version_before(ordered[i], ordered[i + 1])) << ordered[i];
    EXPECT_FALSE(version_before(ordered[i + 1], ordered[i])) << ordered[i];
  }
}

}  // namespace
}  // namespace lockstep::kube
