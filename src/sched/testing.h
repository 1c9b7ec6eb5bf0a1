// For tests of the planner: the least of a core, and a driver that plans until there is nothing left to plan.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "base/text.h"
#include "model/job.h"
#include "model/tables.h"
#include "rules/admission.h"
#include "rules/fit.h"
#include "rules/growth.h"
#include "rules/neighbours.h"
#include "rules/packing.h"
#include "rules/preempt.h"
#include "rules/topology.h"
#include "rules/tres.h"
#include "sched/planner.h"
#include "sched/view.h"

namespace lockstep {

// The least of a core: holds records, applies what is planned by the shared rules, tells every change.
struct MiniCore {
  Tables tables;
  Seq seq = 0;
  std::map<NodeId, NodeLoad> loads;
  Ledger ledger;
  Neighbours neighbours;
  std::vector<Change> fresh;  // since the last drain

  template <class T>
  void put(T record, bool removed = false) {
    record.meta.seq = ++seq;
    if constexpr (std::is_same_v<T, Job>) {
      ledger.index(tables.job(record.id), removed ? nullptr : &record);
      if (!removed && record.allocation)
        neighbours.put(record.id, record.spec, record.allocation->grants);
      else
        neighbours.drop(record.id);
    } else if constexpr (std::is_same_v<T, Account>)
      ledger.index(tables.account(record.meta.name), removed ? nullptr : &record);
    const Change change{seq, Ref<T>(std::make_shared<T>(std::move(record))), removed};
    tables.apply(change);
    fresh.push_back(change);
  }
  std::vector<Change> drain() { return std::exchange(fresh, {}); }

  void add_node(std::uint32_t id, std::uint32_t cores, std::uint32_t devices, std::vector<std::string> path = {}) {
    Node node;
    node.id = NodeId{id};
    node.meta.name = format("n{}", id);
    node.cores = cores;
    node.memory_mb = 1000;
    node.link = NodeLink::kUp;
    node.domains = std::move(path);
    for (std::uint32_t d = 0; d < devices; ++d) node.devices.push_back({.type = "h100"});
    put(node);
  }
  // A controller begins: the node has not answered it yet. Or it answers now.
  void await(std::uint32_t id, Instant since) {
    Node node = *tables.node(NodeId{id});
    node.link = NodeLink::kUnknown;
    node.seen_at = since;
    put(node);
  }
  void answer(std::uint32_t id) {
    Node node = *tables.node(NodeId{id});
    node.link = NodeLink::kUp;
    put(node);
  }
  void add_partition(const std::string& name, std::vector<std::string> nodes, std::uint32_t tier = 1) {
    Partition partition;
    partition.meta.name = name;
    partition.nodes = std::move(nodes);
    partition.is_default = name == "main";
    partition.tier = tier;
    put(partition);
  }
  JobId add_job(JobSpec spec, std::uint64_t priority = 1, Instant turn = {}, Duration predicted = {}) {
    Job job;
    job.id = JobId{++last_job};
    if (spec.groups.empty())
      spec.groups.emplace_back();
    job.spec = std::make_shared<JobSpec>(std::move(spec));
    job.priority = priority;
    job.submitted = Instant{1000};
    job.turn = turn;
    job.predicted = predicted;
    put(job);
    return job.id;
  }
  // Applies a start by the rules; EXPECTs that they allow it.
  void start(const PlannedStart& start, Instant now) {
    Job job = *tables.job(start.job);
    ASSERT_EQ(job.state, JobState::kPending);
    std::vector<const Node*> nodes;
    for (const Grant& grant : start.grants) nodes.push_back(tables.node(grant.node));
    const Partition* partition = tables.partition(start.partition);
    ASSERT_NE(partition, nullptr);
    const auto whole = check_allocation(*job.spec, *partition, start.grants, nodes);
    EXPECT_TRUE(whole.ok()) << (whole.ok() ? "" : whole.error().message);
    const auto levels = tables.topology ? tables.topology->levels : std::vector<std::string>();
    const bool switches_over = now >= switches_end(*job.spec, job.eligible);
    const auto placed = check_domains(*job.spec, *partition, levels, start.grants, nodes, switches_over);
    EXPECT_TRUE(placed.ok()) << (placed.ok() ? "" : placed.error().message);
    for (const Grant& grant : start.grants) {
      EXPECT_TRUE(node_usable(*tables.node(grant.node)));
      const auto taken = take(loads[grant.node], *tables.node(grant.node), grant);
      EXPECT_TRUE(taken.ok()) << (taken.ok() ? "" : taken.error().message);
    }
    EXPECT_TRUE(room_to_come(job.id, start.grants, {})) << "job " << job.id.value << " starts on what is held";
    const Seating::NodeOf node_of = [&](NodeId id) { return tables.node(id); };
    const Seating::EachNode each_node = [&](const std::function<void(const Node&)>& see) {
      for (const auto& [id, node] : tables.nodes) see(*node);
    };
    const Seating seating(neighbours, *job.spec, node_of, each_node);
    for (const Node* node : nodes)
      EXPECT_EQ(seating.objection(*node), Seating::Objection::kNone)
          << "job " << job.id.value << " on " << node->meta.name;
    if (start.is_element) {
      Job array = job;
      auto state = std::make_shared<ArrayState>(*array.array);
      EXPECT_TRUE(state->waiting.contains(start.array_index));
      state->waiting.erase(start.array_index);
      ++state->running;
      EXPECT_TRUE(state->throttle == 0 || state->running <= state->throttle);
      array.array = state;
      put(array);
      job.array = nullptr;
      job.array_job = job.id;
      job.array_index = start.array_index;
      job.id = JobId{++last_job};
    }
    const Duration limit = limit_in(*job.spec, *partition);
    const auto bar =
        first_bar(tables, ledger, start_ask(*job.spec, *partition, start.grants, nodes, limit), now,
                  {now.us + (tables.cluster ? tables.cluster->wall_offset.us : 0)}, [&]() -> const Spendings& {
                    spendings.emplace(tables, std::vector<RunningUse>(), now, Instant{});
                    return *spendings;
                  });
    EXPECT_FALSE(bar) << job.id.value << " is barred: " << (bar ? bar->detail : "");
    auto allocation = std::make_shared<Allocation>();
    allocation->attempt = ++job.attempt;
    allocation->partition = start.partition;
    allocation->grants = start.grants;
    allocation->granted = now;
    allocation->limit = limit;
    allocation->tres = tres_of(*job.spec, *partition, start.grants, nodes);
    job.allocation = allocation;
    job.promise = nullptr;
    job.members.assign(start.grants.size(), MemberState::kRunning);
    job.state = JobState::kRunning;
    job.started = now;
    job.limit_end =
        job.spec->time_limit.us == 0 || job.spec->time_limit >= kForever ? kNever : now + job.spec->time_limit;
    put(job);
  }
  // Applies a growth by the rules; EXPECTs that they allow it.
  void grow(const PlannedGrowth& growth, Instant now) {
    Job job = *tables.job(growth.job);
    ASSERT_EQ(job.state, JobState::kRunning);
    auto allocation = std::make_shared<Allocation>(*job.allocation);
    for (const Grant& grant : growth.grants) {
      EXPECT_TRUE(node_usable(*tables.node(grant.node)));
      const auto taken = take(loads[grant.node], *tables.node(grant.node), grant);
      EXPECT_TRUE(taken.ok()) << (taken.ok() ? "" : taken.error().message);
      allocation->grants.push_back(grant);
      job.members.push_back(MemberState::kRunning);
    }
    EXPECT_TRUE(room_to_come(job.id, growth.grants, {})) << "job " << job.id.value << " grows into what is held";
    std::vector<const Node*> nodes;
    const std::vector<Grant> held = occupying_grants(allocation->grants);
    for (const Grant& grant : held) nodes.push_back(tables.node(grant.node));
    const Partition& partition = *tables.partition(allocation->partition);
    const auto whole = check_allocation(*job.spec, partition, held, nodes);
    EXPECT_TRUE(whole.ok()) << (whole.ok() ? "" : whole.error().message);
    Ledger without = ledger;
    without.index(tables.job(job.id), nullptr);
    const Duration left = job.limit_end >= kNever ? kForever : job.limit_end - now;
    const auto bar =
        first_bar(tables, without, start_ask(*job.spec, partition, held, nodes, left), now,
                  {now.us + (tables.cluster ? tables.cluster->wall_offset.us : 0)}, [&]() -> const Spendings& {
                    spendings.emplace(tables, std::vector<RunningUse>(), now, Instant{});
                    return *spendings;
                  });
    EXPECT_FALSE(bar) << job.id.value << " may not grow: " << (bar ? bar->detail : "");
    allocation->tres = tres_of(*job.spec, partition, held, nodes);
    allocation->granted = now;
    job.allocation = std::move(allocation);
    put(job);
  }
  std::uint32_t tasks_of(JobId id) const {
    std::uint32_t tasks = 0;
    if (const Job* job = tables.job(id); job->allocation)
      for (const Grant& grant : job->allocation->grants) tasks += grant.tasks;
    return tasks;
  }
  // What is held when these and all that are evicted have gone, with what is held for other waiting jobs.
  std::map<NodeId, NodeLoad> to_come(JobId self, const std::vector<JobId>& victims,
                                     const std::vector<PlannedShrink>& shrinks = {}) const {
    std::map<NodeId, NodeLoad> out;
    for (const auto& [id, job] : tables.jobs) {
      if (id != self && job->promise && job->promise->held)
        for (const Grant& grant : job->promise->grants) add_grant(out[grant.node], grant);
      if (!holds_allocation(job->state))
        continue;
      const bool named = std::find(victims.begin(), victims.end(), id) != victims.end();
      const bool goes = (named || job->eviction) && !is_paused(*job);
      const bool pauses = goes && (job->eviction ? job->eviction->mode : mode_of(*job)) == PreemptMode::kSuspend;
      const auto part =
          std::find_if(shrinks.begin(), shrinks.end(), [&](const PlannedShrink& s) { return s.job == id; });
      for (const Grant& grant : job->allocation->grants)
        if (part != shrinks.end() && std::find(part->nodes.begin(), part->nodes.end(), grant.node) != part->nodes.end())
          continue;
        else if (!occupies(grant))
          continue;
        else if (is_paused(*job) || pauses)
          out[grant.node].memory_mb += grant.memory_mb;
        else if (!goes)
          add_grant(out[grant.node], grant);
    }
    return out;
  }
  bool room_to_come(JobId self, const std::vector<Grant>& grants, const std::vector<JobId>& victims,
                    const std::vector<PlannedShrink>& shrinks = {}) const {
    std::map<NodeId, NodeLoad> loads_then = to_come(self, victims, shrinks);
    return std::all_of(grants.begin(), grants.end(), [&](const Grant& grant) {
      return take(loads_then[grant.node], *tables.node(grant.node), grant).ok();
    });
  }
  PreemptMode mode_of(const Job& victim) const {
    const Qos* qos = tables.qos_named(victim.spec->qos);
    return qos && qos->preempt_mode != PreemptMode::kCluster ? qos->preempt_mode : PreemptMode::kRequeue;
  }
  // Applies a preemption; EXPECTs that the rules allow it. Whoever has no grace is gone at once.
  void preempt(const PlannedPreemption& planned, Instant now) {
    Job job = *tables.job(planned.job);
    ASSERT_EQ(job.state, JobState::kPending);
    ASSERT_FALSE(job.promise && job.promise->held);
    const Partition& partition = *tables.partition(planned.partition);
    std::vector<const Node*> nodes;
    for (const Grant& grant : planned.grants) nodes.push_back(tables.node(grant.node));
    const auto whole = check_allocation(*job.spec, partition, planned.grants, nodes);
    EXPECT_TRUE(whole.ok()) << (whole.ok() ? "" : whole.error().message);
    EXPECT_TRUE(room_to_come(job.id, planned.grants, planned.victims, planned.shrinks)) << "job " << job.id.value;
    QuotaTree quotas = ledger.quotas();
    const PreemptRight right(tables, *job.spec, partition, &quotas,
                             tres_of(*job.spec, partition, planned.grants, nodes));
    Instant at = now;
    for (const JobId id : planned.victims) {
      Job victim = *tables.job(id);
      const auto terms = right.against(victim, tables.partition(victim.allocation->partition));
      ASSERT_TRUE(terms && terms->from <= now) << "job " << id.value;
      quotas.add(victim.spec->account, victim.allocation->tres, -1);
      victim.eviction = std::make_shared<Eviction>(Eviction{job.id, terms->mode, now + terms->grace});
      at = std::max(at, now + terms->grace);
      put(victim);
      ++preempted[id];
    }
    for (const PlannedShrink& part : planned.shrinks) {
      const Job& victim = *tables.job(part.job);
      const auto terms = right.against(victim, tables.partition(victim.allocation->partition));
      ASSERT_TRUE(terms && terms->from <= now && can_spare(victim, part.nodes)) << "job " << part.job.value;
      shrink(part);
    }
    job.promise = std::make_shared<Promise>(Promise{at, planned.partition, planned.grants, true});
    put(job);
    evict_due(now);
  }
  // At once, whatever its grace.
  void shrink(const PlannedShrink& part) {
    Job job = *tables.job(part.job);
    auto allocation = std::make_shared<Allocation>(*job.allocation);
    for (std::size_t i = 0; i < allocation->grants.size(); ++i) {
      Grant& grant = allocation->grants[i];
      if (std::find(part.nodes.begin(), part.nodes.end(), grant.node) == part.nodes.end() || !occupies(grant))
        continue;
      give_back(loads[grant.node], grant);
      grant = {.node = grant.node, .group = grant.group};
      job.members[i] = MemberState::kStopped;
    }
    job.allocation = std::move(allocation);
    put(job);
    ++shrunk;
  }
  std::size_t shrunk = 0;
  void evict_due(Instant now) {
    std::vector<JobId> due;
    for (const auto& [id, job] : tables.jobs)
      if (job->state == JobState::kRunning && job->eviction && job->eviction->at <= now)
        due.push_back(id);
    for (const JobId id : due) {
      Job job = *tables.job(id);
      if (job.eviction->mode == PreemptMode::kSuspend) {
        job.state = JobState::kSuspended;
        job.suspended_at = now;
        put(job);
        continue;
      }
      for (const Grant& grant : occupying_grants(job.allocation->grants)) give_back(loads[grant.node], grant);
      job.state = job.eviction->mode == PreemptMode::kCancel ? JobState::kPreempted : JobState::kPending;
      job.begin_after = now + seconds(2);
      job.allocation = nullptr;
      job.eviction = nullptr;
      job.members.clear();
      put(job);
    }
  }
  // The nodes say that what was told to pause has stopped.
  void confirm_pauses(Rng* some = nullptr) {
    std::vector<JobId> due;
    for (const auto& [id, job] : tables.jobs)
      if (is_paused(*job) && !all_gave_up(*job))
        due.push_back(id);
    for (const JobId id : due) {
      Job job = *tables.job(id);
      for (std::size_t i = 0; i < job.members.size(); ++i) {
        const Grant& grant = job.allocation->grants[i];
        if (gave_up(job, i) || (some && some->chance(0.3)))
          continue;
        give_back(loads[grant.node], grant);
        loads[grant.node].memory_mb += grant.memory_mb;
        job.members[i] = MemberState::kPaused;
      }
      put(job);
    }
  }
  void resume(const PlannedResume& planned) {
    Job job = *tables.job(planned.job);
    ASSERT_EQ(job.state, JobState::kSuspended);
    for (std::size_t i = 0; i < job.members.size(); ++i) {
      const Grant& grant = job.allocation->grants[i];
      if (!gave_up(job, i) || !occupies(grant))
        continue;
      loads[grant.node].memory_mb -= grant.memory_mb;
      EXPECT_TRUE(take(loads[grant.node], *tables.node(grant.node), grant).ok());
      job.members[i] = MemberState::kRunning;
    }
    job.state = JobState::kRunning;
    job.suspended_at = {};
    job.eviction = nullptr;
    put(job);
  }
  void promise(const PlannedPromise& planned) {
    Job job = *tables.job(planned.job);
    job.promise = planned.promise.grants.empty() ? nullptr : std::make_shared<Promise>(planned.promise);
    put(job);
  }
  void pack(const PlannedPacking& planned) {
    const Packing* last = tables.packing.get();
    ASSERT_EQ(planned.read, last ? last->meta.seq : 0);
    const auto sound = check_packing(*planned.packing, last, JobId{UINT64_MAX});
    EXPECT_TRUE(sound.ok()) << (sound.ok() ? "" : sound.error().message);
    put(Packing(*planned.packing));
  }
  void add_qos(const std::string& name, std::vector<std::string> preempts = {},
               PreemptMode mode = PreemptMode::kCluster, Duration grace = {}) {
    Qos qos;
    qos.meta.name = name;
    qos.preempts = std::move(preempts);
    qos.preempt_mode = mode;
    qos.grace = grace;
    put(qos);
  }
  std::map<JobId, int> preempted;  // how often

  void end(JobId id) {
    Job job = *tables.job(id);
    for (const Grant& grant : occupying_grants(job.allocation->grants)) give_back(loads[grant.node], grant);
    job.eviction = nullptr;
    job.allocation = nullptr;
    job.members.clear();
    job.state = JobState::kCompleted;
    put(job);
    if (job.array_job) {
      Job array = *tables.job(job.array_job);
      auto state = std::make_shared<ArrayState>(*array.array);
      --state->running;
      array.array = state;
      put(array);
    }
  }
  std::uint64_t last_job = 0;
  std::optional<Spendings> spendings;
};

inline JobSpec ask(std::uint32_t nodes, std::uint32_t devices, Duration limit, std::uint32_t cores = 1) {
  JobSpec spec;
  spec.time_limit = limit;
  GroupSpec group;
  group.nodes = {nodes, nodes};
  group.tasks = {nodes, nodes};
  group.per_task.cores = cores;
  if (devices > 0)
    group.per_node.devices = {{.count = devices}};
  spec.groups = {group};
  return spec;
}

struct Driver {
  Planner planner;
  bool packs = true;  // what it learns of packing becomes the record
  std::map<JobId, PlanNote> notes;
  // What else the last pass proposed.
  std::vector<PlannedPreemption> preemptions;
  std::vector<PlannedPromise> promises;
  std::vector<PlannedResume> resumes;
  std::vector<PlannedGrowth> growths;
  std::vector<PlannedPacking> packings;

  std::vector<PlannedStart> pass(Instant now, PlanBudget budget = {}) {
    std::vector<PlannedStart> starts;
    preemptions.clear();
    promises.clear();
    resumes.clear();
    growths.clear();
    packings.clear();
    for (int slices = 0;; ++slices) {
      EXPECT_LT(slices, 100'000) << "the planner never comes to an end";
      PlanChunk chunk = planner.plan(now, budget);
      for (PlanNote& note : chunk.notes) notes[note.job] = note;
      std::move(chunk.starts.begin(), chunk.starts.end(), std::back_inserter(starts));
      std::move(chunk.preemptions.begin(), chunk.preemptions.end(), std::back_inserter(preemptions));
      std::move(chunk.promises.begin(), chunk.promises.end(), std::back_inserter(promises));
      std::move(chunk.resumes.begin(), chunk.resumes.end(), std::back_inserter(resumes));
      std::move(chunk.growths.begin(), chunk.growths.end(), std::back_inserter(growths));
      std::move(chunk.packings.begin(), chunk.packings.end(), std::back_inserter(packings));
      if (!chunk.more || slices >= 100'000)
        return starts;
    }
  }
  // Plans and applies until nothing more starts.
  std::size_t run(MiniCore& core, Instant now, PlanBudget budget = {}) {
    planner.observe(core.drain());
    std::size_t count = 0;
    for (bool due = planner.wake_at() <= now; due || !planner.idle(); due = false) {
      const auto starts = pass(now, budget);
      for (const PlannedStart& start : starts) core.start(start, now);
      for (const PlannedPromise& promise : promises) core.promise(promise);
      for (const PlannedPreemption& preemption : preemptions) core.preempt(preemption, now);
      for (const PlannedResume& resume : resumes) core.resume(resume);
      for (const PlannedGrowth& growth : growths) core.grow(growth, now);
      for (const PlannedPacking& packing : packings)
        if (packs)
          core.pack(packing);
      count += starts.size();
      planner.observe(core.drain());
      planner.settled();
    }
    return count;
  }
};

inline constexpr Instant kNow{1'000'000'000};

// None; around now; or so long ago that a promise binds, now or soon.
inline Instant random_turn(Rng& rng) {
  if (rng.chance(0.3))
    return {};
  const Instant near = kNow + seconds(rng.between(-500, 500));
  if (rng.chance(0.5))
    return near;
  // A job of any share of the cluster is overdue some share of that later.
  return near - seconds(160'000 * rng.between(0, 8) / 8) + seconds(rng.between(0, 2'000));
}

inline JobSpec random_ask(Rng& rng) {
  JobSpec spec = ask(static_cast<std::uint32_t>(rng.between(1, 3)), static_cast<std::uint32_t>(rng.between(0, 4)),
                     seconds(rng.between(1, 20)), static_cast<std::uint32_t>(rng.between(1, 3)));
  if (rng.chance(0.2))
    spec.partitions = {"side", "main"};
  else if (rng.chance(0.2))
    spec.partitions = {"side"};
  if (rng.chance(0.1))
    spec.groups[0].sharing = Sharing::kExclusive;
  if (rng.chance(0.1))
    spec.groups[0].exclude_nodes = {"n1"};
  if (rng.chance(0.1))
    spec.groups.push_back(ask(1, 1, {}, 1).groups[0]);
  if (rng.chance(0.1))
    spec.time_limit = kForever;
  return spec;
}

}  // namespace lockstep
