#include "frontends/kube/kinds/pod_terms.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "frontends/kube/kinds/node_change.h"
#include "frontends/kube/kinds/node_view.h"
#include "frontends/kube/kinds/pod_wait.h"
#include "model/job.h"
#include "rules/neighbours.h"

namespace lockstep::kube {
namespace {

json::object terms_tree(std::string_view text) { return json::parse(text).as_object(); }

constexpr const char* kMetadata = R"("metadata":{"name":"web","namespace":"lab","labels":{"app":"web","rev":"7"},
  "ownerReferences":[{"uid":"u-1","controller":true}]})";

Placement placed(const std::string& spec) {
  Placement out;
  const json::object pod = terms_tree(std::string("{") + kMetadata + R"(,"spec":)" + spec + "}");
  const auto set = set_terms(out, pod, [](const json::value&) { return std::vector<std::string>{"zoo", "ape"}; });
  EXPECT_TRUE(set.ok()) << set.error().message;
  return out;
}

Node node(const std::string& name, Labels labels = {}) {
  Node out;
  out.id = NodeId{1};
  out.meta.name = name;
  out.labels = std::move(labels);
  out.cores = 4;
  out.memory_mb = 1000;
  out.link = NodeLink::kUp;
  return out;
}

using Is = LabelRule::Is;
using Wish = NeighbourTerm::Wish;

TEST(PodTerms, NodesByEveryOperator) {
  const Placement group = placed(R"({"nodeSelector":{"disk":"ssd"},"affinity":{"nodeAffinity":{
    "requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[
      {"key":"cpus","operator":"Gt","values":["3"]},{"key":"old","operator":"DoesNotExist"}]},
      {"matchFields":[{"key":"metadata.name","operator":"In","values":["n7"]}]},{}]},
    "preferredDuringSchedulingIgnoredDuringExecution":[{"weight":9,"preference":{"matchExpressions":[
      {"key":"zone","operator":"NotIn","values":["a"]}]}}]}}})");
  EXPECT_EQ(node_keeps_off(group, node("n1", {{"cpus", "4"}, {"disk", "ssd"}})), "");
  EXPECT_NE(node_keeps_off(group, node("n1", {{"cpus", "3"}, {"disk", "ssd"}})), "");
  EXPECT_NE(node_keeps_off(group, node("n1", {{"cpus", "4"}, {"disk", "ssd"}, {"old", ""}})), "");
  EXPECT_NE(node_keeps_off(group, node("n1", {{"cpus", "4"}})), "") << "a term counts beside the selector";
  EXPECT_EQ(node_keeps_off(group, node("n7", {{"disk", "ssd"}})), "");
  EXPECT_NE(node_keeps_off(group, node("n8", {{"disk", "ssd"}})), "") << "a term without any matches nothing";
  ASSERT_EQ(group.node_wishes.size(), 1u);
  EXPECT_EQ(group.node_wishes[0].weight, 9u);
}

TEST(PodTerms, TaintsAndTolerations) {
  Node tainted = node("n1");
  tainted.marks = {{"team", "x", NodeMark::Effect::kKeepsOff}};
  EXPECT_EQ(node_keeps_off(placed("{}"), tainted), "node(s) had untolerated taint {team: x}");
  EXPECT_EQ(node_keeps_off(placed(R"({"tolerations":[{"operator":"Exists"}]})"), tainted), "");
  EXPECT_EQ(node_keeps_off(placed(R"({"tolerations":[{"key":"team","value":"x","effect":"NoSchedule"}]})"), tainted),
            "");
  EXPECT_NE(node_keeps_off(placed(R"({"tolerations":[{"key":"team","value":"x","effect":"NoExecute"}]})"), tainted),
            "");
  EXPECT_EQ(node_keeps_off(placed(R"({"nodeName":"n1"})"), tainted), "") << "whoever named it asks nothing more";
  tainted.marks[0].effect = NodeMark::Effect::kPutsOff;
  EXPECT_EQ(node_keeps_off(placed("{}"), tainted), "");
}

TEST(PodTerms, NeighboursWithTheirNamespacesAndKeys) {
  const Placement group = placed(R"({"affinity":{
    "podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"zone","namespaces":["b"],
      "labelSelector":{"matchLabels":{"app":"db"}},"matchLabelKeys":["rev","none"]}]},
    "podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[
        {"topologyKey":"kubernetes.io/hostname","namespaceSelector":{},"labelSelector":{}},
        {"topologyKey":"zone","namespaceSelector":{"matchLabels":{"x":"y"}},"labelSelector":null}],
      "preferredDuringSchedulingIgnoredDuringExecution":[{"weight":40,"podAffinityTerm":{"topologyKey":"rack",
        "labelSelector":{"matchExpressions":[{"key":"app","operator":"Exists"}]}}}]}}})");
  ASSERT_EQ(group.neighbours.size(), 5u);
  const NeighbourTerm& near = group.neighbours[0];
  EXPECT_EQ(near.wish, Wish::kNear);
  EXPECT_EQ(near.level, "zone");
  EXPECT_EQ(near.scopes, std::vector<std::string>{"b"});
  EXPECT_EQ(near.jobs, (std::vector<LabelRule>{{"app", Is::kOneOf, {"db"}}, {"rev", Is::kOneOf, {"7"}}}));
  EXPECT_TRUE(group.neighbours[1].every_scope);
  EXPECT_EQ(group.neighbours[1].level, "");
  EXPECT_EQ(group.neighbours[2].scopes, (std::vector<std::string>{"ape", "zoo"}));
  EXPECT_EQ(group.neighbours[2].jobs, (std::vector<LabelRule>{{"", Is::kOneOf, {}}})) << "no selector means nobody";
  EXPECT_EQ(group.neighbours[3].weight, 40u);
  EXPECT_EQ(group.neighbours[3].scopes, std::vector<std::string>{"lab"});
  EXPECT_EQ(group.neighbours[4].wish, Wish::kEven) << "pods of one owner are spread";
  EXPECT_EQ(group.neighbours[4].jobs, (std::vector<LabelRule>{{"", Is::kOneOf, {"u-1"}}}));
}

TEST(PodTerms, TopologySpread) {
  const Placement group = placed(R"({"topologySpreadConstraints":[
    {"topologyKey":"zone","maxSkew":2,"whenUnsatisfiable":"DoNotSchedule","minDomains":3,"nodeAffinityPolicy":"Ignore",
     "nodeTaintsPolicy":"Honor","labelSelector":{"matchLabels":{"app":"web"}}},
    {"topologyKey":"kubernetes.io/hostname","maxSkew":1,"whenUnsatisfiable":"ScheduleAnyway"}]})");
  ASSERT_EQ(group.neighbours.size(), 2u);
  const NeighbourTerm& even = group.neighbours[0];
  EXPECT_EQ(std::tuple(even.weight, even.skew_max, even.places_min, even.all_nodes, even.heeds_marks),
            std::tuple(0u, 2u, 3u, true, true));
  EXPECT_GT(group.neighbours[1].weight, 0u);
}

TEST(PodTerms, PortsOfTheNodeKeepApart) {
  const auto job = [](const std::string& port) {
    JobSpec out;
    const json::object pod =
        terms_tree(std::string("{") + kMetadata + R"(,"spec":{"containers":[{"ports":[)" + port + "]}]}}");
    GroupSpec group;
    EXPECT_TRUE(set_terms(group, pod, [](const json::value&) { return std::vector<std::string>(); }).ok());
    std::erase_if(group.neighbours, [](const NeighbourTerm& term) { return term.wish != Wish::kApart; });
    out.groups = std::vector<GroupSpec>{group};
    out.labels = labels_of_pod(pod);
    out.scope = "lab";
    return out;
  };
  const auto clash = [](const JobSpec& a, const JobSpec& b) {
    return means(a.groups.get().front().neighbours.at(0), b) || means(b.groups.get().front().neighbours.at(0), a);
  };
  const JobSpec all = job(R"({"hostPort":80})"), one = job(R"({"hostPort":80,"hostIP":"10.0.0.1"})"),
                other = job(R"({"hostPort":80,"hostIP":"10.0.0.2"})"), udp = job(R"({"hostPort":80,"protocol":"UDP"})");
  EXPECT_TRUE(clash(all, all));
  EXPECT_TRUE(clash(all, one));
  EXPECT_TRUE(clash(one, one));
  EXPECT_FALSE(clash(one, other));
  EXPECT_FALSE(clash(all, udp));
}

TEST(PodTerms, MoreThanAJobHoldsIsRefused) {
  std::string terms;
  for (int i = 0; i < 33; ++i) terms += std::string(i ? "," : "") + R"({"topologyKey":"z"})";
  Placement group;
  const json::object pod = terms_tree(
      std::string("{") + kMetadata +
      R"(,"spec":{"affinity":{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[)" + terms + "]}}}}");
  EXPECT_FALSE(set_terms(group, pod, [](const json::value&) { return std::vector<std::string>(); }).ok());
}

TEST(NodeChange, LabelsTaintsAmountsAndCordon) {
  Node record = node("n1");
  record.counted = {{"gres", 2}};
  json::object shown = new_node_tree(record);
  show_node(shown, record, {}, {});
  auto first = node_change(record, &shown, shown, "ann");
  ASSERT_TRUE(first) << "the record does not know its labels yet";
  record.labels = *first->labels;
  EXPECT_FALSE(node_change(record, &shown, shown, "ann"));
  json::object changed = shown;
  changed["spec"].as_object()["unschedulable"] = true;
  changed["spec"].as_object()["taints"] = json::parse(
      R"([{"key":"team","value":"x","effect":"NoExecute"},{"key":"node.kubernetes.io/unschedulable","effect":"NoSchedule"}])");
  json::object& capacity = changed["status"].as_object()["capacity"].as_object();
  capacity["example.com/foo"] = "5";
  capacity["hugepages-2Mi"] = "4Mi";
  capacity["nvidia.com/gpu"] = "8";
  const auto change = node_change(record, &shown, changed, "ann");
  ASSERT_TRUE(change);
  EXPECT_EQ(change->drain, true);
  EXPECT_EQ(change->reason, "cordoned by ann");
  EXPECT_EQ(*change->marks, (std::vector<NodeMark>{{"team", "x", NodeMark::Effect::kDrives}}));
  EXPECT_EQ(*change->added_counted, (std::vector<Counted>{{"example.com/foo", 5}, {"hugepages-2Mi", 4}}));
  EXPECT_FALSE(node_change(record, nullptr, changed, "ann")->drain) << "only who changes it cordons";

  // What a health check closed is cordoned, and to uncordon it is to resume it.
  Node ill = record;
  ill.health = {{.check = "gpus", .closes = true}};
  json::object closed = new_node_tree(ill);
  show_node(closed, ill, Instant{}, Duration{});
  EXPECT_TRUE(closed["spec"].as_object()["unschedulable"].as_bool());
  json::object opened = closed;
  opened["spec"].as_object().erase("unschedulable");
  const auto resumed = node_change(ill, &closed, opened, "ann");
  ASSERT_TRUE(resumed);
  EXPECT_EQ(resumed->drain, false);
}

TEST(PodWait, CountsNodesByReason) {
  Tables tables;
  const auto put = [&](Node one) {
    const NodeId id = one.id;
    tables.apply({tables.seq + 1, Ref<Node>(std::make_shared<Node>(std::move(one))), false});
    return id;
  };
  for (std::uint32_t n = 1; n <= 4; ++n) {
    Node one = node("n" + std::to_string(n));
    one.id = NodeId{n};
    one.drain = n == 2;
    if (n == 3)
      one.marks = {{"team", "x", NodeMark::Effect::kKeepsOff}};
    put(std::move(one));
  }
  Job job;
  JobSpec spec;
  GroupSpec group;
  group.launch = Launch::kTasks;
  group.overcommit = group.minds_marks = true;
  group.per_task.shared_milli = 5000;
  spec.groups = std::vector<GroupSpec>{group};
  job.spec = std::make_shared<JobSpec>(spec);
  EXPECT_EQ(waiting_for_nodes(tables, job),
            "0/4 nodes are available: 2 Insufficient cpu, 1 node(s) had untolerated taint {team: x}, 1 node(s) were "
            "unschedulable.");

  Partition main;
  main.meta.name = "main";
  main.is_default = true;
  main.up = false;
  tables.partitions["main"] = std::make_shared<const Partition>(main);
  EXPECT_EQ(waiting_for_nodes(tables, job), "0/4 nodes are available: 4 node(s) were in a partition that is down.");
}

}  // namespace
}  // namespace lockstep::kube
