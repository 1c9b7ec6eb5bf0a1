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

namespace {

std::size_t grants_with_tasks(const Allocation& allocation) {
  return static_cast<std::size_t>(std::count_if(allocation.grants.begin(), allocation.grants.end(),
                                                [](const Grant& grant) { return grant.tasks > 0; }));
}

// Whether its bound on switches still counts.
bool switches_bind(const Job& job) {
  Duration wait;
  for (const GroupSpec& group : job.spec->groups)
    if (group.switches_max != 0)
      wait = std::max(wait, group.switches_wait);
  return wait >= kForever || job.allocation->granted < job.eligible + wait;
}

const Promise* kept_place(const Job* job) {
  return job && job->promise && job->promise->held ? job->promise.get() : nullptr;
}

}  // namespace

void TopologyChecker::job_changed(const Job* before, const Job& after) {
  if (after.allocation)
    allocation_changed(before ? before->allocation.get() : nullptr, after);
  const Promise *was = kept_place(before), *is = kept_place(&after);
  if (is && (!was || was->grants != is->grants))
    check_place(after, is->partition, is->grants, false, "is to start");
}

void TopologyChecker::allocation_changed(const Allocation* before, const Job& job) {
  const Allocation& now = *job.allocation;
  const bool same_attempt = before && before->attempt == now.attempt;
  if (same_attempt && before->granted == now.granted)
    return;
  if (!same_attempt || grants_with_tasks(now) > grants_with_tasks(*before))
    bound_starts_ += check_place(job, now.partition, now.grants, switches_bind(job), same_attempt ? "grows" : "starts");
}

std::size_t TopologyChecker::depth_of(const std::string& level) const {
  if (!tables_.topology)
    return 0;
  const auto& levels = tables_.topology->levels;
  const auto at = std::find(levels.begin(), levels.end(), level);
  return at == levels.end() ? 0 : static_cast<std::size_t>(at - levels.begin()) + 1;
}

TopologyChecker::Place TopologyChecker::place_of(const std::vector<Grant>& grants, std::size_t group) const {
  Place place;
  for (const Grant& grant : grants)
    if (const Node* node = tables_.node(grant.node); node && grant.group == group && grant.tasks > 0)
      if (place.nodes.insert(grant.node).second)
        ++place.leaves[node->domains];
  return place;
}

// As asked for, else as the partition has it where the number of nodes goes with it.
std::uint32_t TopologyChecker::segment_of(const GroupSpec& group, const std::string& partition) const {
  const Partition* where = tables_.partition(partition);
  if (group.segment != 0 || !where || where->segment <= 1)
    return group.segment;
  const bool fits = group.nodes.min > 0 && group.nodes.min == group.nodes.max && group.nodes.min % where->segment == 0;
  return fits ? where->segment : 0;
}

// All its nodes lie in one domain of the level that it must keep to.
void TopologyChecker::check_level(const Job& job, const std::string& level, const Place& place,
                                  const std::string& words) {
  const std::size_t depth = depth_of(level);
  if (depth == 0)
    complain(job, format("{}, and must be under one {}, which does not exist", words, level));
  if (depth == 0 || place.nodes.size() < 2)
    return;
  std::set<Path> domains;
  for (const auto& [leaf, nodes] : place.leaves)
    domains.insert(leaf.size() < depth ? Path()
                                       : Path(leaf.begin(), leaf.begin() + static_cast<std::ptrdiff_t>(depth)));
  if (domains.size() != 1 || domains.begin()->empty())
    complain(job, format("{}, not under one {}", words, level));
}

std::size_t TopologyChecker::check_place(const Job& job, const std::string& partition, const std::vector<Grant>& grants,
                                         bool switches, const char* what) {
  std::size_t bound = 0;
  for (std::size_t g = 0; g < job.spec->groups.size(); ++g) {
    const GroupSpec& group = job.spec->groups[g];
    const Place place = place_of(grants, g);
    const std::string words =
        format("group {} {} on {} nodes of {} leaves", g, what, place.nodes.size(), place.leaves.size());
    const std::uint32_t segment = segment_of(group, partition);
    const std::uint32_t leaves_max = switches ? group.switches_max : 0;
    const bool must = group.topology_level.starts_with('!');
    bound += segment > 1 || must || leaves_max != 0;
    for (const auto& [leaf, nodes] : place.leaves)
      if (segment > 1 && nodes % segment != 0)
        complain(job,
                 format("{}, {} of them on {}: segments of {} are broken", words, nodes, join(leaf, "/"), segment));
    if (leaves_max != 0 && place.leaves.size() > leaves_max)
      complain(job, format("{}, at most {} were asked for", words, leaves_max));
    if (must && group.topology_level != "!cluster")
      check_level(job, group.topology_level.substr(1), place, words);
  }
  return bound;
}

}  // namespace lockstep::sim
