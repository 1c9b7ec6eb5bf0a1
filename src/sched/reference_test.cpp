// The planner against a slow, obvious one that shares no search with it: every job in order, tried on every node; a
// head's time found by trying every moment at which something ends. Both must agree on what starts now and where, on
// who is the head of a partition, and on its time. What the two share is the arithmetic of `rules` and the order of
// preference among nodes, which is written down here a second time.
#include <cstdlib>
#include <set>

#include "model/job.h"
#include "rules/job_size.h"
#include "rules/order.h"
#include "rules/priorities.h"
#include "sched/packing.h"
#include "sched/testing.h"

namespace lockstep {
namespace {

struct Held {
  Grant grant;
  Instant end;
  Instant since;
  Duration predicted;
};

struct SlowHead {
  JobId job;
  std::string partition;
  Instant at;
  bool binds = true;                // limits decide who may go ahead of it; else predictions do
  std::map<NodeId, NodeLoad> then;  // on its nodes, with what it takes
};

struct SlowPlan {
  std::vector<std::string> starts;
  std::map<std::string, SlowHead> heads;  // by partition
};

// --- domains, the obvious way ---

using Path = std::vector<std::string>;

// Members by the leaf they hang on, each list in order of preference.
using ByLeaf = std::map<Path, std::vector<Candidate>>;

bool is_below(const Path& leaf, const Path& domain) {
  return leaf.size() >= domain.size() && std::equal(domain.begin(), domain.end(), leaf.begin());
}

std::size_t whole_segments(std::size_t nodes, std::size_t segment) {
  return segment == 0 ? nodes : nodes / segment * segment;
}

// Takes from the parts of the domain as long as something is lacking; `flat`: its leaves at once.
void take_from(const ByLeaf& leaves, const Path& domain, std::size_t segment, bool flat, std::size_t lacking,
               std::vector<Candidate>& out) {
  struct Part {
    Path path;
    std::size_t nodes = 0, leaves = 0;
    bool leaf = false;
  };
  std::vector<Part> parts;
  for (const auto& [leaf, members] : leaves) {
    const std::size_t here = whole_segments(members.size(), segment);
    if (!is_below(leaf, domain) || here == 0)
      continue;
    const bool whole = flat || leaf.size() == domain.size();
    const Path path = whole ? leaf : Path(leaf.begin(), leaf.begin() + static_cast<std::ptrdiff_t>(domain.size()) + 1);
    const auto known =
        std::find_if(parts.begin(), parts.end(), [&](const Part& p) { return p.path == path && p.leaf == whole; });
    Part& part = known != parts.end() ? *known : parts.emplace_back(Part{path, 0, 0, whole});
    part.nodes += here;
    ++part.leaves;
  }
  while (lacking > 0) {
    std::sort(parts.begin(), parts.end(), [&](const Part& a, const Part& b) {
      const bool a_enough = a.nodes >= lacking, b_enough = b.nodes >= lacking;
      if (a_enough != b_enough)
        return a_enough;
      if (a.nodes != b.nodes)
        return a_enough ? a.nodes < b.nodes : a.nodes > b.nodes;
      return std::tie(a.leaves, a.path) < std::tie(b.leaves, b.path);
    });
    const Part part = parts.front();
    parts.erase(parts.begin());
    const std::size_t here = std::min(lacking, part.nodes);
    if (part.leaf)
      out.insert(out.end(), leaves.at(part.path).begin(),
                 leaves.at(part.path).begin() + static_cast<std::ptrdiff_t>(here));
    else
      take_from(leaves, part.path, segment, false, here, out);
    lacking -= here;
  }
}

// So many nodes out of the members: in the lowest domain that has them; of those the one for which `counted` has the
// fewest nodes, then the first by path.
std::optional<std::vector<Candidate>> gang_of(const ByLeaf& members, const std::map<Path, std::size_t>& counted,
                                              std::size_t nodes, const DomainAsk& ask) {
  if (ask.unknown || (ask.segment != 0 && nodes % ask.segment != 0))
    return std::nullopt;
  std::set<Path> domains{{}};
  std::size_t deepest = 0;
  for (const auto& [leaf, count] : counted)
    for (std::size_t depth = 0; depth <= leaf.size(); ++depth) {
      domains.insert(Path(leaf.begin(), leaf.begin() + static_cast<std::ptrdiff_t>(depth)));
      deepest = std::max(deepest, depth);
    }
  const std::size_t lowest = ask.wish != 0 ? std::min(ask.wish, deepest) : deepest;
  for (std::size_t depth = lowest + 1; depth-- > ask.level;) {
    std::vector<std::pair<std::size_t, Path>> order;
    for (const Path& domain : domains) {
      std::size_t sum = 0;
      for (const auto& [leaf, count] : counted) sum += is_below(leaf, domain) ? whole_segments(count, ask.segment) : 0;
      if (domain.size() == depth && sum >= nodes)
        order.emplace_back(sum, domain);
    }
    std::sort(order.begin(), order.end());
    for (const auto& [sum, domain] : order) {
      std::vector<std::size_t> sizes;
      for (const auto& [leaf, list] : members)
        if (is_below(leaf, domain))
          sizes.push_back(whole_segments(list.size(), ask.segment));
      std::sort(sizes.rbegin(), sizes.rend());
      if (ask.switches_max != 0 && sizes.size() > ask.switches_max)
        sizes.resize(ask.switches_max);
      std::size_t have = 0;
      for (const std::size_t size : sizes) have += size;
      if (have < nodes)
        continue;
      std::vector<Candidate> out;
      take_from(members, domain, ask.segment, ask.switches_max != 0, nodes, out);
      return out;
    }
  }
  return std::nullopt;
}

class SlowPlanner {
 public:
  SlowPlanner(const Tables& tables, Instant now) : tables_(tables), now_(now) {
    for (const auto& [id, job] : tables.jobs)
      if (holds_allocation(job->state))
        for (const Grant& grant : job->allocation->grants)
          held_[grant.node].push_back(
              {grant, job->limit_end ? job->limit_end : kNever, job->allocation->granted, job->predicted});
    if (!tables.packing || tables.packing->classes.size() < 2)
      return;
    PackGround ground{{"h100"}, 0, 0};
    for (const auto& [id, node] : tables.nodes)
      if (!node->devices.empty()) {
        ground.gpu_milli += std::int64_t{1000} * static_cast<std::int64_t>(node->devices.size());
        ground.cpu_milli += std::int64_t{1000} * node->cores;
      }
    if (ground.gpu_milli > 0)
      prices_.emplace(make_prices({}, *tables.packing, ground));
  }

  SlowPlan plan() {
    for (const Job* job : in_order()) {
      bool started = false;
      for (const Partition* partition : partitions_of(*job))
        if (!started)
          started = start(*job, *partition);
      for (const Partition* partition : partitions_of(*job))
        if (!started && could_ever(*job, *partition)) {
          if (!plan_.heads.contains(partition->meta.name))
            reserve(*job, *partition);
          break;
        }
    }
    std::sort(plan_.starts.begin(), plan_.starts.end());
    return plan_;
  }

 private:
  std::vector<const Partition*> partitions_of(const Job& job) const {
    std::vector<const Partition*> out;
    std::vector<std::string> names = job.spec->partitions;
    if (names.empty())
      names = {"main"};
    for (const std::string& name : names) {
      const Partition* partition = tables_.partition(name);
      if (partition->up && limit(job, *partition) <= partition->time_max)
        out.push_back(partition);
    }
    return out;
  }
  static Duration limit(const Job& job, const Partition& partition) {
    return job.spec->time_limit.us != 0 ? job.spec->time_limit : partition.time_max;
  }
  std::uint32_t tier(const Job& job) const {
    std::uint32_t most = 0;
    for (const std::string& name : job.spec->partitions) most = std::max(most, tables_.partition(name)->tier);
    return job.spec->partitions.empty() ? tables_.partition("main")->tier : most;
  }

  std::vector<const Job*> in_order() const {
    std::vector<const Job*> jobs;
    for (const auto& [id, job] : tables_.jobs)
      if (job->state == JobState::kPending && job->hold == Hold::kNone && job->begin_after <= now_)
        jobs.push_back(job.get());
    std::sort(jobs.begin(), jobs.end(), [&](const Job* a, const Job* b) {
      const auto turn = [](const Job& job) { return job.turn ? job.turn : job.submitted; };
      return std::tuple(tier(*b), b->priority, turn(*a), a->id) < std::tuple(tier(*a), a->priority, turn(*b), b->id);
    });
    return jobs;
  }

  static NodeLoad sum(const std::vector<Held>& held, Instant after) {
    NodeLoad load;
    for (const Held& h : held)
      if (h.end > after) {
        load.cores = load.cores | h.grant.cores;
        load.devices = load.devices | h.grant.devices;
        load.memory_mb += h.grant.memory_mb;
        ++load.occupants;
        load.sole_occupants += h.grant.whole_node;
      }
    return load;
  }
  static NodeLoad together(NodeLoad a, const NodeLoad& b) {
    a.cores = a.cores | b.cores;
    a.devices = a.devices | b.devices;
    a.memory_mb += b.memory_mb;
    a.occupants += b.occupants;
    a.sole_occupants += b.sole_occupants;
    return a;
  }

  NodeLoad load_at(NodeId id, Instant after) const {
    const auto it = held_.find(id);
    return it == held_.end() ? NodeLoad{} : sum(it->second, after);
  }

  // Where a group of equal members goes in the tree; now: what nodes hold without regard to heads, null when it is not
  // about now.
  std::optional<std::vector<Candidate>> in_tree(const Job& job, const Partition& partition, std::uint16_t g,
                                                const std::vector<Candidate>& candidates,
                                                const std::map<NodeId, NodeLoad>* now) const {
    const GroupSpec& group = job.spec->groups[g];
    const DomainAsk ask = asked(job, partition, g);
    const bool tree = std::any_of(tables_.nodes.begin(), tables_.nodes.end(),
                                  [](const auto& entry) { return !entry.second->domains.empty(); });
    const std::size_t count = group.nodes.min;
    const bool bound = ask.unknown || (count > 1 && (ask.level != 0 || (tree && ask.binds())));
    if (!bound && (!tree || !now))
      return candidates;
    std::vector<Candidate> members;
    for (const Candidate& candidate : candidates)
      if (tasks_that_fit(*candidate.node, *candidate.load, group) >= 1)
        members.push_back(candidate);
    DomainAsk single;
    if (count == 1 && !ask.unknown) {
      const bool exact = one_fixed_group(*job.spec);
      if (members.empty() || !exact || now->at(members[0].node->id).occupants > 0)
        return members;
    }
    ByLeaf by_leaf;
    for (const Candidate& member : members) by_leaf[member.node->domains].push_back(member);
    std::map<Path, std::size_t> counted;
    if (now) {
      GroupSpec anybody = group;
      anybody.exclude_nodes.clear();
      for (const auto& [id, load] : *now)
        if (const Node& node = *tables_.node(id);
            eligible(node, partition, anybody) && tasks_that_fit(node, load, anybody) >= 1)
          ++counted[node.domains];
    } else {
      for (const auto& [leaf, list] : by_leaf) counted[leaf] = list.size();
    }
    return gang_of(by_leaf, counted, count, count == 1 && !ask.unknown ? single : ask);
  }
  DomainAsk asked(const Job& job, const Partition& partition, std::uint16_t g) const {
    GroupSpec group = job.spec->groups[g];
    if (now_ >= switches_end(*job.spec, job.eligible))
      group.switches_max = 0;
    return domain_ask(group, partition, tables_.topology ? tables_.topology->levels : Path());
  }

  // Groups one after the other, in every order; `loads` holds what each usable node has taken, `nodes` their
  // preference; `now` as above.
  std::optional<std::vector<Grant>> try_all(const Job& job, const Partition& partition,
                                            const std::vector<const Node*>& nodes,
                                            const std::map<NodeId, NodeLoad>& loads,
                                            const std::map<NodeId, NodeLoad>* now = nullptr) const {
    const JobSpec& spec = *job.spec;
    std::vector<std::uint16_t> order;
    for (std::uint16_t g = 0; g < spec.groups.size(); ++g) order.push_back(g);
    do {
      std::map<NodeId, NodeLoad> left = loads;
      std::vector<Grant> all;
      bool whole = true;
      for (const std::uint16_t g : order) {
        std::vector<Candidate> candidates;
        for (const Node* node : nodes)
          if (eligible(*node, partition, spec.groups[g]))
            candidates.push_back({node, &left.at(node->id)});
        const auto members = in_tree(job, partition, g, candidates, now);
        const auto grants = members ? place_group(*members, spec.groups[g], g) : std::nullopt;
        whole = grants.has_value();
        if (!whole)
          break;
        for (const Grant& grant : *grants) {
          EXPECT_TRUE(take(left.at(grant.node), *tables_node(nodes, grant.node), grant).ok());
          all.push_back(grant);
        }
      }
      if (whole && (partition.nodes_max == 0 || all.size() <= partition.nodes_max))
        return all;
    } while (std::next_permutation(order.begin(), order.end()));
    return std::nullopt;
  }
  static const Node* tables_node(const std::vector<const Node*>& nodes, NodeId id) {
    return *std::find_if(nodes.begin(), nodes.end(), [&](const Node* n) { return n->id == id; });
  }

  bool could_ever(const Job& job, const Partition& partition) const {
    std::vector<const Node*> nodes;
    std::map<NodeId, NodeLoad> empty;
    for (const auto& [id, node] : tables_.nodes)
      if (node_usable(*node)) {
        nodes.push_back(node.get());
        empty[id];
      }
    return try_all(job, partition, nodes, empty).has_value();
  }

  // Five hours for every device left over, and the time by which the node would be busy longer; an idle node last. Only
  // for a part of one node.
  std::int64_t cost_of_part(const JobSpec& spec, const Node& node, std::uint32_t free, Duration needed) const {
    const GroupSpec& group = spec.groups[0];
    const std::uint32_t devices = group.per_node.devices.empty() ? 0 : group.per_node.devices[0].count;
    if (!one_fixed_group(spec) || group.nodes.min != 1 || devices == 0 || needed.us <= 0)
      return 0;
    const auto held = held_.find(node.id);
    if (held == held_.end() || held->second.empty() || group.sharing == Sharing::kExclusive ||
        devices >= node.devices.size())
      return INT64_MAX;
    Instant idle = now_;
    for (const Held& h : held->second) {
      Instant likely = h.end;
      if (h.predicted.us > 0) {
        likely = h.since + h.predicted;
        if (likely <= now_)
          likely = now_ + (now_ - h.since) / 2;
      }
      idle = std::max(idle, std::min(likely, h.end));
    }
    const std::int64_t busy = std::min((idle - now_).us, kForever.us);
    return std::max<std::int64_t>(0, needed.us - busy) + hours(5).us * (std::int64_t{free} - devices);
  }

  // Whether it goes where it costs the others least: nobody knows when it ends.
  bool by_price(const JobSpec& spec, Duration span) const {
    const GroupSpec& group = spec.groups[0];
    return prices_ && span >= kForever && spec.groups.size() == 1 && group.sharing != Sharing::kExclusive &&
           group.only_nodes.empty();
  }
  std::int64_t price_on(const JobSpec& spec, const Node& node, const NodeLoad& load) const {
    const GroupSpec& group = spec.groups[0];
    PackShape shape{.cpu_milli = std::int64_t{1000} * group.per_task.cores};
    if (!group.per_node.devices.empty()) {
      shape.devices = static_cast<std::uint8_t>(group.per_node.devices[0].count);
      shape.milli = 1000;
    }
    PackRoom room{.cpu_milli = std::int64_t{1000} * (node.cores - load.cores.count())};
    for (std::uint32_t d = 0; d < node.devices.size(); ++d)
      if (!load.devices.test(d))
        room.free_milli[room.devices++] = 1000;
    if (shape.devices > room.devices || shape.cpu_milli > room.cpu_milli)
      return 0;  // no room anyway
    return prices_->cost(prices_->sum_of(room), prices_->value(room), room, shape).milli;
  }

  bool start(const Job& job, const Partition& partition) {
    const Duration span = limit(job, partition);
    const Instant end = span >= kForever ? kNever : now_ + span;
    // 85 % of what is predicted counts before a promise binds.
    const Instant probably =
        end == kNever || job.predicted.us == 0 ? end : std::min(end, now_ + Duration{job.predicted.us / 1000 * 850});
    std::vector<std::tuple<std::uint32_t, std::int64_t, std::uint32_t, std::uint32_t, NodeId>> order;
    std::map<NodeId, NodeLoad> loads, plain;
    const Duration needed = std::min(job.predicted, span);
    for (const auto& [id, node] : tables_.nodes) {
      if (!node_usable(*node))
        continue;
      NodeLoad load = load_at(id, {});
      plain[id] = load;
      const std::uint32_t free_devices = static_cast<std::uint32_t>(node->devices.size()) - load.devices.count();
      const std::int64_t cost = by_price(*job.spec, span) ? price_on(*job.spec, *node, load)
                                                          : cost_of_part(*job.spec, *node, free_devices, needed);
      if (by_price(*job.spec, span))
        order.emplace_back(node->weight, cost, 0, 0, id);
      else
        order.emplace_back(node->weight, cost, free_devices, node->cores - load.cores.count(), id);
      for (const auto& [name, head] : plan_.heads)
        if (const auto then = head.then.find(id);
            then != head.then.end() && ((head.binds ? end : probably) > head.at || end == kNever)) {
          load.cores = load.cores | then->second.cores;
          load.devices = load.devices | then->second.devices;
          load.memory_mb = std::max(load.memory_mb, then->second.memory_mb);
          load.occupants = std::max(load.occupants, then->second.occupants);
          load.sole_occupants = std::max(load.sole_occupants, then->second.sole_occupants);
        }
      loads[id] = load;
    }
    std::sort(order.begin(), order.end());
    std::vector<const Node*> nodes;
    for (const auto& entry : order) nodes.push_back(tables_.node(std::get<4>(entry)));
    const auto grants = try_all(job, partition, nodes, loads, &plain);
    if (!grants)
      return false;
    std::string text = format("job {} in {}:", job.id.value, partition.meta.name);
    std::set<NodeId> used;
    for (const Grant& grant : *grants) {
      held_[grant.node].push_back({grant, end, now_, job.predicted});
      used.insert(grant.node);
      for (auto& [name, head] : plan_.heads)
        if (const auto then = head.then.find(grant.node); then != head.then.end() && (end > head.at || end == kNever))
          then->second = together(then->second, sum({{grant, kNever}}, {}));
    }
    for (const NodeId id : used) text += format(" n{}", id.value);
    plan_.starts.push_back(text);
    return true;
  }

  // The first moment at which it fits if nothing else starts.
  void reserve(const Job& job, const Partition& partition) {
    std::set<Instant> moments{{}};
    for (const auto& [id, held] : held_)
      for (const Held& h : held) moments.insert(h.end);
    for (const Instant at : moments) {
      std::vector<const Node*> nodes;
      std::map<NodeId, NodeLoad> loads;
      for (const auto& [id, node] : tables_.nodes)
        if (node_usable(*node)) {
          nodes.push_back(node.get());
          loads[id] = load_at(id, at);
        }
      auto grants = try_all(job, partition, nodes, loads);
      if (!grants)
        continue;
      if (one_fixed_group(*job.spec)) {
        // Of the nodes it could have then, those that are busy the longest.
        const GroupSpec& group = job.spec->groups[0];
        std::vector<std::tuple<std::int64_t, std::uint32_t, NodeId>> ready;
        for (const Node* node : nodes) {
          if (!eligible(*node, partition, group))
            continue;
          for (const Instant since : moments)
            if (since <= at && tasks_that_fit(*node, load_at(node->id, since), group) >= 1) {
              ready.emplace_back(-since.us, node->weight, node->id);
              break;
            }
        }
        std::sort(ready.begin(), ready.end());
        std::vector<Candidate> candidates;
        for (const auto& [since, weight, id] : ready) candidates.push_back({tables_.node(id), &loads.at(id)});
        candidates = *in_tree(job, partition, 0, candidates, nullptr);
        candidates.resize(group.nodes.min);
        grants = place_group(candidates, group, 0);
        for (Grant& grant : *grants)
          if (auto kept =
                  of_the_latest(*tables_.node(grant.node), loads.at(grant.node), group, grant.tasks, at, moments))
            grant = *kept;
      }
      const bool binds = !job.turn || job.turn + overdue_after({}, size_of(*job.spec).count, whole(job)) <= now_;
      SlowHead head{job.id, partition.meta.name, std::max(at, now_), binds, {}};
      for (const Grant& grant : *grants) {
        head.then.try_emplace(grant.node, loads.at(grant.node));
        head.then[grant.node] = together(head.then[grant.node], sum({{grant, kNever}}, {}));
      }
      plan_.heads.emplace(partition.meta.name, std::move(head));
      return;
    }
  }
  std::int64_t whole(const Job& job) const {
    Tres all;
    for (const auto& [id, node] : tables_.nodes) add(all, tres_of_node(*node));
    return capacity_for(size_of(*job.spec), all);
  }
  // On cores and devices that were busy until as late as possible.
  std::optional<Grant> of_the_latest(const Node& node, NodeLoad then, const GroupSpec& group, std::uint32_t tasks,
                                     Instant at, const std::set<Instant>& moments) const {
    for (auto since = moments.rbegin(); since != moments.rend(); ++since) {
      if (*since > at || *since == Instant{})
        continue;
      NodeLoad closed = then;  // what was free before that moment counts as taken
      NodeLoad before;
      if (const auto held = held_.find(node.id); held != held_.end())
        for (const Held& h : held->second)
          if (h.end >= *since)
            add_grant(before, h.grant);
      for (std::uint32_t c = 0; c < node.cores; ++c)
        if (!before.cores.test(c))
          closed.cores.set(c);
      for (std::uint32_t d = 0; d < node.devices.size(); ++d)
        if (!before.devices.test(d))
          closed.devices.set(d);
      if (auto grant = choose_grant(node, closed, group, 0, tasks, 0))
        return grant;
    }
    return choose_grant(node, then, group, 0, tasks, 0);
  }
  static bool one_fixed_group(const JobSpec& spec) {
    return spec.groups.size() == 1 && spec.groups[0].exclude_nodes.empty() && spec.groups[0].only_nodes.empty();
  }

  const Tables& tables_;
  Instant now_;
  std::map<NodeId, std::vector<Held>> held_;
  SlowPlan plan_;
  std::optional<PackPrices> prices_;
};

std::vector<std::string> jobs_and_nodes(const std::vector<PlannedStart>& starts) {
  std::vector<std::string> out;
  for (const PlannedStart& start : starts) {
    std::string text = format("job {} in {}:", start.job.value, start.partition);
    std::set<NodeId> used;
    for (const Grant& grant : start.grants) used.insert(grant.node);
    for (const NodeId id : used) text += format(" n{}", id.value);
    out.push_back(std::move(text));
  }
  std::sort(out.begin(), out.end());
  return out;
}

// A tree of up to three levels, some nodes on none of them.
Path random_path(Rng& rng, std::int64_t depth) {
  Path path;
  if (depth > 0 && !rng.chance(0.1)) {
    const auto spine = rng.between(1, 2), block = rng.between(1, 2), leaf = rng.between(1, 2);
    path = {format("a{}", spine), format("b{}{}", spine, block), format("c{}{}{}", spine, block, leaf)};
    path.erase(path.begin(), path.end() - depth);
  }
  return path;
}

void ask_of_tree(Rng& rng, GroupSpec& group) {
  constexpr const char* kLevels[] = {"!l1", "!l2", "!l3", "l1", "l2"};
  group.nodes.min = group.nodes.max = group.tasks.min = group.tasks.max = static_cast<std::uint32_t>(rng.between(1, 4));
  if (rng.chance(0.3))
    group.topology_level = kLevels[rng.below(std::size(kLevels))];
  if (rng.chance(0.3)) {
    group.switches_max = static_cast<std::uint32_t>(rng.between(1, 2));
    group.switches_wait = rng.chance(0.4) ? kForever : Duration{kNow.us} + seconds(rng.between(0, 1500));
  }
  if (group.nodes.min % 2 == 0 && rng.chance(0.2))
    group.segment = 2;
}

// LOCKSTEP_CLUSTERS=10000 for the long run.
std::uint64_t clusters() {
  const char* asked = std::getenv("LOCKSTEP_CLUSTERS");
  return asked ? std::strtoull(asked, nullptr, 10) : 1500;
}

TEST(Reference, agrees_on_starts_heads_and_their_times) {
  std::uint64_t compared = 0, with_head = 0, priced = 0;
  for (std::uint64_t seed = 1; seed <= clusters() && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(format("seed {}", seed));
    Rng rng(seed * 7919);
    MiniCore core;
    core.add_partition("main", {"ALL"});
    core.add_partition("side", {"n1", "n2"}, static_cast<std::uint32_t>(rng.between(1, 2)));
    const auto nodes = static_cast<std::uint32_t>(rng.between(1, 8));
    const bool alike = rng.chance(0.5);
    const std::int64_t depth = seed % 2 == 0 ? rng.between(1, 3) : 0;
    if (depth > 0) {
      Topology topology;
      for (std::int64_t level = 1; level <= depth; ++level) topology.levels.push_back(format("l{}", level));
      core.put(topology);
    }
    for (std::uint32_t n = 1; n <= nodes; ++n) {
      const auto cores = alike ? 6 : static_cast<std::uint32_t>(rng.between(2, 6));
      core.add_node(n, cores, alike ? 4 : static_cast<std::uint32_t>(rng.between(0, 4)), random_path(rng, depth));
    }
    Driver driver;
    driver.packs = depth == 0;  // with prices in half of them
    Instant now = kNow;
    for (int round = 0; round < 8 && !testing::Test::HasFailure(); ++round) {
      now = now + millis(rng.between(0, 400'000));
      for (std::int64_t i = rng.between(0, 5); i > 0; --i) {
        JobSpec spec = random_ask(rng);
        if (spec.time_limit.us != 0 && spec.time_limit < kForever)
          spec.time_limit = spec.time_limit * rng.between(1, 60);
        if (depth > 0 && rng.chance(0.7))
          ask_of_tree(rng, spec.groups[0]);
        core.add_job(spec, rng.below(4), random_turn(rng), spec.time_limit * rng.between(1, 20) / 20);
      }
      std::vector<JobId> running;
      for (const auto& [id, job] : core.tables.jobs)
        if (holds_allocation(job->state))
          running.push_back(id);
      for (const JobId id : running)
        if (rng.chance(0.3))
          core.end(id);
      if (rng.chance(0.15)) {
        Node node = *core.tables.node(NodeId{static_cast<std::uint32_t>(rng.between(1, nodes))});
        node.drain = !node.drain;
        core.put(node);
      }
      SlowPlan slow = SlowPlanner(core.tables, now).plan();
      driver.planner.observe(core.drain());
      driver.notes.clear();
      for (bool first = true; first || !slow.starts.empty(); first = false) {
        const auto starts = driver.pass(now);
        ASSERT_EQ(jobs_and_nodes(starts), slow.starts) << "round " << round;
        for (const PlannedStart& start : starts) core.start(start, now);
        if (driver.packs)
          for (const PlannedPacking& packing : driver.packings) core.pack(packing);
        priced += core.tables.packing && core.tables.packing->classes.size() > 1;
        driver.planner.observe(core.drain());
        driver.planner.settled();
        slow = SlowPlanner(core.tables, now).plan();
      }
      driver.run(core, now);
      for (const auto& [name, head] : slow.heads) {
        ++with_head;
        // What is overdue is expected at any moment, ever since it was noticed.
        const Instant at = driver.planner.expected_start(head.job);
        EXPECT_EQ(at ? std::max(at, now) : at, head.at == kNever ? Instant{} : head.at)
            << "head of " << name << ", job " << head.job.value << ", round " << round;
      }
      ++compared;
    }
  }
  EXPECT_GT(compared, clusters());
  EXPECT_GT(with_head, compared / 8);
  EXPECT_GT(priced, compared / 8);
}

// --- the forecast ---

// What the calendar promises for jobs that take whole nodes can be carried out: if every job starts when it was
// promised, on any free nodes, and runs to its limit, a free node is never lacking.
TEST(Reference, promises_for_whole_nodes_can_be_kept) {
  std::uint64_t promised = 0;
  for (std::uint64_t seed = 1; seed <= clusters() / 3 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(format("seed {}", seed));
    Rng rng(seed);
    MiniCore core;
    core.add_partition("main", {"ALL"});
    const auto nodes = static_cast<std::uint32_t>(rng.between(1, 8));
    for (std::uint32_t n = 1; n <= nodes; ++n) core.add_node(n, 8, 4);
    Driver driver;
    Instant now = kNow;
    for (int round = 0; round < 4; ++round) {
      now = now + seconds(rng.between(0, 4000));
      for (std::int64_t i = rng.between(1, 12); i > 0; --i) {
        JobSpec spec = ask(static_cast<std::uint32_t>(rng.between(1, nodes)), 4, seconds(rng.between(30, 100'000)));
        if (rng.chance(0.3))
          spec.groups[0].sharing = Sharing::kExclusive, spec.groups[0].per_node.devices.clear();
        core.add_job(spec, rng.below(3));
      }
      std::vector<JobId> over;
      for (const auto& [id, job] : core.tables.jobs)
        if (holds_allocation(job->state) && (rng.chance(0.2) || job->limit_end <= now))
          over.push_back(id);
      for (const JobId id : over) core.end(id);
      driver.run(core, now);
      std::map<Instant, std::int64_t> change;  // of free nodes
      std::int64_t free = nodes;
      for (const auto& [id, job] : core.tables.jobs) {
        if (holds_allocation(job->state)) {
          free -= static_cast<std::int64_t>(job->allocation->grants.size());
          change[job->limit_end] += static_cast<std::int64_t>(job->allocation->grants.size());
        } else if (job->state == JobState::kPending) {
          const Instant start = driver.planner.expected_start(id);
          ASSERT_TRUE(start) << "job " << id.value << " has no time";
          ASSERT_GE(start, now);
          change[start] -= job->spec->groups[0].nodes.min;
          change[start + job->spec->time_limit] += job->spec->groups[0].nodes.min;
          ++promised;
        }
      }
      for (const auto& [at, by] : change) {
        free += by;
        ASSERT_GE(free, 0) << "at " << (at - now).seconds() << " s, round " << round;
      }
      EXPECT_EQ(free, nodes);
    }
  }
  EXPECT_GT(promised, clusters());
}

// The law, for times: a planner that has just replanned says the same as one rebuilt from the committed state.
TEST(Reference, a_rebuilt_planner_promises_the_same) {
  for (std::uint64_t seed = 1; seed <= clusters() / 3 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(format("seed {}", seed));
    Rng rng(seed);
    MiniCore core;
    core.add_partition("main", {"ALL"});
    core.add_partition("side", {"n1", "n2"});
    const std::int64_t depth = seed % 3 == 0 ? 2 : 0;
    if (depth > 0) {
      Topology topology;
      topology.levels = {"l1", "l2"};
      core.put(topology);
    }
    for (std::uint32_t n = 1; n <= 5; ++n) core.add_node(n, 6, 4, random_path(rng, depth));
    Driver driver;
    Instant now = kNow;
    for (int round = 0; round < 6; ++round) {
      now = now + seconds(rng.between(0, 400));
      for (std::int64_t i = rng.between(1, 5); i > 0; --i) {
        JobSpec spec = random_ask(rng);
        if (const std::int64_t times = rng.between(1, 90); spec.time_limit < kForever)
          spec.time_limit = spec.time_limit * times;
        if (depth > 0 && rng.chance(0.5))
          ask_of_tree(rng, spec.groups[0]);
        core.add_job(spec, rng.below(4));
      }
      std::vector<JobId> running;
      for (const auto& [id, job] : core.tables.jobs)
        if (holds_allocation(job->state) && rng.chance(0.3))
          running.push_back(id);
      for (const JobId id : running) core.end(id);
      driver.run(core, now, {.jobs = static_cast<std::uint32_t>(rng.between(1, 64)), .starts = 2});
      Driver rebuilt;
      rebuilt.planner.observe(core.tables.snapshot());
      EXPECT_EQ(rebuilt.pass(now).size(), 0u);
      for (const auto& [id, job] : core.tables.jobs)
        if (job->state == JobState::kPending) {
          EXPECT_EQ(driver.planner.expected_start(id), rebuilt.planner.expected_start(id)) << "job " << id.value;
        }
    }
  }
}

}  // namespace
}  // namespace lockstep
