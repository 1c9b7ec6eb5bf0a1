#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "base/text.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/kinds/rules.h"
#include "frontends/kube/kinds/sysctls.h"
#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {
namespace {

json::object pod_with(const std::string& spec) {
  return json::parse(R"({"metadata":{"name":"p","namespace":"n"},"spec":)" + spec + "}").as_object();
}

// Path and words of each fault.
std::string fault_words(const FieldErrors& errors) {
  std::string out;
  for (const FieldError& one : errors) out += one.path + ": " + one.body() + "\n";
  return out;
}
std::string faults_of_new(const std::string& spec) {
  FieldErrors errors;
  rules_of("pods").validate(pod_with(spec), nullptr, errors);
  return fault_words(errors);
}
// As a client that goes through the subresource changes it.
std::string faults_of_change(const std::string& before, const std::string& after, std::string_view subresource,
                             json::object* result = nullptr) {
  const json::object old = pod_with(before);
  json::object tree = pod_with(after);
  rules_of("pods").prepare_update(tree, old, subresource);
  FieldErrors errors;
  rules_of("pods").validate_update(tree, old, subresource, errors);
  if (result)
    *result = tree;
  return fault_words(errors);
}

constexpr const char* kPlain = R"({"containers":[{"name":"a","image":"i"}]})";

TEST(PodRules, profiles_and_mounts_are_what_they_can_be) {
  EXPECT_EQ(faults_of_new(kPlain), "");
  EXPECT_NE(
      faults_of_new(
          R"({"containers":[{"name":"a","image":"i","securityContext":{"seccompProfile":{"type":"Localhost"}}}]})")
          .find("must be set when seccomp type is Localhost"),
      std::string::npos);
  EXPECT_NE(faults_of_new(R"({"securityContext":{"seccompProfile":{"type":"Localhost","localhostProfile":"a/../../b"}},
      "containers":[{"name":"a","image":"i"}]})")
                .find("must not contain '..'"),
            std::string::npos);
  EXPECT_NE(faults_of_new(R"({"containers":[{"name":"a","image":"i","securityContext":{"procMount":"Unmasked"}}]})")
                .find("`hostUsers` must be false to use `Unmasked`"),
            std::string::npos);
  EXPECT_NE(faults_of_new(R"({"volumes":[{"name":"v","hostPath":{"path":"/x"}}],"containers":[{"name":"a","image":"i",
      "volumeMounts":[{"name":"v","mountPath":"/m","mountPropagation":"Bidirectional"}]}]})")
                .find("available only to privileged containers"),
            std::string::npos);
}

TEST(PodRules, search_paths_are_names_that_some_servers_know) {
  const auto with = [](const std::string& path) {
    return faults_of_new(R"({"dnsConfig":{"searches":[")" + path + R"("]},"containers":[{"name":"a","image":"i"}]})");
  };
  for (const char* good : {"lab.example", "lab.example.", ".", "_sip._tcp.lab_1.example", "a"})
    EXPECT_EQ(with(good), "") << good;
  for (const char* bad : {"", "a_", "a_.b", "__a", "A", "a..b", "-a", "a b", "..", "_"})
    EXPECT_NE(with(bad), "") << bad;
}

TEST(PodRules, settings_of_the_kernel_have_names_that_can_be) {
  const auto with = [](const std::string& name) {
    return faults_of_new(R"({"securityContext":{"sysctls":[{"name":")" + name +
                         R"(","value":"1"}]},"containers":[{"name":"a","image":"i"}]})");
  };
  for (const char* good : {"kernel.shmmax", "net/ipv4/ip_forward", "safe-and-unsafe", "a.b_c.d"})
    EXPECT_EQ(with(good), "") << good;
  for (const char* bad : {"", "foo-", "bar..", ".a", "-a", "a._b", "A"}) EXPECT_NE(with(bad), "") << bad;
}

TEST(PodRules, of_settings_nodes_take_the_safe_ones) {
  const auto reason = [](const std::string& name) {
    return node_refusal(pod_with(R"({"securityContext":{"sysctls":[{"name":")" + name + R"(","value":"1"}]}})")).reason;
  };
  EXPECT_EQ(reason("net.ipv4.tcp_syncookies"), "");
  EXPECT_EQ(reason("net/ipv4/tcp_syncookies"), "");
  EXPECT_EQ(reason("kernel.msgmax"), "SysctlForbidden");
  EXPECT_EQ(node_refusal(pod_with(R"({"os":{"name":"windows"}})")).reason, "PodOSNotSupported");
  EXPECT_EQ(node_refusal(pod_with(R"({"os":{"name":"linux"}})")).reason, "");
  EXPECT_TRUE(sysctl_is_of_network("net/ipv4/ip_forward") && sysctl_is_of_ipc("kernel.msgmax"));
}

TEST(PodRules, a_grace_below_none_is_a_second) {
  json::object pod = pod_with(R"({"terminationGracePeriodSeconds":-1,"containers":[{"name":"a","image":"i"}]})");
  rules_of("pods").prepare_create(pod);
  EXPECT_EQ(integer_in(spec_of(pod), "terminationGracePeriodSeconds"), 1);
}

TEST(PodRules, containers_are_added_through_their_own_door_alone) {
  const std::string with =
      R"({"containers":[{"name":"a","image":"i"}],"ephemeralContainers":[{"name":"d","image":"j"}]})";
  json::object result;
  EXPECT_EQ(faults_of_change(kPlain, with, "", &result), "");
  EXPECT_TRUE(part(part(result, "spec"), "ephemeralContainers").is_null())
      << "left out, as by a client that knows none";
  EXPECT_EQ(faults_of_change(kPlain, with, "ephemeralcontainers", &result), "");
  EXPECT_TRUE(part(part(result, "spec"), "ephemeralContainers").is_array());
  EXPECT_NE(faults_of_change(
                with, R"({"containers":[{"name":"a","image":"i"}],"ephemeralContainers":[{"name":"d","image":"k"}]})",
                "ephemeralcontainers")
                .find("existing ephemeral containers may not be changed"),
            std::string::npos);
  for (const auto& [more, why] :
       {std::pair{R"("name":"a")", "Duplicate value"},
        {R"("name":"d","targetContainerName":"x")", "Not found"},
        {R"("name":"d","ports":[{"containerPort":1}])", "cannot be set for an Ephemeral Container"},
        {R"("name":"d","resources":{"limits":{"cpu":"1"}})", "cannot be set for an"}})
    EXPECT_NE(faults_of_change(
                  kPlain,
                  std::string(R"({"containers":[{"name":"a","image":"i"}],"ephemeralContainers":[{"image":"j",)") +
                      more + "}]}",
                  "ephemeralcontainers")
                  .find(why),
              std::string::npos)
        << more;
}

TEST(PodRules, amounts_change_through_their_own_door_alone) {
  const auto sized = [](const std::string& cpu, const std::string& more = "") {
    return R"({"containers":[{"name":"a","image":"i","resources":{"requests":{"cpu":")" + cpu + R"("})" + more + "}}]}";
  };
  EXPECT_EQ(faults_of_change(sized("1"), sized("2"), "resize"), "");
  EXPECT_NE(faults_of_change(sized("1"), sized("2"), "").find("pod updates may not change fields"), std::string::npos);
  EXPECT_NE(faults_of_change(sized("1"), kPlain, "resize").find("QOS Class may not change"), std::string::npos);
  EXPECT_NE(faults_of_change(sized("1", R"(,"limits":{"cpu":"3"})"), sized("1"), "resize").find("cannot be removed"),
            std::string::npos);
  EXPECT_NE(faults_of_change(sized("1"), sized("1", R"(,"limits":{"nvidia.com/gpu":"1"})"), "resize")
                .find("only cpu and memory resources are mutable"),
            std::string::npos);
  const auto two = [](const char* first, const char* second) {
    return std::string(R"({"containers":[{"name":")") + first + R"(","image":"i"},{"name":")" + second +
           R"(","image":"i"}]})";
  };
  EXPECT_EQ(faults_of_change(two("a", "b"), two("a", "b"), "resize"), "");
  EXPECT_EQ(faults_of_change(two("a", "b"), two("b", "a"), "resize"),
            "spec.containers[0].name: Forbidden: containers may not be renamed or reordered on resize\n"
            "spec.containers[1].name: Forbidden: containers may not be renamed or reordered on resize\n");
  EXPECT_EQ(faults_of_change(two("a", "b"), kPlain, "resize"),
            "spec.containers: Forbidden: containers may not be added or removed on resize\n");
  json::object result;
  EXPECT_EQ(faults_of_change(sized("1"),
                             R"({"containers":[{"name":"a","image":"other","resources":{"requests":{"cpu":"2"}}}]})",
                             "resize", &result),
            "");
  EXPECT_EQ(text_in(part(part(result, "spec"), "containers").as_array().at(0), "image"), "i") << "and nothing else";
}

TEST(PodRules, keys_of_own_labels_become_part_of_selectors) {
  json::object pod = json::parse(R"({"metadata":{"name":"p","labels":{"rev":"7"}},"spec":{
      "topologySpreadConstraints":[{"topologyKey":"z","labelSelector":{"matchLabels":{"app":"a"}},
          "matchLabelKeys":["rev","none"]}],
      "affinity":{"podAntiAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1,"podAffinityTerm":
          {"topologyKey":"z","labelSelector":{},"mismatchLabelKeys":["rev"]}}]}},
      "containers":[]}})")
                         .as_object();
  rules_of("pods").prepare_create(pod);
  rules_of("pods").prepare_create(pod);  // as often as the pod is completed
  const json::value& spec = pod["spec"];
  EXPECT_EQ(spec.at("topologySpreadConstraints").at(0).at("labelSelector").at("matchExpressions"),
            json::parse(R"([{"key":"rev","operator":"In","values":["7"]}])"));
  EXPECT_EQ(spec.at("affinity")
                .at("podAntiAffinity")
                .at("preferredDuringSchedulingIgnoredDuringExecution")
                .at(0)
                .at("podAffinityTerm")
                .at("labelSelector")
                .at("matchExpressions"),
            json::parse(R"([{"key":"rev","operator":"NotIn","values":["7"]}])"));
}

}  // namespace
}  // namespace lockstep::kube
