#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "base/text.h"
#include "frontends/kube/admission/limit_ranges.h"
#include "frontends/kube/admission/pod_security.h"
#include "frontends/kube/admission/policies.h"
#include "frontends/kube/admission/standard_parts.h"
#include "frontends/kube/admission/webhooks.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/store/stored_object.h"
#include "model/records.h"

namespace lockstep::kube {
namespace {

struct World {
  Tables tables;
  Seq seq = 0;

  void put(std::string_view type, std::string_view text) {
    Object object = object_of(type, json::parse(text).as_object());
    object.meta.seq = ++seq;
    object.meta.uid = Uid(seq);
    const ObjectKey key{object.type, object.meta.ns, object.meta.name};
    tables.objects[key] = std::make_shared<const Object>(std::move(object));
  }
};

json::object pod_of(std::string_view spec) {
  return {{"metadata", {{"name", "p"}, {"namespace", "n"}}}, {"spec", json::parse(spec)}};
}

std::string at(const json::object& tree, std::initializer_list<std::string_view> path) {
  const json::value whole(tree);
  const json::value* value = &whole;
  for (const std::string_view step : path) value = step == "0" ? &value->as_array().at(0) : &part(*value, step);
  return json::serialize(*value);
}

// --- limits ---

World with_limits(std::string_view limits) {
  World out;
  out.put("limitranges", R"({"metadata":{"name":"l","namespace":"n"},"spec":{"limits":)" + std::string(limits) + "}}");
  return out;
}

TEST(LimitRanges, FillInWhatContainersLeaveOpen) {
  const World world =
      with_limits(R"([{"type":"Container","default":{"cpu":"500m"},"defaultRequest":{"cpu":"100m","memory":"64Mi"}}])");
  json::object pod = pod_of(R"({"containers":[{"name":"a","resources":{"requests":{"memory":"1Gi"}}}]})");
  EXPECT_FALSE(apply_limit_ranges(world.tables, "pods", pod));
  EXPECT_EQ(at(pod, {"spec", "containers", "0", "resources"}),
            R"({"requests":{"memory":"1Gi","cpu":"100m"},"limits":{"cpu":"500m"}})");
  EXPECT_EQ(
      at(pod, {"metadata", "annotations"}),
      R"({"kubernetes.io/limit-ranger":"LimitRanger plugin set: cpu request for container a; cpu limit for container a"})");
}

TEST(LimitRanges, RefuseWhatIsOutsideOfThem) {
  const World world = with_limits(
      R"([{"type":"Container","min":{"cpu":"50m"},"max":{"cpu":"1"}},{"type":"Pod","maxLimitRequestRatio":{"cpu":"2"}}])");
  json::object small =
      pod_of(R"({"containers":[{"name":"a","resources":{"requests":{"cpu":"10m"},"limits":{"cpu":"20m"}}}]})");
  const auto refused = apply_limit_ranges(world.tables, "pods", small);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code, 403);
  EXPECT_EQ(refused->message, R"(pods "p" is forbidden: minimum cpu usage per Container is 50m, but request is 10m)");
  json::object wide =
      pod_of(R"({"containers":[{"name":"a","resources":{"requests":{"cpu":"100m"},"limits":{"cpu":"1"}}}]})");
  EXPECT_EQ(apply_limit_ranges(world.tables, "pods", wide).value().message,
            R"(pods "p" is forbidden: cpu max limit to request ratio per Pod is 2, but provided ratio is 10.000000)");
  json::object fits =
      pod_of(R"({"containers":[{"name":"a","resources":{"requests":{"cpu":"500m"},"limits":{"cpu":"1"}}}]})");
  EXPECT_FALSE(apply_limit_ranges(world.tables, "pods", fits));
}

TEST(LimitRanges, BoundClaims) {
  const World world =
      with_limits(R"([{"type":"PersistentVolumeClaim","min":{"storage":"1Gi"},"max":{"storage":"2Gi"}}])");
  json::object claim = pod_of(R"({"resources":{"requests":{"storage":"3Gi"}}})");
  EXPECT_EQ(
      apply_limit_ranges(world.tables, "persistentvolumeclaims", claim).value().message,
      R"(persistentvolumeclaims "p" is forbidden: maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi)");
}

// --- levels ---

constexpr std::string_view kHardened =
    R"({"securityContext":{"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}},"containers":[{"name":"a",
        "securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}}]})";

TEST(PodSecurity, SaysWhatDoesNotHold) {
  const json::object plain = pod_of(R"({"containers":[{"name":"a"}]})");
  EXPECT_EQ(level_faults(PodLevel::kPrivileged, 34, plain), "");
  EXPECT_EQ(level_faults(PodLevel::kBaseline, 34, plain), "");
  EXPECT_EQ(
      level_faults(PodLevel::kRestricted, 34, plain),
      R"(allowPrivilegeEscalation != false (container "a" must set securityContext.allowPrivilegeEscalation=false), )"
      R"(unrestricted capabilities (container "a" must set securityContext.capabilities.drop=["ALL"]), )"
      R"(runAsNonRoot != true (pod or container "a" must set securityContext.runAsNonRoot=true), )"
      R"(seccompProfile (pod or container "a" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"))");
  EXPECT_EQ(level_faults(PodLevel::kRestricted, 34, pod_of(kHardened)), "");
}

TEST(PodSecurity, KnowsWhatTheHostMustNotShare) {
  const json::object pod = pod_of(
      R"({"hostNetwork":true,"hostPID":true,"volumes":[{"name":"v","hostPath":{"path":"/"}}],
          "containers":[{"name":"a","ports":[{"hostPort":80}],"securityContext":{"privileged":true}},{"name":"b","ports":[{"hostPort":81}]}]})");
  EXPECT_EQ(
      level_faults(PodLevel::kBaseline, 34, pod),
      R"(host namespaces (hostNetwork=true, hostPID=true), hostPath volumes (volume "v"), )"
      R"(hostPort (containers "a", "b" use hostPorts 80, 81), privileged (container "a" must not set securityContext.privileged=true))");
}

TEST(PodSecurity, AsTheLabelsOfTheNamespaceSay) {
  World world;
  world.put("namespaces", R"({"metadata":{"name":"n","labels":{"pod-security.kubernetes.io/enforce":"baseline",
                              "pod-security.kubernetes.io/warn":"restricted","pod-security.kubernetes.io/warn-version":"v1.20"}}})");
  std::vector<std::string> warnings;
  const auto refused =
      check_pod_security(world.tables, "pods", pod_of(R"({"hostIPC":true,"containers":[]})"), warnings);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->message,
            R"(pods "p" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostIPC=true))");
  EXPECT_FALSE(check_pod_security(
      world.tables, "pods", pod_of(R"({"containers":[{"name":"a","securityContext":{"allowPrivilegeEscalation":false,
      "runAsNonRoot":true}}]})"),
      warnings));
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings.front(),
            R"(would violate PodSecurity "restricted:v1.20": seccompProfile (pod or container "a" must set )"
            R"(securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"))");
}

// --- classes ---

TEST(RuntimeClasses, GiveOverheadAndNodes) {
  World world;
  world.put("runtimeclasses.node.k8s.io",
            R"({"metadata":{"name":"vm"},"handler":"vm","overhead":{"podFixed":{"cpu":"10m"}},
      "scheduling":{"nodeSelector":{"vm":"yes"},"tolerations":[{"key":"vm","operator":"Exists"}]}})");
  json::object pod = pod_of(R"({"runtimeClassName":"vm","nodeSelector":{"a":"b"},"containers":[]})");
  EXPECT_FALSE(apply_runtime_class(world.tables, pod));
  EXPECT_EQ(at(pod, {"spec", "overhead"}), R"({"cpu":"10m"})");
  EXPECT_EQ(at(pod, {"spec", "nodeSelector"}), R"({"a":"b","vm":"yes"})");
  EXPECT_EQ(at(pod, {"spec", "tolerations"}), R"([{"key":"vm","operator":"Exists"}])");
  json::object other = pod_of(R"({"runtimeClassName":"none","containers":[]})");
  EXPECT_EQ(apply_runtime_class(world.tables, other).value().message,
            R"(pods "p" is forbidden: pod rejected: RuntimeClass "none" not found)");
  json::object heavier = pod_of(R"({"runtimeClassName":"vm","overhead":{"cpu":"1"},"containers":[]})");
  EXPECT_TRUE(apply_runtime_class(world.tables, heavier));
}

TEST(StorageClasses, TheNewestStandardOneIsTaken) {
  World world;
  for (const char* name : {"old", "new", "other"})
    world.put("storageclasses.storage.k8s.io",
              std::string(R"({"metadata":{"name":")") + name +
                  R"(","annotations":{"storageclass.kubernetes.io/is-default-class":")" +
                  (std::string_view(name) == "other" ? "false" : "true") + R"("}}})");
  json::object claim = pod_of(R"({})");
  choose_storage_class(world.tables, claim);
  EXPECT_EQ(at(claim, {"spec", "storageClassName"}), R"("new")");
  json::object none = pod_of(R"({"storageClassName":""})");
  choose_storage_class(world.tables, none);
  EXPECT_EQ(at(none, {"spec", "storageClassName"}), R"("")");
}

TEST(StorageClasses, ClaimsGrowWhereTheirClassSaysSo) {
  World world;
  world.put("storageclasses.storage.k8s.io", R"({"metadata":{"name":"grows"},"allowVolumeExpansion":true})");
  world.put("storageclasses.storage.k8s.io", R"({"metadata":{"name":"stays"}})");
  const auto grown = [&](const char* storage, const char* from, const char* to, const char* phase) {
    json::object old = pod_of(R"({})");
    old["spec"] = json::object{{"storageClassName", storage}, {"resources", {{"requests", {{"storage", from}}}}}};
    old["status"] = json::object{{"phase", phase}};
    json::object claim = old;
    claim["spec"].as_object()["resources"] = json::object{{"requests", {{"storage", to}}}};
    const auto refused = check_claim_growth(world.tables, claim, old);
    return refused ? refused->message : std::string();
  };
  EXPECT_EQ(grown("grows", "1Gi", "2Gi", "Bound"), "");
  EXPECT_EQ(grown("stays", "1Gi", "1024Mi", "Bound"), "");
  const std::string words = R"(persistentvolumeclaims "p" is forbidden: )";
  EXPECT_EQ(grown("stays", "1Gi", "2Gi", "Bound"),
            words +
                "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must "
                "support resize");
  EXPECT_NE(grown("none", "1Gi", "2Gi", "Bound"), "");
  EXPECT_EQ(grown("grows", "1Gi", "2Gi", "Pending"), words + "Only bound persistent volume claims can be expanded");
}

TEST(Classes, OfAnIngressTheNewestStandardOne) {
  World world;
  for (const char* name : {"old", "new", "other"})
    world.put("ingressclasses.networking.k8s.io",
              std::string(R"({"metadata":{"name":")") + name +
                  R"(","annotations":{"ingressclass.kubernetes.io/is-default-class":")" +
                  (std::string_view(name) == "other" ? "false" : "true") + R"("}}})");
  const auto chosen = [&](const char* ingress) {
    json::object tree = json::parse(ingress).as_object();
    choose_ingress_class(world.tables, tree);
    return at(tree, {"spec", "ingressClassName"});
  };
  EXPECT_EQ(chosen(R"({"spec":{}})"), R"("new")");
  EXPECT_EQ(chosen(R"({"spec":{"ingressClassName":"mine"}})"), R"("mine")");
  EXPECT_EQ(chosen(R"({"metadata":{"annotations":{"kubernetes.io/ingress.class":"nginx"}},"spec":{}})"), "null");
}

TEST(Classes, OneOfPrioritiesIsTheDefault) {
  World world;
  const auto refused = [&](const char* name, bool is_default, bool is_new) {
    json::object tree{{"metadata", {{"name", name}}}, {"value", 5}, {"globalDefault", is_default}};
    const auto said = refuse_second_default(world.tables, tree, is_new);
    return said ? said->message : std::string();
  };
  EXPECT_EQ(refused("a", true, true), "");
  world.put("priorityclasses.scheduling.k8s.io", R"({"metadata":{"name":"a"},"value":1,"globalDefault":true})");
  world.put("priorityclasses.scheduling.k8s.io", R"({"metadata":{"name":"b"},"value":1})");
  EXPECT_EQ(refused("a", true, false), "");
  EXPECT_EQ(refused("b", false, false), "");
  EXPECT_EQ(refused("b", true, false),
            "priorityclasses.scheduling.k8s.io \"b\" is forbidden: PriorityClass a is already marked as default. Only "
            "one default can exist");
  EXPECT_NE(refused("c", true, true), "");
}

// --- policies ---

struct Policies : testing::Test {
  World world;
  PolicyBook book;
  std::vector<std::string> warnings;
  json::object deployment{{"metadata", {{"name", "d"}, {"namespace", "n"}, {"labels", {{"app", "x"}}}}},
                          {"spec", {{"replicas", 5}}}};

  void policy(std::string_view spec) {
    world.put("validatingadmissionpolicies.admissionregistration.k8s.io",
              R"({"metadata":{"name":"few"},"spec":)" + std::string(spec) + "}");
  }
  void bind(std::string_view more = {}, std::string_view actions = R"(["Deny"])") {
    world.put("validatingadmissionpolicybindings.admissionregistration.k8s.io",
              R"({"metadata":{"name":"b"},"spec":{"policyName":"few","validationActions":)" + std::string(actions) +
                  std::string(more) + "}}");
  }
  std::optional<Status> check(std::string operation = "CREATE") {
    AdmissionAttempt attempt;
    attempt.operation = std::move(operation);
    attempt.group = "apps";
    attempt.version = "v1";
    attempt.kind = "Deployment";
    attempt.resource = "deployments";
    attempt.ns = "n";
    attempt.name = "d";
    attempt.user = {{"username", "ann"}};
    attempt.object = &deployment;
    return book.check(
        world.tables, attempt,
        [](std::string_view group, std::string_view, std::string_view kind) -> std::optional<ParameterKind> {
          if (group.empty() && kind == "ConfigMap")
            return ParameterKind{"configmaps", "configmaps", true};
          return std::nullopt;
        },
        warnings);
  }
};

constexpr const char* kOfDeployments =
    R"("matchConstraints":{"resourceRules":[{"apiGroups":["apps"],"apiVersions":["v1"],"operations":["CREATE"],"resources":["deployments"]}]})";

TEST_F(Policies, DenyWithTheirMessage) {
  policy(
      std::string("{") + kOfDeployments +
      R"x(,"variables":[{"name":"most","expression":"3"},{"name":"many","expression":"object.spec.replicas > variables.most"}],
            "validations":[{"expression":"!variables.many","messageExpression":"'at most ' + string(variables.most)"}]})x");
  EXPECT_FALSE(check());  // nothing binds it yet
  bind();
  const auto refused = check();
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code, 422);
  EXPECT_EQ(refused->reason, "Invalid");
  EXPECT_EQ(
      refused->message,
      R"(deployments.apps "d" is forbidden: ValidatingAdmissionPolicy 'few' with binding 'b' denied request: at most 3)");
  EXPECT_FALSE(check("UPDATE"));
  deployment["spec"].as_object()["replicas"] = 3;
  EXPECT_FALSE(check());
}

TEST_F(Policies, OfChangedObjectsAreReadAnew) {
  policy(std::string("{") + kOfDeployments + R"(,"validations":[{"expression":"object.spec.replicas < 3"}]})");
  bind();
  EXPECT_EQ(
      check().value().causes.back().message,
      "ValidatingAdmissionPolicy 'few' with binding 'b' denied request: failed expression: object.spec.replicas < 3");
  policy(std::string("{") + kOfDeployments + R"(,"validations":[{"expression":"object.spec.replicas < 9"}]})");
  EXPECT_FALSE(check());
}

TEST_F(Policies, WarnWhereBindingsSaySo) {
  policy(std::string("{") + kOfDeployments + R"(,"validations":[{"expression":"false","message":"no"}]})");
  bind("", R"(["Warn"])");
  EXPECT_FALSE(check());
  EXPECT_EQ(warnings,
            std::vector<std::string>{"Validation failed for ValidatingAdmissionPolicy 'few' with binding 'b': no"});
}

// What cannot be evaluated fails like what is false: as the binding wants it, and not at all where failures are
// ignored.
TEST_F(Policies, FailuresAreWhatTheBindingMakesOfThem) {
  const auto with = [&](const char* more, const char* actions) {
    policy(std::string("{") + kOfDeployments + more + R"(,"validations":[{"expression":"object.spec.none > 1"}]})");
    bind("", actions);
    warnings.clear();
    return check();
  };
  EXPECT_NE(with("", R"(["Deny"])")
                .value()
                .message.find("expression 'object.spec.none > 1' resulted in error: no such key: none"),
            std::string::npos);
  EXPECT_FALSE(with("", R"(["Audit"])"));
  EXPECT_TRUE(warnings.empty());
  EXPECT_FALSE(with("", R"(["Warn"])"));
  EXPECT_EQ(warnings, std::vector<std::string>{
                          "Validation failed for ValidatingAdmissionPolicy 'few' with binding 'b': expression "
                          "'object.spec.none > 1' resulted in error: no such key: none"});
  EXPECT_FALSE(with(R"(,"failurePolicy":"Ignore")", R"(["Deny","Audit"])"));
  // Conditions: one that is false is enough; one that fails is a failure, and nothing further is judged.
  constexpr const char* kFails = R"({"name":"a","expression":"object.none"})";
  const auto conditions = [&](const std::string& more, const char* actions, const char* ignores = "") {
    return with((R"(,"matchConditions":[)" + std::string(kFails) + more + "]" + ignores).c_str(), actions);
  };
  EXPECT_FALSE(conditions(R"(,{"name":"b","expression":"false"})", R"(["Deny"])"));
  EXPECT_NE(conditions(R"(,{"name":"b","expression":"true"})", R"(["Deny"])").value().message.find("no such key: none"),
            std::string::npos);
  EXPECT_FALSE(conditions("", R"(["Warn"])"));
  EXPECT_EQ(warnings.size(), 1u);
  EXPECT_FALSE(conditions("", R"(["Deny"])", R"(,"failurePolicy":"Ignore")"));
  // A policy that cannot be asked denies, whatever its binding says.
  EXPECT_TRUE(with(R"(,"auditAnnotations":[{"key":"k","valueExpression":"object.none"}])", R"(["Audit"])"));
}

TEST_F(Policies, AskWhatTheUserMay) {
  std::vector<std::string> asked;
  book = PolicyBook([&](const json::object& user, const cel::AccessQuestion& one) {
    asked.push_back(join({std::string(user.at("username").as_string()), one.account_ns, one.account, one.verb, one.path,
                          one.group, one.resource, one.subresource, one.ns, one.name},
                         "|"));
    return one.verb == "yes";
  });
  bind();
  const auto allowed = [&](const std::string& question) {
    asked.clear();
    policy(std::string("{") + kOfDeployments +
           R"(,"variables":[{"name":"v","expression":"1"}],"validations":[{"expression":")" + question + R"("}]})");
    const auto refused = check();
    EXPECT_TRUE(!refused || refused->message.find("error") == std::string::npos) << refused->message;
    EXPECT_EQ(asked.size(), 1u) << question;
    return refused ? "no: " + asked.at(0) : asked.at(0);
  };
  EXPECT_EQ(allowed("authorizer.group('').resource('pods').namespace('m').name('p').check('yes').allowed()"),
            "ann|||yes|||pods||m|p");
  EXPECT_EQ(allowed("authorizer.group('g').resource('pods').subresource('exec').check('get').allowed()"),
            "no: ann|||get||g|pods|exec||");
  EXPECT_EQ(allowed("authorizer.path('/healthz').check('yes').allowed()"), "ann|||yes|/healthz|||||");
  EXPECT_EQ(allowed("authorizer.requestResource.check('yes').allowed()"), "ann|||yes||apps|deployments||n|d");
  EXPECT_EQ(allowed("authorizer.serviceAccount('s','a').group('').resource('pods').check('yes').allowed()"),
            "ann|s|a|yes|||pods|||");
  EXPECT_EQ(allowed("!authorizer.requestResource.fieldSelector('a=b').labelSelector('c').check('no').errored()"),
            "ann|||no||apps|deployments||n|d");
  book = PolicyBook();
  policy(std::string("{") + kOfDeployments +
         R"x(,"validations":[{"expression":"authorizer.requestResource.check('yes').allowed()"}]})x");
  EXPECT_TRUE(check()) << "who knows nobody's rights allows nothing";
}

TEST_F(Policies, TakeParameters) {
  policy(
      std::string("{") + kOfDeployments +
      R"x(,"paramKind":{"apiVersion":"v1","kind":"ConfigMap"},"validations":[{"expression":"object.spec.replicas <= int(params.data.most)"}]})x");
  bind(R"(,"paramRef":{"name":"limits","parameterNotFoundAction":"Deny"})");
  EXPECT_NE(check().value().message.find("no params found for policy binding"), std::string::npos);
  world.put("configmaps", R"({"metadata":{"name":"limits","namespace":"n"},"data":{"most":"4"}})");
  EXPECT_TRUE(check());
  world.put("configmaps", R"({"metadata":{"name":"limits","namespace":"n"},"data":{"most":"5"}})");
  EXPECT_FALSE(check());
}

TEST_F(Policies, ThatCannotBeJudgedFailAsTheySay) {
  policy(std::string("{") + kOfDeployments + R"(,"validations":[{"expression":"object.nowhere.deep == 1"}]})");
  bind();
  EXPECT_NE(
      check().value().message.find("expression 'object.nowhere.deep == 1' resulted in error: no such key: nowhere"),
      std::string::npos);
  policy(std::string("{\"failurePolicy\":\"Ignore\",") + kOfDeployments +
         R"(,"validations":[{"expression":"object.nowhere.deep == 1"}]})");
  EXPECT_FALSE(check());
}

TEST(WebhookForms, AreAskedInTheFormThatTheirRuleNames) {
  World world;
  const auto configure = [&](std::string_view versions, std::string_view policy) {
    world.put(
        "mutatingwebhookconfigurations.admissionregistration.k8s.io",
        format(
            R"({{"metadata":{{"name":"w"}},"webhooks":[{{"name":"w","matchPolicy":"{}","rules":[{{"apiGroups":["g"],)"
            R"("apiVersions":{},"operations":["*"],"resources":["things"]}}]}}]}})",
            policy, versions));
  };
  AdmissionAttempt attempt;
  attempt.operation = "CREATE";
  attempt.group = "g";
  attempt.version = "v1";
  attempt.kind = "Thing";
  attempt.resource = "things";
  attempt.others = {{"g", "v2", "Thing", "things"}, {"h", "v2", "Thing", "things"}};
  const json::object thing{{"metadata", {{"name", "t"}}}};
  attempt.object = &thing;
  const auto version_asked = [&] {
    const auto found = webhooks_for(world.tables, Webhook::Sort::kMutating, attempt);
    return found.empty() ? std::string("none") : found.front().form.version;
  };
  configure(R"(["v2","v1"])", "Equivalent");
  EXPECT_EQ(version_asked(), "v1") << "the request's own, where a rule has it";
  configure(R"(["v2"])", "Equivalent");
  EXPECT_EQ(version_asked(), "v2");
  configure(R"(["v2"])", "Exact");
  EXPECT_EQ(version_asked(), "none");
  configure(R"(["v3"])", "Equivalent");
  EXPECT_EQ(version_asked(), "none") << "nobody serves it";

  const json::object tree = request_tree(attempt.in_form(attempt.others[0], &thing, nullptr));
  EXPECT_EQ(at(tree, {"kind", "version"}), R"("v2")");
  EXPECT_EQ(at(tree, {"requestKind", "version"}), R"("v1")");
  EXPECT_EQ(at(tree, {"resource", "version"}), R"("v2")");
  EXPECT_EQ(at(tree, {"requestResource", "version"}), R"("v1")");
}

TEST_F(Policies, HoldForWhatTheirConditionsAndSelectorsTake) {
  policy(
      std::string("{") + kOfDeployments +
      R"(,"matchConditions":[{"name":"not-ann","expression":"request.userInfo.username != 'ann'"}],"validations":[{"expression":"false"}]})");
  bind();
  EXPECT_FALSE(check());
  policy(std::string("{") + kOfDeployments + R"(,"validations":[{"expression":"false"}]})");
  EXPECT_TRUE(check());
  bind(R"(,"matchResources":{"objectSelector":{"matchLabels":{"app":"y"}}})");
  EXPECT_FALSE(check());
}

}  // namespace
}  // namespace lockstep::kube
