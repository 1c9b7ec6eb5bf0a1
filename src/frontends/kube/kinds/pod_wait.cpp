#include "frontends/kube/kinds/pod_wait.h"

#include <algorithm>
#include <map>

#include "base/text.h"
#include "frontends/kube/kinds/pod_placement.h"
#include "frontends/kube/kinds/pod_terms.h"
#include "model/job.h"
#include "rules/fit.h"
#include "rules/need.h"
#include "rules/neighbours.h"

namespace lockstep::kube {

namespace {

// What runs, by node, and who is where.
struct Ground {
  std::map<NodeId, NodeLoad> loads;
  Neighbours neighbours;

  explicit Ground(const Tables& tables) {
    for (const auto& [id, job] : tables.jobs) {
      if (!holds_allocation(job->state) || !job->allocation)
        continue;
      for (const Grant& grant : job->allocation->grants) add_grant(loads[grant.node], grant);
      neighbours.put(id, job->spec, job->allocation->grants);
    }
  }
};

const char* words_of(Seating::Objection why) {
  switch (why) {
    case Seating::Objection::kNone: break;
    case Seating::Objection::kNotNear: return "node(s) didn't match pod affinity rules";
    case Seating::Objection::kNotApart: return "node(s) didn't match pod anti-affinity rules";
    case Seating::Objection::kOthersApart: return "node(s) didn't satisfy existing pods anti-affinity rules";
    case Seating::Objection::kUneven: return "node(s) didn't match pod topology spread constraints";
    case Seating::Objection::kNoPlace:
      return "node(s) didn't match pod topology spread constraints (missing required label)";
  }
  return "";
}

bool takes_ports(const GroupSpec& group) {
  return std::ranges::any_of(group.neighbours, [](const NeighbourTerm& term) {
    return !term.jobs.empty() && term.jobs.front().key.starts_with(kPortLabel);
  });
}

// Every resource of which the node has too little left.
void add_lacks(const Node& node, const NodeLoad& load, const GroupSpec& group, std::vector<std::string>& out) {
  const NodeNeed need = need_on_node(node, group, 1, 0);
  if (seats_left(load, group) == 0)
    out.emplace_back("Too many pods");
  if (need.milli() > milli_left(node, load))
    out.emplace_back("Insufficient cpu");
  if (need.memory_mb > memory_left(node, load))
    out.emplace_back("Insufficient memory");
  if (group.tmp_disk_mb > node.tmp_disk_mb)
    out.emplace_back("Insufficient ephemeral-storage");
  for (const Counted& one : need.counted)
    if (count_of(load.counted, one.name) + one.count > count_of(node.counted, one.name))
      out.push_back("Insufficient " + one.name);
  const DeviceSet free = free_devices(node, load);
  const auto whole = choose_devices(node, free, need.devices);
  if (!whole)
    out.emplace_back("Insufficient nvidia.com/gpu");
  else if (!need.parts.empty() && !choose_parts(node, free.minus(*whole), load.parts, need.parts))
    out.push_back("Insufficient nvidia.com/mig-" + need.parts.front().mig);
}

std::vector<std::string> why_not(const Node& node, const NodeLoad& load, const GroupSpec& group,
                                 const Seating& seating) {
  if (node.link != NodeLink::kUp)
    return {"node(s) had untolerated taint {node.kubernetes.io/unreachable: }"};
  if (!node_usable(node))
    return {"node(s) were unschedulable"};
  if (std::string why = node_keeps_off(group, node); !why.empty())
    return {std::move(why)};
  std::vector<std::string> out;
  if (load.sole_occupants > 0)
    out.emplace_back("node(s) were held exclusively");
  else
    add_lacks(node, load, group, out);
  const Seating::Objection objection = seating.objection(node);
  const bool apart = objection == Seating::Objection::kNotApart || objection == Seating::Objection::kOthersApart;
  if (out.empty() && apart && takes_ports(group))
    out.emplace_back("node(s) didn't have free ports for the requested pod ports");
  else if (out.empty() && objection != Seating::Objection::kNone)
    out.emplace_back(words_of(objection));
  if (out.empty())
    out.emplace_back("node(s) were kept for work that goes first");
  return out;
}

// None of the partitions that the job may use starts work now.
bool partitions_are_down(const Tables& tables, const JobSpec& spec) {
  if (spec.partitions.empty()) {
    const Partition* own = tables.default_partition();
    return own && !own->up;
  }
  return std::ranges::none_of(spec.partitions, [&tables](const std::string& name) {
    const Partition* one = tables.partition(name);
    return !one || one->up;
  });
}

}  // namespace

std::string waiting_for_nodes(const Tables& tables, const Job& job) {
  const std::size_t nodes = tables.nodes.size();
  if (tables.jobs.size() > kWaitJobsMost || job.spec->groups.get().empty())
    return format("0/{} nodes are available now.", nodes);
  if (partitions_are_down(tables, *job.spec))
    return unschedulable_words(nodes, std::vector<std::string>(nodes, "node(s) were in a partition that is down"));
  const Ground ground(tables);
  const Seating::NodeOf node_of = [&](NodeId id) { return tables.node(id); };
  const Seating::EachNode each_node = [&](const std::function<void(const Node&)>& see) {
    for (const auto& [id, node] : tables.nodes) see(*node);
  };
  const Seating seating(ground.neighbours, *job.spec, node_of, each_node);
  static const NodeLoad kIdle;
  std::vector<std::string> why;
  for (const auto& [id, node] : tables.nodes) {
    const auto load = ground.loads.find(id);
    for (std::string& one :
         why_not(*node, load == ground.loads.end() ? kIdle : load->second, job.spec->groups.get().front(), seating))
      why.push_back(std::move(one));
  }
  return unschedulable_words(nodes, std::move(why));
}

}  // namespace lockstep::kube
