#include "frontends/kube/admission/webhooks.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/store/stored_object.h"
#include "model/records.h"

namespace lockstep::kube {
namespace {

struct Webhooks : testing::Test {
  Tables tables;
  Seq seq = 0;
  json::object map{{"metadata", {{"name", "m"}, {"namespace", "n"}}}, {"data", {{"a", "b"}}}};

  void put(std::string_view type, std::string_view text) {
    Object object = object_of(type, json::parse(text).as_object());
    object.meta.seq = ++seq;
    const ObjectKey key{object.type, object.meta.ns, object.meta.name};
    tables.objects[key] = std::make_shared<const Object>(std::move(object));
  }
  AdmissionAttempt attempt(std::string operation = "CREATE") const {
    AdmissionAttempt out;
    out.operation = std::move(operation);
    out.version = "v1";
    out.kind = "ConfigMap";
    out.resource = "configmaps";
    out.ns = "n";
    out.name = "m";
    out.object = &map;
    return out;
  }
  static Webhook hook(std::string_view spec, Webhook::Sort sort = Webhook::Sort::kMutating) {
    return {sort, "h.example.com", "h", json::parse(spec)};
  }
};

constexpr const char* kOfMaps =
    R"("rules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["configmaps"]}])";

TEST_F(Webhooks, AreAskedInOrderOfWhatTheyTakeIn) {
  put("namespaces", R"({"metadata":{"name":"n","labels":{"hooked":"yes"}}})");
  const std::string here =
      std::string(R"({"name":"in","namespaceSelector":{"matchLabels":{"hooked":"yes"}},)") + kOfMaps + "}";
  const std::string elsewhere =
      std::string(R"({"name":"out","namespaceSelector":{"matchLabels":{"hooked":"no"}},)") + kOfMaps + "}";
  put("mutatingwebhookconfigurations.admissionregistration.k8s.io",
      R"({"metadata":{"name":"b"},"webhooks":[)" + here + "," + elsewhere + "]}");
  put("mutatingwebhookconfigurations.admissionregistration.k8s.io",
      R"({"metadata":{"name":"a"},"webhooks":[)" + here + "]}");
  std::vector<std::string> asked;
  for (const Webhook& one : webhooks_for(tables, Webhook::Sort::kMutating, attempt()))
    asked.push_back(one.configuration + "/" + one.name);
  EXPECT_EQ(asked, (std::vector<std::string>{"a/in", "b/in"}));
  EXPECT_TRUE(webhooks_for(tables, Webhook::Sort::kMutating, attempt("DELETE")).empty());
  EXPECT_TRUE(webhooks_for(tables, Webhook::Sort::kValidating, attempt()).empty());
}

TEST_F(Webhooks, JudgeNothingOfAdmissionItself) {
  put("validatingwebhookconfigurations.admissionregistration.k8s.io",
      R"({"metadata":{"name":"all"},"webhooks":[{"name":"x","rules":[{"apiGroups":["*"],"apiVersions":["*"],"operations":["*"],"resources":["*/*"]}]}]})");
  AdmissionAttempt own = attempt("DELETE");
  own.group = "admissionregistration.k8s.io";
  own.resource = "validatingwebhookconfigurations";
  EXPECT_TRUE(webhooks_for(tables, Webhook::Sort::kValidating, own).empty());
  EXPECT_EQ(webhooks_for(tables, Webhook::Sort::kValidating, attempt()).size(), 1u);
}

TEST_F(Webhooks, OfServicesAreAtAnEndpoint) {
  const Webhook webhook = hook(
      R"({"clientConfig":{"service":{"namespace":"n","name":"s","path":"/ask","port":8443},"caBundle":"Q0E="},"timeoutSeconds":5})");
  EXPECT_EQ(target_of(tables, webhook).error().message, "service \"s\" not found");
  put("services", R"({"metadata":{"name":"s","namespace":"n"},"spec":{"ports":[{"name":"tls","port":8443}]}})");
  EXPECT_EQ(target_of(tables, webhook).error().message, "no endpoints available for service \"s\"");
  put("endpointslices.discovery.k8s.io",
      R"({"metadata":{"name":"s-1","namespace":"n","labels":{"kubernetes.io/service-name":"s"}},
      "ports":[{"name":"tls","port":444}],"endpoints":[{"addresses":["10.1.0.7"],"conditions":{"ready":false}},{"addresses":["10.1.0.8"],"conditions":{"ready":true}}]})");
  const auto target = target_of(tables, webhook);
  ASSERT_TRUE(target.ok());
  EXPECT_EQ(target->address, "10.1.0.8");
  EXPECT_EQ(target->port, 444);
  EXPECT_EQ(target->server_name, "s.n.svc");
  EXPECT_EQ(target->path, "/ask?timeout=5s");
  EXPECT_EQ(target->ca_pem, "CA");
  EXPECT_EQ(target->url, "https://s.n.svc:8443/ask?timeout=5s");
}

TEST_F(Webhooks, OfUrlsAreReadWithCare) {
  const auto of = [&](std::string_view url) {
    return target_of(tables, hook(json::serialize(json::object{{"clientConfig", {{"url", url}}}})));
  };
  const auto plain = of("https://hooks.example.com:9443/a?b=c");
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->address, "hooks.example.com");
  EXPECT_EQ(plain->port, 9443);
  EXPECT_EQ(plain->path, "/a?b=c&timeout=10s");
  EXPECT_EQ(of("https://[::1]/").value().address, "::1");
  for (const std::string_view bad :
       {"http://x/", "https://", "https://x:0/", "https://x:99999/", "https://x/a b", "https://x/\r\nHost: y"})
    EXPECT_FALSE(of(bad).ok()) << bad;
}

TEST_F(Webhooks, RepliesAreReadStrictly) {
  const Webhook webhook = hook("{}");
  const auto reply = [&](std::string_view response) {
    return read_reply(
        webhook,
        R"({"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":)" + std::string(response) + "}",
        "u");
  };
  EXPECT_FALSE(reply(R"({"uid":"other","allowed":true})").ok());
  EXPECT_FALSE(read_reply(webhook, "nonsense", "u").ok());
  EXPECT_FALSE(reply(R"({"uid":"u","allowed":true,"patch":"W10=","patchType":"Other"})").ok());
  const auto patched =
      reply(R"({"uid":"u","allowed":true,"patchType":"JSONPatch","patch":"W3sib3AiOiJhZGQifV0=","warnings":["w"]})");
  ASSERT_TRUE(patched.ok());
  EXPECT_EQ(json::serialize(*patched->patch), R"([{"op":"add"}])");
  EXPECT_EQ(patched->warnings, std::vector<std::string>{"w"});
  const auto refused = reply(R"({"uid":"u","allowed":false,"status":{"message":"no","code":200}})");
  ASSERT_TRUE(refused.ok());
  EXPECT_EQ(refused->refused->code, 400);
  EXPECT_EQ(refused->refused->message, "admission webhook \"h.example.com\" denied the request: no");
  EXPECT_FALSE(
      read_reply(
          hook("{}", Webhook::Sort::kValidating),
          R"({"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"u","allowed":true,"patchType":"JSONPatch","patch":"W10="}})",
          "u")
          .ok());
}

TEST_F(Webhooks, ConditionsSayWhetherTheyAreAsked) {
  const auto holds = [&](std::string_view expression, std::string_view policy = "Fail") {
    return conditions_hold(
        hook(json::serialize(json::object{{"failurePolicy", policy},
                                          {"matchConditions", {{{"name", "c"}, {"expression", expression}}}}})),
        attempt());
  };
  EXPECT_TRUE(holds("object.data.a == 'b'").value());
  EXPECT_FALSE(holds("object.data.a == 'c'").value());
  EXPECT_FALSE(holds("object.nowhere.x == 1").ok());
  EXPECT_FALSE(holds("object.nowhere.x == 1", "Ignore").value());
}

TEST_F(Webhooks, ReviewsShowTheAttempt) {
  const json::value review = json::parse(review_text(attempt(), "u"));
  EXPECT_EQ(text_in(part(review, "request"), "uid"), "u");
  EXPECT_EQ(json::serialize(part(part(review, "request"), "object")),
            R"({"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"m","namespace":"n"},"data":{"a":"b"}})");
  EXPECT_TRUE(part(part(review, "request"), "oldObject").is_null());
}

}  // namespace
}  // namespace lockstep::kube
