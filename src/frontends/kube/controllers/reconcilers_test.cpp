#include "frontends/kube/controllers/reconcilers.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/new_object.h"
#include "frontends/kube/store/stored_object.h"

namespace lockstep::kube {
namespace {

// A small core: it does what reconcilers ask, with the same conditions as the real one, and tells them.
struct Rig {
  explicit Rig(std::vector<std::shared_ptr<const Reconciler>> all) : actor(std::move(all)) { actor.restart({}); }

  Reconcilers actor;
  Tables tables;
  Instant now{1'000'000};
  Seq seq = 0;
  int refuse = 0;  // so many asks, whatever they are

  void tell(Change change) {
    tables.apply(change);
    actor.observe({&change, 1});
  }
  void put(Object object) {
    const ObjectKey key = key_of(object);
    const auto known = tables.objects.find(key);
    object.meta.seq = ++seq;
    object.meta.uid = known == tables.objects.end() ? Uid(seq) : known->second->meta.uid;
    const bool goes = is_deleting(object) && object.meta.extra->finalizers.empty();
    tell({seq, std::make_shared<const Object>(std::move(object)), goes});
  }
  void put(std::string_view type, std::string_view text) {
    put(object_of(type, json::parse(json::string_view(text.data(), text.size())).as_object()));
  }
  void remove(std::string_view type, const std::string& ns, const std::string& name) {
    Object object = *tables.objects.at({std::string(type), ns, name});
    auto extra = std::make_shared<MetaExtra>(object.meta.extra ? *object.meta.extra : MetaExtra{});
    extra->deleting = now;
    object.meta.extra = std::move(extra);
    put(std::move(object));
  }
  Result<Answer> apply(const Actor::Ask& ask) {
    if (refuse > 0) {
      --refuse;
      return conflict("told to");
    }
    for (const auto& record : ask.read.records) {
      const auto at = tables.objects.find(std::get<ObjectKey>(record.key));
      if ((at == tables.objects.end() ? 0 : at->second->meta.seq) != record.seq)
        return conflict("stale");
    }
    if (const auto* wanted = std::get_if<PutObject>(&ask.body)) {
      const auto at = tables.objects.find(key_of(wanted->object));
      if (wanted->if_seq != 0 && (at == tables.objects.end() || at->second->meta.seq != wanted->if_seq))
        return conflict("stale");
      put(wanted->object);
    } else if (const auto* gone = std::get_if<RemoveObject>(&ask.body)) {
      if (!tables.objects.contains({gone->type, gone->ns, gone->name}))
        return not_found("gone");
      remove(gone->type, gone->ns, gone->name);
    }
    return Answer{.seq = seq};
  }
  // Until nothing is to be done any more; how many commands that took.
  int run() {
    int commands = 0;
    for (int rounds = 0; actor.next_timer() != kNever && rounds < 10'000; ++rounds) {
      now = std::max(now, actor.next_timer());
      for (const Actor::Ask& ask : actor.step(now, {}).asks) {
        ++commands;
        actor.answered(ask.id, apply(ask), now);
      }
    }
    EXPECT_EQ(actor.next_timer(), kNever);
    return commands;
  }
  bool has(const char* type, const char* ns, const char* name) const {
    return tables.objects.contains({type, ns, name});
  }
  json::object body(const char* type, const char* ns, const char* name) const {
    return json::parse(tables.objects.at({type, ns, name})->body.get()).as_object();
  }
};

constexpr const char* kNamespace =
    R"({"metadata":{"name":"n","finalizers":["kubernetes"]},"spec":{"finalizers":["kubernetes"]}})";

TEST(Reconcilers, ANewClusterGetsWhatEveryOneHas) {
  Rig rig(all_controllers("CA"));
  rig.run();
  for (const char* ns : {"default", "kube-system", "kube-public", "kube-node-lease"}) {
    EXPECT_TRUE(rig.has("namespaces", "", ns)) << ns;
    EXPECT_TRUE(rig.has("serviceaccounts", ns, "default")) << ns;
    EXPECT_EQ(rig.body("configmaps", ns, "kube-root-ca.crt")["data"], (json::object{{"ca.crt", "CA"}})) << ns;
  }
  EXPECT_TRUE(rig.has("services", "default", "kubernetes"));
  EXPECT_TRUE(rig.has("clusterroles.rbac.authorization.k8s.io", "", "cluster-admin"));
  EXPECT_EQ(rig.run(), 0) << "and then there is nothing more to do";
  // A second one that begins anew finds everything done.
  const std::vector<Change> all = rig.tables.snapshot();
  rig.actor.restart(all);
  EXPECT_EQ(rig.run(), 0);
}

TEST(Reconcilers, WhatIsDeletedComesBack) {
  Rig rig(all_controllers("CA"));
  rig.run();
  rig.remove("serviceaccounts", "default", "default");
  rig.remove("services", "default", "kubernetes");
  rig.run();
  EXPECT_TRUE(rig.has("serviceaccounts", "default", "default"));
  EXPECT_TRUE(rig.has("services", "default", "kubernetes"));
}

TEST(Reconcilers, ANamespaceGoesWhenEverythingInsideHasGone) {
  Rig rig({namespace_controller()});
  rig.put("namespaces", kNamespace);
  for (int i = 0; i < 500; ++i)
    rig.put("configmaps", R"({"metadata":{"name":"c)" + std::to_string(i) + R"(","namespace":"n"}})");
  rig.put("pods", R"({"metadata":{"name":"free","namespace":"n"}})");
  rig.put("pods", R"({"metadata":{"name":"held","namespace":"n","finalizers":["example.com/x"]}})");
  rig.run();
  EXPECT_EQ(rig.tables.objects.size(), 503u) << "nothing goes by itself";
  rig.remove("namespaces", "", "n");
  rig.run();
  EXPECT_FALSE(rig.has("pods", "n", "free"));
  EXPECT_TRUE(is_deleting(*rig.tables.objects.at({"pods", "n", "held"}))) << "its finalizer holds it";
  EXPECT_EQ(rig.tables.objects.size(), 502u) << "and a pod that is left holds everything else";
  rig.put(without_finalizer(*rig.tables.objects.at({"pods", "n", "held"}), "example.com/x"));
  rig.run();
  EXPECT_TRUE(rig.tables.objects.empty());
}

TEST(Reconcilers, WhatHasAFinalizerHoldsItsNamespace) {
  Rig rig({namespace_controller()});
  rig.put("namespaces", kNamespace);
  rig.put("configmaps", R"({"metadata":{"name":"free","namespace":"n"}})");
  rig.put("configmaps", R"({"metadata":{"name":"held","namespace":"n","finalizers":["example.com/x"]}})");
  rig.remove("namespaces", "", "n");
  rig.run();
  EXPECT_EQ(rig.tables.objects.size(), 2u);
  EXPECT_TRUE(rig.has("namespaces", "", "n"));
  rig.put(without_finalizer(*rig.tables.objects.at({"configmaps", "n", "held"}), "example.com/x"));
  rig.run();
  EXPECT_TRUE(rig.tables.objects.empty());
}

TEST(Reconcilers, RefusalsAreTriedAgainAfterAPause) {
  Rig rig({namespace_defaults("CA")});
  rig.put("namespaces", kNamespace);
  rig.refuse = 5;
  const Instant before = rig.now;
  rig.run();
  EXPECT_TRUE(rig.has("serviceaccounts", "n", "default"));
  EXPECT_TRUE(rig.has("configmaps", "n", "kube-root-ca.crt"));
  EXPECT_GT(rig.now, before);
}

TEST(Reconcilers, QuotasAreCountedAnew) {
  Rig rig({quota_controller()});
  rig.put(
      "resourcequotas",
      R"({"metadata":{"name":"q","namespace":"n"},"spec":{"hard":{"configmaps":"2","count/secrets":"5","requests.cpu":"4"}}})");
  rig.put("configmaps", R"({"metadata":{"name":"c","namespace":"n"}})");
  rig.put("configmaps", R"({"metadata":{"name":"elsewhere","namespace":"m"}})");
  rig.put(
      "pods",
      R"({"metadata":{"name":"p","namespace":"n"},"spec":{"containers":[{"resources":{"requests":{"cpu":"500m"}}},{"resources":{"requests":{"cpu":1}}}]}})");
  rig.put(
      "pods",
      R"({"metadata":{"name":"done","namespace":"n"},"spec":{"containers":[{"resources":{"requests":{"cpu":"3"}}}]},"status":{"phase":"Succeeded"}})");
  rig.run();
  EXPECT_EQ(rig.body("resourcequotas", "n", "q")["status"],
            (json::object{{"hard", {{"configmaps", "2"}, {"count/secrets", "5"}, {"requests.cpu", "4"}}},
                          {"used", {{"configmaps", "1"}, {"count/secrets", "0"}, {"requests.cpu", "1500m"}}}}));
  rig.remove("configmaps", "n", "c");
  rig.run();
  EXPECT_EQ(rig.body("resourcequotas", "n", "q")["status"].at("used").at("configmaps"), "0");
}

TEST(Reconcilers, ServicesLeadToTheirPods) {
  Rig rig({endpoint_controller()});
  rig.put("namespaces", kNamespace);
  rig.put(
      "services",
      R"({"metadata":{"name":"web","namespace":"n"},"spec":{"clusterIP":"10.96.0.9","selector":{"app":"web"},"ports":[{"port":80,"targetPort":8080,"name":"http"}]}})");
  rig.run();
  EXPECT_FALSE(rig.body("endpoints", "n", "web").contains("subsets"));
  rig.put(
      "pods",
      R"({"metadata":{"name":"p","namespace":"n","labels":{"app":"web"}},"spec":{"nodeName":"n1"},"status":{"phase":"Running","podIP":"10.1.0.2","conditions":[{"type":"Ready","status":"True"}]}})");
  rig.put(
      "pods",
      R"({"metadata":{"name":"other","namespace":"n","labels":{"app":"db"}},"status":{"phase":"Running","podIP":"10.1.0.3"}})");
  rig.run();
  const json::value subsets = rig.body("endpoints", "n", "web")["subsets"];
  EXPECT_EQ(subsets.at(0).at("addresses").as_array().size(), 1u);
  EXPECT_EQ(subsets.at(0).at("addresses").at(0).at("ip"), "10.1.0.2");
  EXPECT_EQ(subsets.at(0).at("ports").at(0).at("port"), 8080);
  rig.remove("services", "n", "web");
  rig.run();
  EXPECT_FALSE(rig.has("endpoints", "n", "web"));
}

TEST(Reconcilers, EndpointsByHandAreMirrored) {
  Rig rig({endpoint_controller()});
  rig.put("namespaces", kNamespace);
  rig.put("services", R"({"metadata":{"name":"db","namespace":"n"},"spec":{"ports":[{"port":5432}]}})");
  rig.put(
      "endpoints",
      R"({"metadata":{"name":"db","namespace":"n"},"subsets":[{"addresses":[{"ip":"192.0.2.1"}],"ports":[{"port":5432}]}]})");
  rig.run();
  std::size_t slices = 0;
  for (const auto& [key, object] : rig.tables.objects) slices += std::get<0>(key) == "endpointslices.discovery.k8s.io";
  EXPECT_EQ(slices, 1u);
  rig.remove("endpoints", "n", "db");
  rig.run();
  for (const auto& [key, object] : rig.tables.objects) EXPECT_NE(std::get<0>(key), "endpointslices.discovery.k8s.io");
}

TEST(Reconcilers, ADefinitionIsEstablishedAndItsObjectsGoWithIt) {
  Rig rig({definition_controller()});
  const char* type = "customresourcedefinitions.apiextensions.k8s.io";
  rig.put(
      type,
      R"({"metadata":{"name":"foos.example.com"},"spec":{"group":"example.com","names":{"plural":"foos","kind":"Foo","listKind":"FooList","singular":"foo"},"versions":[{"name":"v1","served":true,"storage":true}]}})");
  rig.put(
      type,
      R"({"metadata":{"name":"bars.example.com"},"spec":{"group":"example.com","names":{"plural":"bars","kind":"Foo","listKind":"FooList"},"versions":[]}})");
  rig.run();
  const auto status = [&](const char* name, int which) {
    return rig.body(type, "", name)["status"].at("conditions").at(which).at("status");
  };
  EXPECT_EQ(status("foos.example.com", 1), "True");
  EXPECT_EQ(status("bars.example.com", 0), "False") << "its kind is taken";
  EXPECT_EQ(rig.body(type, "", "foos.example.com")["status"].at("storedVersions"), (json::array{"v1"}));
  rig.put("foos.example.com", R"({"metadata":{"name":"f","namespace":"n"}})");
  rig.run();
  rig.remove(type, "", "foos.example.com");
  rig.run();
  EXPECT_FALSE(rig.has("foos.example.com", "n", "f"));
  EXPECT_FALSE(rig.has(type, "", "foos.example.com"));
}

}  // namespace
}  // namespace lockstep::kube
