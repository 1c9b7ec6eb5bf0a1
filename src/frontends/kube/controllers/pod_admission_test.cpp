#include "frontends/kube/controllers/pod_admission.h"

#include <gtest/gtest.h>

#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/workload_rig.h"

namespace lockstep::kube {
namespace {

// Webhooks whose answer is there at the second look.
class SlowWebhooks : public PodAdmission {
 public:
  Told take(const Question& question, Instant) override {
    if (out <= question.waiting) {
      ++out;
      ++asked;
      EXPECT_EQ(text_in(part(question.pod, "metadata"), "name"), "");
      return {std::nullopt, millis(10)};
    }
    if (question.waiting > 0)
      return {std::nullopt, millis(10)};
    --out;
    return {answer_of(question.pod), {}};
  }
  virtual PodVerdict answer_of(json::object pod) const {
    if (!refusal.empty())
      return {Status::forbidden({"", "pods"}, "", refusal), std::nullopt};
    pod["spec"].as_object()["containers"].as_array().push_back(
        {{"name", "sidecar"}, {"image", "proxy"}, {"resources", {{"requests", {{"cpu", "100m"}}}}}});
    pod["metadata"].as_object()["labels"].as_object()["injected"] = "yes";
    return {std::nullopt, std::move(pod)};
  }
  std::size_t out = 0, asked = 0;
  std::string refusal;
};

constexpr const char* kHookedSet =
    R"({"metadata":{"name":"web","namespace":"n"},"spec":{"replicas":3,"selector":{"matchLabels":{"app":"web"}},
        "template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}})";
constexpr const char* kHookText =
    R"({"metadata":{"name":"inject"},"webhooks":[{"name":"inject.example.com","clientConfig":{"url":"https://x/"},
        "rules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["RESOURCE"],"operations":["CREATE"]}]}]})";

std::string hook_for(const char* resource) {
  std::string text = kHookText;
  return text.replace(text.find("RESOURCE"), 8, resource);
}

struct HookedRig : WorkloadRig {
  explicit HookedRig(std::shared_ptr<SlowWebhooks> hooks)
      : WorkloadRig({replica_set_controller(), job_controller()}, hooks), webhooks(std::move(hooks)) {}
  std::shared_ptr<SlowWebhooks> webhooks;
};

TEST(PodAdmission, WebhooksChangePodsOfControllers) {
  HookedRig rig(std::make_shared<SlowWebhooks>());
  rig.put("mutatingwebhookconfigurations.admissionregistration.k8s.io", hook_for("pods"));
  rig.put("replicasets.apps", kHookedSet);
  rig.run();
  ASSERT_EQ(rig.names("pods").size(), 3u);
  EXPECT_EQ(rig.webhooks->asked, 3u) << "once for each";
  for (const std::string& name : rig.names("pods")) {
    const json::object tree = rig.tree("pods", name);
    EXPECT_EQ(member_array(part(tree, "spec"), "containers")->size(), 2u);
    EXPECT_EQ(text_in(part(part(tree, "metadata"), "labels"), "injected"), "yes");
    EXPECT_EQ(text_in(part(tree, "status"), "qosClass"), "Burstable");
    const json::value sidecar = member_array(part(tree, "spec"), "containers")->at(1);
    EXPECT_EQ(text_in(sidecar, "terminationMessagePath"), "/dev/termination-log") << "what came in has defaults, too";
  }
  EXPECT_EQ(rig.number("replicasets.apps", "web", "replicas"), 3);
}

TEST(PodAdmission, WhatTheyRefuseIsSaid) {
  HookedRig rig(std::make_shared<SlowWebhooks>());
  rig.webhooks->refusal = "admission webhook \"inject.example.com\" denied the request: no";
  rig.put("mutatingwebhookconfigurations.admissionregistration.k8s.io", hook_for("pods"));
  rig.put("replicasets.apps", kHookedSet);
  rig.run();
  EXPECT_TRUE(rig.names("pods").empty());
  EXPECT_EQ(rig.condition("replicasets.apps", "web", "ReplicaFailure"), "True FailedCreate");
  ASSERT_EQ(rig.events().size(), 1u);
  EXPECT_NE(rig.events()[0].find("FailedCreate: Error creating: pods is forbidden: admission webhook"),
            std::string::npos);
  rig.webhooks->refusal.clear();
  rig.advance(minutes(2));
  EXPECT_EQ(rig.names("pods").size(), 3u) << "they are asked again";
  EXPECT_EQ(rig.condition("replicasets.apps", "web", "ReplicaFailure"), "");
}

TEST(PodAdmission, AJobThatIsRefusedIsRememberedWhileTheyAreAsked) {
  HookedRig rig(std::make_shared<SlowWebhooks>());
  const auto tell = [&](auto record) {
    record.meta.seq = rig.tables.seq + 1;
    const Change change{record.meta.seq, std::make_shared<const decltype(record)>(std::move(record)), false};
    rig.tables.apply(change);
    rig.actor.observe({&change, 1});
  };
  User root;  // so that pods have jobs, which this rig refuses
  root.id = UserId{1};
  root.meta.name = "root";
  tell(root);
  Node node;
  node.id = NodeId{1};
  node.meta.name = "n1";
  node.link = NodeLink::kUp;
  node.cores = 8;
  node.memory_mb = 8000;
  node.task_range = "10.0.1.0/24";
  tell(node);
  rig.put("mutatingwebhookconfigurations.admissionregistration.k8s.io", hook_for("pods"));
  rig.put("replicasets.apps", kHookedSet);
  rig.advance(seconds(30));
  EXPECT_EQ(rig.names("pods").size(), 3u) << "they are made without";
  EXPECT_LE(rig.webhooks->asked, 12u);
}

TEST(PodAdmission, APodThatItsMakerWouldNotKnowIsNotMade) {
  struct Renaming final : SlowWebhooks {
    PodVerdict answer_of(json::object pod) const override {
      pod["metadata"].as_object()["labels"] = json::object{{"app", "other"}};
      pod["metadata"].as_object()["ownerReferences"] = json::array();
      return {std::nullopt, std::move(pod)};
    }
  };
  HookedRig rig(std::make_shared<Renaming>());
  rig.put("mutatingwebhookconfigurations.admissionregistration.k8s.io", hook_for("pods"));
  rig.put("replicasets.apps", kHookedSet);
  rig.advance(seconds(30));
  EXPECT_TRUE(rig.names("pods").empty());
  EXPECT_LE(rig.webhooks->asked, 30u) << "later and later";
  ASSERT_FALSE(rig.events().empty());
  EXPECT_NE(rig.events()[0].find("webhooks have changed the labels by which ReplicaSet \"web\" knows its pods"),
            std::string::npos)
      << rig.events()[0];
}

TEST(PodAdmission, OthersAreNotAskedAbout) {
  HookedRig rig(std::make_shared<SlowWebhooks>());
  rig.put("mutatingwebhookconfigurations.admissionregistration.k8s.io", hook_for("configmaps"));
  rig.put("replicasets.apps", kHookedSet);
  rig.run();
  EXPECT_EQ(rig.names("pods").size(), 3u);
  EXPECT_EQ(rig.webhooks->asked, 0u);
}

TEST(PodAdmission, AJobCountsWhatWasMade) {
  HookedRig rig(std::make_shared<SlowWebhooks>());
  rig.put("validatingwebhookconfigurations.admissionregistration.k8s.io", hook_for("pods"));
  rig.put("jobs.batch",
          R"({"metadata":{"name":"j","namespace":"n"},"spec":{"parallelism":2,"completions":2,"backoffLimit":6,
      "template":{"metadata":{"labels":{}},"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}})");
  for (const Actor::Ask& ask : rig.actor.step(rig.now, {}).asks) rig.actor.answered(ask.id, rig.apply(ask), rig.now);
  EXPECT_EQ(rig.number("jobs.batch", "j", "active"), 0) << "they wait for the webhook";
  rig.run();
  EXPECT_EQ(rig.names("pods").size(), 2u);
  EXPECT_EQ(rig.number("jobs.batch", "j", "active"), 2);
}

// --- shares ---

TEST(Shares, AnEnormousSetFillsItsShareAndRests) {
  WorkloadRig rig({replica_set_controller(), deployment_controller(), namespace_controller()});
  rig.objects_max = 700;
  rig.put("deployments.apps",
          R"({"metadata":{"name":"web","namespace":"n"},"spec":{"replicas":2000000000,"progressDeadlineSeconds":600,
        "revisionHistoryLimit":10,"selector":{"matchLabels":{"app":"web"}},
        "strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":"25%","maxUnavailable":"25%"}},
        "template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}})");
  rig.advance(seconds(20));
  const std::size_t pods = rig.names("pods").size();
  EXPECT_GT(pods, 500u);
  EXPECT_LT(pods, 700u);
  const std::string set = rig.names("replicasets.apps").at(0);
  EXPECT_EQ(rig.condition("replicasets.apps", set.c_str(), "ReplicaFailure"), "True FailedCreate");
  EXPECT_EQ(rig.condition("deployments.apps", "web", "ReplicaFailure"), "True FailedCreate");
  // Nothing goes round: a few tries, at growing intervals.
  int commands = 0;
  for (int i = 0; i < 120; ++i) {
    rig.now = rig.now + seconds(1);
    commands += rig.run();
  }
  EXPECT_LT(commands, 16 * 6 + 20);
  rig.edit("deployments.apps", "web", [](json::object& tree) { tree["spec"].as_object()["replicas"] = 1; });
  rig.advance(minutes(1));
  EXPECT_EQ(rig.names("pods").size(), 1u);
  EXPECT_EQ(rig.condition("replicasets.apps", set.c_str(), "ReplicaFailure"), "");
}

TEST(Shares, ADeploymentSaysThatItsSetCannotBeMade) {
  WorkloadRig rig({replica_set_controller(), deployment_controller()});
  rig.put("deployments.apps",
          R"({"metadata":{"name":"web","namespace":"n"},"spec":{"replicas":2,"progressDeadlineSeconds":600,
        "revisionHistoryLimit":10,"selector":{"matchLabels":{"app":"web"}},
        "strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":"25%","maxUnavailable":"25%"}},
        "template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}})");
  rig.objects_max = rig.tables.objects.size();  // there are no events yet
  rig.advance(seconds(5));
  EXPECT_EQ(rig.condition("deployments.apps", "web", "Progressing"), "False ReplicaSetCreateError");
  rig.objects_max = 100;
  rig.advance(minutes(1));
  EXPECT_EQ(rig.names("pods").size(), 2u);
  EXPECT_EQ(rig.condition("deployments.apps", "web", "Progressing").substr(0, 5), "True ");
}

}  // namespace
}  // namespace lockstep::kube
