#include "sched/growth.h"

#include <algorithm>

#include "model/job.h"
#include "rules/fit.h"
#include "rules/growth.h"
#include "rules/preempt.h"
#include "sched/place.h"

namespace lockstep {

namespace {

// The key behind every job's: who grows with it must avoid what any head waits for.
constexpr OrderKey kLast{UINT64_MAX, INT64_MAX, JobId{UINT64_MAX}};

bool may_grow(const Job& job) {
  if (job.state != JobState::kRunning || job.eviction)
    return false;
  for (std::size_t g = 0; g < job.spec->groups.size(); ++g)
    if (const GroupSpec& group = job.spec->groups[g]; is_elastic(group)) {
      const GroupSize size = size_of(job.allocation->grants, g);
      if (size.tasks < group.tasks.max)
        return true;
    }
  return false;
}

struct Site {
  bool own = false;   // the group has some of the node
  bool near = false;  // or of a different node on its switch
  std::uint32_t tasks = 0;
  FreeAmounts free;
  const Node* node = nullptr;
  friend bool operator<(const Site& a, const Site& b) {
    return std::tuple(!a.own, !a.near, a.node->weight, a.free.devices, a.free.milli, a.node->id) <
           std::tuple(!b.own, !b.near, b.node->weight, b.free.devices, b.free.milli, b.node->id);
  }
};

// What a job could take beside what it has, on what is free now.
class More {
 public:
  More(PlannerView& view, const Job& job, const Partition& partition, const Way& way, const Shadows& shadows,
       const Avoid& avoid)
      : view_(view), job_(job), partition_(partition), way_(way), shadows_(shadows), avoid_(avoid) {}

  // So many tasks, or as many as there is room for.
  std::vector<Grant> place(std::uint32_t most) {
    taken_.clear();
    std::vector<Grant> out;
    for (std::uint16_t g = 0; g < job_.spec->groups.size(); ++g)
      if (is_elastic(job_.spec->groups[g]) && !way_.groups[g].where.unknown && way_.groups[g].where.segment == 0)
        most -= place_group(g, most, out);
    return out;
  }

 private:
  NodeLoad& load_of(NodeId id) {
    const auto [it, fresh] = taken_.try_emplace(id);
    if (fresh) {
      const NodeSlot& slot = view_.nodes()[id.value];
      it->second = slot.shaded ? shadows_.seen(id, slot.load, avoid_) : slot.load;
    }
    return it->second;
  }

  using Leaf = std::vector<std::string>;  // Node::domains

  // Where the group is now. What must lie in one domain grows in that one, what may lie on so many switches on those
  // and no more of them.
  std::set<Leaf> leaves_of_group(std::uint16_t g) const {
    std::set<Leaf> out;
    for (const Grant& grant : job_.allocation->grants)
      if (grant.group == g && occupies(grant))
        out.insert(view_.nodes()[grant.node.value].node->domains);
    return out;
  }
  static bool in_domain(const Leaf& leaf, const std::set<Leaf>& leaves, std::size_t level) {
    const Leaf& other = *leaves.begin();
    return level == 0 || (leaf.size() >= level && other.size() >= level &&
                          std::equal(leaf.begin(), leaf.begin() + static_cast<std::ptrdiff_t>(level), other.begin()));
  }

  // What the group has on the node already; false: the job leaves the node.
  bool count_own(std::uint16_t g, Site& site) const {
    const std::vector<Grant>& grants = job_.allocation->grants;
    for (std::size_t i = 0; i < grants.size(); ++i) {
      if (grants[i].node != site.node->id)
        continue;
      if (i < job_.members.size() && job_.members[i] == MemberState::kStopped)
        return false;
      if (grants[i].group == g) {
        site.own = true;
        site.tasks += grants[i].tasks;
      }
    }
    return true;
  }

  // The node as a place for more of the group; nullopt: it is none.
  std::optional<Site> site_on(std::uint16_t g, const ClassNeed& need, NodeId id, const std::set<Leaf>& leaves) const {
    const GroupSpec& group = job_.spec->groups[g];
    const DomainAsk& where = way_.groups[g].where;
    const NodeSlot& slot = view_.nodes()[id.value];
    Site site{.free = slot.free, .node = slot.node.get()};
    if (where.binds()) {
      site.near = leaves.contains(slot.node->domains);
      const bool full = where.switches_max != 0 && leaves.size() >= where.switches_max;
      if (!in_domain(slot.node->domains, leaves, where.level) || (full && !site.near))
        return std::nullopt;
    }
    if (slot.free.memory_mb < need.amounts.memory_mb || !eligible(*slot.node, partition_, group) || !count_own(g, site))
      return std::nullopt;
    if ((site.own && !stacks(group)) || (group.tasks_per_node > 0 && site.tasks >= group.tasks_per_node))
      return std::nullopt;
    return site;
  }

  // Nodes where the group may take more, the best first; of each list of a class at most so many.
  std::vector<Site> sites(std::uint16_t g, std::size_t enough) {
    const std::set<Leaf> leaves = leaves_of_group(g);
    std::vector<Site> out;
    if (leaves.empty())
      return out;
    for (const ClassNeed& need : way_.groups[g].needs) {
      const AlikeNodes& cls = view_.classes()[need.cls];
      for (const NodeIndex* index : {&cls.open, &cls.shaded}) {
        std::size_t found = 0;
        index->each(need.amounts, [&](NodeId id) {
          const auto site = site_on(g, need, id, leaves);
          if (!site)
            return true;
          out.push_back(*site);
          return ++found < enough;
        });
      }
    }
    std::sort(out.begin(), out.end());
    return out;
  }

  // How many nodes more the group may use.
  std::size_t nodes_left(const GroupSpec& group, const GroupSize& size) const {
    std::size_t most = group.nodes.max > 0 ? group.nodes.max : SIZE_MAX;
    if (partition_.nodes_max > 0)
      most = std::min<std::size_t>(most, partition_.nodes_max);
    return most > size.nodes ? most - size.nodes : 0;
  }

  // What fits of the group on the site; nullopt: nothing does. more: the group, for what is asked beside what it has.
  std::optional<Grant> take_from(const Site& site, std::uint16_t g, std::uint32_t room, GroupSpec& more) {
    const GroupSpec& group = job_.spec->groups[g];
    NodeLoad& load = load_of(site.node->id);
    more.tasks.max = room;
    more.tasks_per_node = group.tasks_per_node > 0 ? group.tasks_per_node - site.tasks : 0;
    const std::uint32_t tasks = tasks_that_fit(*site.node, load, more);
    auto grant = tasks > 0 ? choose_grant(*site.node, load, group, g, tasks, 0) : std::nullopt;
    if (grant)
      add_grant(load, *grant);
    return grant;
  }

  // Adds up to `most` tasks of the group to the grants; returns how many. UINT32_MAX as a group's most tasks: one on
  // every node it may use.
  std::uint32_t place_group(std::uint16_t g, std::uint32_t most, std::vector<Grant>& out) {
    const GroupSpec& group = job_.spec->groups[g];
    const bool every_node = group.tasks.max == UINT32_MAX;
    const GroupSize size = size_of(job_.allocation->grants, g);
    GroupSpec more = group;
    std::uint32_t room = std::min(most, group.tasks.max - size.tasks), placed = 0;
    std::size_t nodes = nodes_left(group, size);
    const std::uint32_t switches_max = way_.groups[g].where.switches_max;
    std::set<Leaf> leaves = switches_max != 0 ? leaves_of_group(g) : std::set<Leaf>();
    for (const Site& site : sites(g, every_node ? SIZE_MAX : 4 * std::size_t{room} + 16)) {
      if (room == 0)
        break;
      if (!site.own && nodes == 0)
        continue;
      if (switches_max != 0 && leaves.size() >= switches_max && !leaves.contains(site.node->domains))
        continue;
      auto grant = take_from(site, g, every_node ? 1 : room, more);
      if (!grant)
        continue;
      const std::uint32_t tasks = grant->tasks;
      out.push_back(std::move(*grant));
      if (switches_max != 0)
        leaves.insert(site.node->domains);
      nodes -= !site.own;
      room -= tasks;
      placed += tasks;
    }
    return placed;
  }

  PlannerView& view_;
  const Job& job_;
  const Partition& partition_;
  const Way& way_;
  const Shadows& shadows_;
  const Avoid& avoid_;
  std::map<NodeId, NodeLoad> taken_;
};

// Limits and all that would be passed with this on top.
bool barred(PlannerView& view, const Job& job, const Way& way, const std::vector<Grant>& more) {
  if (!view.admission().bounded())
    return false;
  std::vector<Grant> all = occupying_grants(job.allocation->grants);
  all.insert(all.end(), more.begin(), more.end());
  view.admission().index(&job, nullptr);
  const bool bar = view.bar(*job.spec, way, &all).has_value();
  view.admission().index(nullptr, &job);
  return bar;
}

std::uint32_t tasks_in(const std::vector<Grant>& grants) {
  std::uint32_t tasks = 0;
  for (const Grant& grant : grants) tasks += grant.tasks;
  return tasks;
}

}  // namespace

bool Growing::observe(const Change& change) {
  const auto* ref = std::get_if<Ref<Job>>(&change.record);
  if (!ref)
    return false;
  const Ref<Job>& job = *ref;
  const auto it = running_.find(job->id);
  const Ref<Job> before = it == running_.end() ? nullptr : it->second;
  if (!change.removed && may_grow(*job)) {
    running_[job->id] = job;
    if (before && before->allocation == job->allocation && before->spec == job->spec)
      return false;
    stuck_.erase(job->id);
    proposed_.erase(job->id);
    return true;
  }
  if (before)
    running_.erase(it);
  proposed_.erase(job->id);
  return false;
}

namespace {

bool is_preempted(const PlanChunk& chunk, JobId id) {
  return std::any_of(chunk.preemptions.begin(), chunk.preemptions.end(), [&](const PlannedPreemption& p) {
    return std::find(p.victims.begin(), p.victims.end(), id) != p.victims.end() ||
           std::any_of(p.shrinks.begin(), p.shrinks.end(), [&](const PlannedShrink& s) { return s.job == id; });
  });
}

// What the job can take beside what it has, within its limits.
std::vector<Grant> more_for(PlannerView& view, const Shadows& shadows, const Job& job, Instant now) {
  Shape shape(KeyOfSlot{});
  shape.spec = job.spec;
  std::vector<Way>& ways = view.ways(shape);
  const auto way = std::find_if(ways.begin(), ways.end(), [&](const Way& w) {
    return view.partitions()[w.partition]->up && view.partitions()[w.partition]->meta.name == job.allocation->partition;
  });
  if (way == ways.end())
    return {};
  way->limit = job.limit_end >= kNever ? kForever : job.limit_end - now;
  const std::optional<Way> narrowed = view.open_way(*job.spec, *way, now);
  const Way& open = narrowed ? *narrowed : *way;
  const Partition& plain = *view.partitions()[way->partition];
  const std::optional<Partition> eased = eased_for(view.admission().directory(), plain, job.spec->qos);
  const Avoid avoid = shadows.avoid_for(kLast, job.limit_end, job.limit_end);
  More more(view, job, eased ? *eased : plain, open, shadows, avoid);
  std::vector<Grant> grants = more.place(UINT32_MAX);
  if (grants.empty() || !barred(view, job, open, grants))
    return grants;
  std::uint32_t low = 0, high = tasks_in(grants) - 1;
  while (low < high) {
    const std::uint32_t middle = low + (high - low + 1) / 2;
    if (barred(view, job, open, more.place(middle)))
      high = middle - 1;
    else
      low = middle;
  }
  return low > 0 ? more.place(low) : std::vector<Grant>();
}

}  // namespace

void Growing::grow(PlannerView& view, Shadows& shadows, Instant now, PlanChunk& chunk) {
  if (running_.empty() || view.any_refused())
    return;
  if (view.touch_clock() != stuck_clock_ || view.bounds != stuck_bounds_)
    stuck_.clear();
  std::vector<std::pair<OrderKey, Ref<Job>>> jobs;
  for (const auto& [id, job] : running_)
    if (!stuck_.contains(id) && !proposed_.contains(id) && job->limit_end > now && !is_preempted(chunk, id))
      jobs.emplace_back(view.key_of(*job), job);
  std::sort(jobs.begin(), jobs.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [key, job] : jobs) {
    PlannedGrowth planned{.job = job->id, .read = job->meta.seq, .grants = more_for(view, shadows, *job, now)};
    if (planned.grants.empty())
      continue;
    view.propose(planned);
    shadows.started(view, planned.grants, job->limit_end);
    proposed_.insert(job->id);
    chunk.growths.push_back(std::move(planned));
  }
}

void Growing::settled(PlannerView& view) {
  view.drop_growths();
  if (proposed_.empty())
    return;
  stuck_.insert(proposed_.begin(), proposed_.end());
  proposed_.clear();
  stuck_clock_ = view.touch_clock();
  stuck_bounds_ = view.bounds;
}

std::optional<std::vector<Grant>> place_within_limits(PlannerView& view, const JobSpec& spec, const Way& way,
                                                      const Shadows& shadows, const Avoid& avoid) {
  constexpr std::uint32_t kTasksMost = 1u << 20;
  std::uint32_t least = 0, most = 0;  // tasks beyond the least of any one group
  for (const GroupSpec& group : spec.groups)
    if (group.tasks.min < group.tasks.max && group.tasks.max != UINT32_MAX)
      most = std::max(most, std::min(group.tasks.max - group.tasks.min, kTasksMost));
  if (most == 0)
    return std::nullopt;
  const auto with = [&](std::uint32_t more) -> std::optional<std::vector<Grant>> {
    JobSpec narrow = spec;
    std::vector<GroupSpec> groups(spec.groups.begin(), spec.groups.end());
    for (GroupSpec& group : groups)
      if (group.tasks.max != UINT32_MAX)
        group.tasks.max = std::min<std::uint64_t>(group.tasks.max, std::uint64_t{group.tasks.min} + more);
    narrow.groups = std::move(groups);
    auto grants = place_now(view, narrow, way, shadows, avoid);
    return grants && !view.bar(spec, way, &*grants) ? std::move(grants) : std::nullopt;
  };
  auto found = with(0);
  while (found && least < most) {
    const std::uint32_t middle = least + (most - least + 1) / 2;
    if (auto grants = with(middle)) {
      found = std::move(grants);
      least = middle;
    } else {
      most = middle - 1;
    }
  }
  return found;
}

}  // namespace lockstep
