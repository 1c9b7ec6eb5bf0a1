#include "sim/topology_checker.h"

#include <algorithm>

#include "base/text.h"
#include "model/job.h"
#include "model/node.h"
#include "model/records.h"
#include "model/resources.h"
#include "model/spec.h"

namespace lockstep::sim {

void TopologyChecker::complain(const Job& job, const std::string& words) {
  verdict_.fail(format("job {} ({}) attempt {}: {}", job.id.value, job.spec->name, job.attempt, words));
}

void TopologyChecker::saw(std::span<const Change> changes) {
  bool moved = false;
  for (const Change& change : changes) {
    const auto* job = std::get_if<Ref<Job>>(&change.record);
    if (!job) {
      moved |= std::holds_alternative<Ref<Node>>(change.record);
      if (const auto* topology = std::get_if<Ref<Topology>>(&change.record)) {
        moved = true;
        ++topologies_;
        told_.clear();
        if (!change.removed)
          for (const TopologyLeaf& leaf : (*topology)->leaves)
            for (const std::string& node : leaf.nodes) told_[node] = leaf.path;
      }
      tables_.apply(change);
      continue;
    }
    const auto it = tables_.jobs.find((*job)->id);
    const Ref<Job> before = it == tables_.jobs.end() ? nullptr : it->second;
    tables_.apply(change);
    if (!change.removed)
      job_changed(before.get(), **job);
  }
  if (moved)
    check_nodes();
}

void TopologyChecker::check_nodes() {
  for (const auto& [id, node] : tables_.nodes) {
    const auto told = told_.find(node->meta.name);
    if (node->domains != (told == told_.end() ? Path() : told->second))
      verdict_.fail(format("node {} lies at '{}', the topology says '{}'", node->meta.name, join(node->domains, "/"),
                           told == told_.end() ? "" : join(told->second, "/")));
  }
}

void TopologyChecker::job_changed(const Job* before, const Job& after) {
  if (after.allocation && (!before || !before->allocation || before->allocation->attempt != after.allocation->attempt ||
                           before->allocation->granted != after.allocation->granted)) {
    const Allocation& now = *after.allocation;
    std::size_t held = 0, holds = 0;
    for (const Grant& grant : now.grants) holds += grant.tasks > 0;
    const bool same_attempt = before && before->allocation && before->allocation->attempt == now.attempt;
    if (same_attempt)
      for (const Grant& grant : before->allocation->grants) held += grant.tasks > 0;
    if (!same_attempt || holds > held) {
      Duration wait;
      for (const GroupSpec& group : after.spec->groups)
        if (group.switches_max != 0)
          wait = std::max(wait, group.switches_wait);
      const bool switches = wait >= kForever || now.granted < after.eligible + wait;
      bound_starts_ += check_place(after, now.partition, now.grants, switches, same_attempt ? "grows" : "starts");
    }
  }
  if (after.promise && after.promise->held &&
      (!before || !before->promise || !before->promise->held || before->promise->grants != after.promise->grants))
    check_place(after, after.promise->partition, after.promise->grants, false, "is to start");
}

std::size_t TopologyChecker::depth_of(const std::string& level) const {
  if (!tables_.topology)
    return 0;
  const auto& levels = tables_.topology->levels;
  const auto at = std::find(levels.begin(), levels.end(), level);
  return at == levels.end() ? 0 : static_cast<std::size_t>(at - levels.begin()) + 1;
}

std::size_t TopologyChecker::check_place(const Job& job, const std::string& partition, const std::vector<Grant>& grants,
                                         bool switches, const char* what) {
  std::size_t bound = 0;
  for (std::size_t g = 0; g < job.spec->groups.size(); ++g) {
    const GroupSpec& group = job.spec->groups[g];
    Place place;
    for (const Grant& grant : grants)
      if (const Node* node = tables_.node(grant.node); node && grant.group == g && grant.tasks > 0)
        if (place.nodes.insert(grant.node).second)
          ++place.leaves[node->domains];
    const std::string words =
        format("group {} {} on {} nodes of {} leaves", g, what, place.nodes.size(), place.leaves.size());
    std::uint32_t segment = group.segment;
    if (const Partition* where = tables_.partition(partition);
        where && segment == 0 && where->segment > 1 && group.nodes.min > 0 && group.nodes.min == group.nodes.max &&
        group.nodes.min % where->segment == 0)
      segment = where->segment;
    bound += segment > 1 || group.topology_level.starts_with('!') || (switches && group.switches_max != 0);
    if (segment > 1)
      for (const auto& [leaf, nodes] : place.leaves)
        if (nodes % segment != 0)
          complain(job,
                   format("{}, {} of them on {}: segments of {} are broken", words, nodes, join(leaf, "/"), segment));
    if (switches && group.switches_max != 0 && place.leaves.size() > group.switches_max)
      complain(job, format("{}, at most {} were asked for", words, group.switches_max));
    if (!group.topology_level.starts_with('!') || group.topology_level == "!cluster")
      continue;
    const std::string level = group.topology_level.substr(1);
    const std::size_t depth = depth_of(level);
    if (depth == 0)
      complain(job, format("{}, and must be under one {}, which does not exist", words, level));
    if (depth == 0 || place.nodes.size() < 2)
      continue;
    std::set<Path> domains;
    for (const auto& [leaf, nodes] : place.leaves)
      domains.insert(leaf.size() < depth ? Path()
                                         : Path(leaf.begin(), leaf.begin() + static_cast<std::ptrdiff_t>(depth)));
    if (domains.size() != 1 || domains.begin()->empty())
      complain(job, format("{}, not under one {}", words, level));
  }
  return bound;
}

}  // namespace lockstep::sim
