#include "frontends/kube/kinds/pod_job.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "base/text.h"
#include "frontends/kube/kinds/pod_env.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/kinds/pod_placement.h"

namespace lockstep::kube {
namespace {

json::object tree(std::string_view text) { return json::parse(text).as_object(); }

json::object pod(const std::string& spec) {
  return tree(R"({"metadata":{"name":"web","namespace":"lab","labels":{"tier":"front"}},"spec":)" + spec + "}");
}

JobSpec job(const std::string& spec, PodSite site = {}) {
  auto made = job_of_pod(pod(spec), site);
  EXPECT_TRUE(made.ok()) << made.error().message;
  return std::move(*made);
}

const GroupSpec& group_of(const JobSpec& job) { return job.groups.get().at(0); }
const Sandbox& sandbox_of(const JobSpec& job) { return group_of(job).sandbox; }

TEST(PodJob, ContainersInTheirOrderWithTheirRules) {
  const JobSpec made = job(R"({"restartPolicy":"OnFailure","terminationGracePeriodSeconds":7,"activeDeadlineSeconds":60,
    "initContainers":[{"name":"first","image":"a"},{"name":"proxy","image":"b","restartPolicy":"Always"}],
    "containers":[{"name":"main","image":"c:1"}]})");
  const auto& all = sandbox_of(made).containers;
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].kind, ContainerKind::kInit);
  EXPECT_EQ(all[0].restart, RestartRule::kOnFailure);
  EXPECT_EQ(all[1].kind, ContainerKind::kSidecar);
  EXPECT_EQ(all[2].kind, ContainerKind::kMain);
  EXPECT_EQ(all[2].restart, RestartRule::kOnFailure);
  EXPECT_EQ(all[2].container.image, "docker://c:1");
  EXPECT_EQ(made.kill_wait, seconds(7));
  EXPECT_EQ(made.time_limit, seconds(60));
  EXPECT_EQ(made.front_end.get(), "kubernetes");
  EXPECT_FALSE(made.requeue);
  EXPECT_EQ(group_of(made).launch, Launch::kTasks);
  EXPECT_TRUE(sandbox_of(made).front_end_files);
}

TEST(PodJob, CommandAndArgumentsStandWhereKubernetesPutsThem) {
  const auto program = [](const std::string& fields) {
    const JobSpec made = job(R"({"containers":[{"name":"m","image":"i")" + fields + "}]}");
    const SandboxContainer one = sandbox_of(made).containers.at(0);
    return std::pair(one.argv, one.container.entrypoint);
  };
  using Argv = std::vector<std::string>;
  EXPECT_EQ(program(""), std::pair(Argv{}, false));
  EXPECT_EQ(program(R"(,"args":["x"])"), std::pair(Argv{"x"}, true));
  EXPECT_EQ(program(R"x(,"command":["sh"],"args":["-c","$(A) $$(A) $(B)"],"env":[{"name":"A","value":"1"}])x"),
            std::pair(Argv{"sh", "-c", "1 $(A) $(B)"}, false));
}

TEST(PodJob, VariablesAreExpandedFromThoseBeforeThem) {
  const JobSpec made = job(R"x({"containers":[{"name":"m","image":"i","env":[
    {"name":"A","value":"$(B)"},{"name":"B","value":"b"},{"name":"C","value":"$(A)$(B)"},
    {"name":"N","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}},
    {"name":"T","valueFrom":{"fieldRef":{"fieldPath":"metadata.labels['tier']"}}},
    {"name":"IP","valueFrom":{"fieldRef":{"fieldPath":"status.podIP"}}},
    {"name":"S","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}]}]})x");
  const SandboxContainer& one = sandbox_of(made).containers.at(0);
  const std::vector<std::pair<std::string, std::string>> wanted{
      {"A", "$(B)"}, {"B", "b"}, {"C", "$(B)b"}, {"N", "web"}, {"T", "front"}};
  EXPECT_EQ(one.env, wanted);
  ASSERT_EQ(one.placed_env.size(), 1u);
  EXPECT_EQ(one.placed_env[0], (PlacedVariable{PlacedVariable::What::kTaskAddress, "IP"}));
}

TEST(PodJob, WhatItAsksOfItsNode) {
  const JobSpec shared = job(R"({"containers":[{"name":"a","image":"i","resources":{"requests":{"cpu":"400m"}}},
    {"name":"b","image":"i","resources":{"requests":{"cpu":"500m","memory":"1Gi"}}}]})");
  EXPECT_EQ(group_of(shared).per_task.cores, 0u);
  EXPECT_EQ(group_of(shared).per_task.shared_milli, 900u);
  EXPECT_TRUE(group_of(shared).overcommit);
  EXPECT_TRUE(group_of(shared).spread);
  EXPECT_EQ(group_of(shared).per_task.memory_mb, 1024) << "what is asked for, whatever the limits";
  const std::string whole = R"({"cpu":"2","memory":"1Gi"})";
  const JobSpec own = job(R"({"containers":[{"name":"a","image":"i","resources":{"requests":)" + whole +
                          R"(,"limits":)" + whole + "}}]}");
  EXPECT_EQ(group_of(own).per_task.cores, 2u) << "a guaranteed pod of whole cores has its own";
  EXPECT_EQ(group_of(own).per_task.shared_milli, 0u);
  EXPECT_FALSE(group_of(own).overcommit);
  const JobSpec pages = job(R"({"containers":[{"name":"a","image":"i","resources":{"requests":{"hugepages-2Mi":"4Mi"},
    "limits":{"hugepages-2Mi":"4Mi"}}}]})");
  EXPECT_EQ(group_of(pages).per_task.counted, (std::vector<Counted>{{"hugepages-2Mi", 4}}));
  const JobSpec large = job(R"({"containers":[{"name":"a","image":"i","resources":{
    "requests":{"cpu":"1500m","memory":"1Gi","nvidia.com/gpu":"2","nvidia.com/mig-1g.10gb":"1","example.com/x":"3"},
    "limits":{"cpu":"2","memory":"1Gi"}}}]})");
  const Resources& needs = group_of(large).per_task;
  EXPECT_EQ(needs.shared_milli, 1500u);
  EXPECT_FALSE(group_of(large).spread) << "what has devices is packed";
  EXPECT_EQ(needs.memory_mb, 1024);
  ASSERT_EQ(needs.devices.size(), 2u);
  EXPECT_EQ(needs.devices[0].count, 2u);
  EXPECT_EQ(needs.devices[1].mig, "1g.10gb");
  EXPECT_EQ(needs.counted, (std::vector<Counted>{{"example.com/x", 3}}));
  const SandboxContainer& one = sandbox_of(large).containers.at(0);
  EXPECT_EQ(one.milli_cores, 2000u);
  EXPECT_EQ(one.cpu_weight, 1500u);
  EXPECT_EQ(one.memory_bytes, std::uint64_t{1} << 30);
  EXPECT_FALSE(
      job_of_pod(pod(R"({"containers":[{"name":"a","resources":{"requests":{"nvidia.com/gpu":"1500m"}}}]})"), {}).ok());
}

TEST(PodJob, RightsOfTheContainerWinOverThoseOfThePod) {
  const JobSpec made = job(R"({"securityContext":{"runAsUser":5,"runAsGroup":6,"fsGroup":7,"supplementalGroups":[8],
      "seccompProfile":{"type":"Unconfined"},"sysctls":[{"name":"net.x","value":"1"}]},
    "containers":[{"name":"a","image":"i"},{"name":"b","image":"i","securityContext":{"runAsUser":0,"privileged":true,
      "allowPrivilegeEscalation":false,"readOnlyRootFilesystem":true,"seccompProfile":{"type":"RuntimeDefault"},
      "capabilities":{"add":["CAP_NET_ADMIN"],"drop":["ALL"]}}}]})");
  const ContainerRights& a = sandbox_of(made).containers.at(0).rights;
  EXPECT_EQ(a.uid, 5u);
  EXPECT_EQ(a.gid, 6u);
  EXPECT_EQ(a.groups, std::vector<std::uint32_t>{8});
  EXPECT_EQ(a.seccomp, "unconfined");
  const ContainerRights& b = sandbox_of(made).containers.at(1).rights;
  EXPECT_EQ(b.uid, 0u);
  EXPECT_TRUE(b.privileged && b.no_new_privileges && b.read_only_root);
  EXPECT_EQ(b.add_capabilities, std::vector<std::string>{"NET_ADMIN"});
  EXPECT_EQ(b.seccomp, "");
  EXPECT_EQ(sandbox_of(made).files_group, 7u);
  EXPECT_EQ(sandbox_of(made).sysctls.size(), 1u);
}

TEST(PodJob, VolumesAndMounts) {
  const JobSpec made = job(R"({"volumes":[{"name":"d","emptyDir":{"sizeLimit":"1Ki"}},
      {"name":"m","emptyDir":{"medium":"Memory"}},{"name":"h","hostPath":{"path":"/var/x","type":"Directory"}},
      {"name":"c","configMap":{"name":"x"}},{"name":"p","persistentVolumeClaim":{"claimName":"q"}}],
    "containers":[{"name":"a","image":"i","volumeMounts":[{"name":"d","mountPath":"/d","subPath":"in/side"},
      {"name":"c","mountPath":"/c","readOnly":true}]}]})",
                           {.user = {}, .claims = {{"p", "/disks/1"}}});
  const auto& volumes = sandbox_of(made).volumes;
  ASSERT_EQ(volumes.size(), 5u);
  EXPECT_EQ(volumes[0], (SandboxVolume{SandboxVolume::Kind::kDisk, "d", 1024, "", ""}));
  EXPECT_EQ(volumes[1].kind, SandboxVolume::Kind::kMemory);
  EXPECT_EQ(volumes[2], (SandboxVolume{SandboxVolume::Kind::kHost, "h", 0, "/var/x", "Directory"}));
  EXPECT_EQ(volumes[3].kind, SandboxVolume::Kind::kFiles);
  EXPECT_EQ(volumes[4].path, "/disks/1");
  const auto& mounts = sandbox_of(made).containers.at(0).container.mounts;
  EXPECT_EQ(mounts.at(0), (Mount{"volume:d/in/side", "/d", false, {}}));
  EXPECT_EQ(mounts.at(1), (Mount{"volume:c", "/c", true, {}}));
}

TEST(PodJob, ProbesAndHooks) {
  const JobSpec made = job(R"({"containers":[{"name":"a","image":"i","ports":[{"name":"http","containerPort":81}],
    "readinessProbe":{"httpGet":{"port":"http","scheme":"HTTPS","httpHeaders":[{"name":"A","value":"b"}]},
      "periodSeconds":2,"successThreshold":3},
    "livenessProbe":{"exec":{"command":["true"]},"failureThreshold":1,"terminationGracePeriodSeconds":4},
    "lifecycle":{"postStart":{"exec":{"command":["echo"]}},"preStop":{"sleep":{"seconds":3}}}}]})");
  const SandboxContainer& one = sandbox_of(made).containers.at(0);
  ASSERT_EQ(one.probes.size(), 2u);
  EXPECT_EQ(one.probes[0].port, 81);
  EXPECT_EQ(one.probes[0].path, "/");
  EXPECT_TRUE(one.probes[0].tls);
  EXPECT_EQ(one.probes[0].successes, 3u);
  EXPECT_EQ(one.probes[0].headers.size(), 1u);
  EXPECT_EQ(one.probes[1].how, Probe::How::kExec);
  EXPECT_EQ(one.probes[1].kill_wait, seconds(4));
  EXPECT_EQ(one.begun.argv, std::vector<std::string>{"echo"});
  EXPECT_EQ(one.ending.sleep, seconds(3));
}

TEST(PodJob, PodsOfOneTemplateAskForTheSame) {
  json::object first = pod(R"({"containers":[{"name":"a","image":"i"}]})"), second = first;
  second["metadata"].as_object()["name"] = "other";
  EXPECT_EQ(job_of_pod(first, {})->groups, job_of_pod(second, {})->groups);
}

TEST(PodJob, NamesAndNetwork) {
  PodSite site;
  site.name_servers = {"10.96.0.10"};
  const JobSpec made =
      job(R"({"dnsPolicy":"ClusterFirst","subdomain":"sub","hostAliases":[{"ip":"1.2.3.4","hostnames":["a"]}],
    "dnsConfig":{"nameservers":["9.9.9.9"],"options":[{"name":"ndots","value":"2"}]},
    "containers":[{"name":"a","image":"i","ports":[{"containerPort":80,"hostPort":8080,"protocol":"UDP"}]}]})",
          site);
  const Sandbox& box = sandbox_of(made);
  EXPECT_EQ(box.network, TaskNetwork::kOwn);
  EXPECT_TRUE(box.host_name.empty() && box.named_as_job);
  EXPECT_EQ(sandbox_of(job(R"({"hostname":"own","containers":[{"name":"a","image":"i"}]})", site)).host_name, "own");
  EXPECT_EQ(box.domain, "sub.lab.svc.cluster.local");
  EXPECT_EQ(box.lookup.servers, (std::vector<std::string>{"10.96.0.10", "9.9.9.9"}));
  EXPECT_EQ(box.lookup.searches.at(0), "lab.svc.cluster.local");
  EXPECT_EQ(box.lookup.options, std::vector<std::string>{"ndots:2"});
  EXPECT_EQ(box.published, (std::vector<PublishedPort>{{8080, 80, "udp", ""}}));
  EXPECT_EQ(box.aliases.at(0).address, "1.2.3.4");
  const JobSpec host = job(R"({"hostNetwork":true,"containers":[{"name":"a","image":"i"}]})", site);
  EXPECT_EQ(sandbox_of(host).network, TaskNetwork::kHost);
  EXPECT_TRUE(sandbox_of(host).lookup.servers.empty());
}

TEST(PodPlacement, SelectorsAffinityAndTaints) {
  const json::object node = tree(R"({"metadata":{"name":"n1","labels":{"disk":"ssd","size":"5"}},
    "spec":{"taints":[{"key":"gpu","value":"yes","effect":"NoSchedule"},{"key":"x","effect":"PreferNoSchedule"}]}})");
  const std::string tolerates = R"("tolerations":[{"key":"gpu","operator":"Equal","value":"yes"}])";
  const auto refuses = [&](const std::string& spec) { return node_refuses(pod("{" + spec + "}"), node); };
  EXPECT_EQ(refuses(""), "node(s) had untolerated taint {gpu: yes}");
  EXPECT_EQ(refuses(tolerates), "");
  EXPECT_EQ(refuses(R"("nodeName":"n1")"), "");
  EXPECT_NE(refuses(R"("nodeName":"n2")"), "");
  EXPECT_EQ(refuses(tolerates + R"(,"nodeSelector":{"disk":"ssd"})"), "");
  EXPECT_NE(refuses(tolerates + R"(,"nodeSelector":{"disk":"hdd"})"), "");
  const auto affinity = [&](const std::string& terms) {
    return refuses(
        tolerates +
        R"(,"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[)" +
        terms + "]}}}");
  };
  EXPECT_EQ(affinity(R"({"matchExpressions":[{"key":"size","operator":"Gt","values":["4"]}]})"), "");
  EXPECT_NE(affinity(R"({"matchExpressions":[{"key":"disk","operator":"DoesNotExist"}]})"), "");
  EXPECT_EQ(affinity(R"({},{"matchFields":[{"key":"metadata.name","operator":"In","values":["n1"]}]})"), "");
  EXPECT_NE(affinity("{}"), "") << "a term that says nothing matches nothing";
  EXPECT_EQ(unschedulable_words(3, {"b", "a", "b"}), "0/3 nodes are available: 1 a, 2 b.");
}

TEST(PodEnv, ReferencesAsKubernetesExpandsThem) {
  const Variables known{{"A", "x"}, {"B", ""}};
  EXPECT_EQ(expanded("$(A)-$(B)-$(C)", known), "x--$(C)");
  EXPECT_EQ(expanded("$$(A) $$$(A) $A $( $", known), "$(A) $x $A $( $");
  Variables doubling{{"V0", std::string(1024, 'x')}};
  for (int i = 1; i < 30; ++i)
    if (const auto value = expanded(format("$(V{0})$(V{0})", i - 1), doubling))
      doubling[format("V{}", i)] = *value;
  EXPECT_EQ(doubling.at("V7").size(), kVariableBytesMax);
  EXPECT_FALSE(doubling.contains("V8"));
  const json::object one = tree(R"({"resources":{"limits":{"cpu":"1500m","memory":"3Mi"}}})");
  EXPECT_EQ(resource_of_container(one, tree(R"({"resource":"limits.cpu"})"), {}), "2");
  EXPECT_EQ(resource_of_container(one, tree(R"({"resource":"limits.cpu","divisor":"1m"})"), {}), "1500");
  EXPECT_EQ(resource_of_container(one, tree(R"({"resource":"limits.memory","divisor":"1Mi"})"), {}), "3");
  EXPECT_EQ(resource_of_container(json::object(), tree(R"({"resource":"limits.cpu"})"), {.cores = 8}), "8");
}

TEST(PodFields, QualityOfService) {
  EXPECT_EQ(qos_class(pod(R"({"containers":[{"name":"a"}]})")), "BestEffort");
  EXPECT_EQ(
      qos_class(pod(
          R"({"containers":[{"resources":{"limits":{"cpu":"1","memory":"1"},"requests":{"cpu":"1","memory":"1"}}}]})")),
      "Guaranteed");
  EXPECT_EQ(qos_class(pod(R"({"containers":[{"resources":{"requests":{"cpu":"1"}}}]})")), "Burstable");
}

TEST(PodJob, SettingsOfTheKernelAreNamedWithDots) {
  PodSite site;
  site.namespaces = [](const json::value&) { return std::vector<std::string>(); };
  const auto job = job_of_pod(
      json::parse(R"({"metadata":{"name":"p","namespace":"n"},"spec":{"containers":[{"name":"a","image":"i"}],
      "securityContext":{"sysctls":[{"name":"net/ipv4/ip_local_port_range","value":"1"}]}}})")
          .as_object(),
      site);
  ASSERT_TRUE(job.ok());
  EXPECT_EQ(job->groups.get().front().sandbox.sysctls.front().first, "net.ipv4.ip_local_port_range");
}

}  // namespace
}  // namespace lockstep::kube
