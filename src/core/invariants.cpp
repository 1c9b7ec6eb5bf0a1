// The promises of the cluster state, checked one by one against the tables. Slow and obvious on purpose.
#include <algorithm>
#include <set>
#include <string>

#include "base/text.h"
#include "core/confirm.h"
#include "core/inner.h"
#include "core/node_classes.h"
#include "core/objects.h"
#include "core/preemption.h"
#include "model/job.h"
#include "rules/growth.h"
#include "rules/packing.h"
#include "rules/preempt.h"

namespace lockstep {

namespace {

void check_seqs(const Tables& tables) {
  const auto changes = tables.snapshot();
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const Meta& meta = meta_of(changes[i].record);
    CHECK(i == 0 || changes[i - 1].seq < changes[i].seq, format("seq {} twice", changes[i].seq));
    CHECK(meta.uid && meta.uid.value <= meta.seq && meta.seq <= tables.seq);
  }
}

// A node is what the class that names it makes of its own, and in one class at most.
void check_node_classes(const ClusterState::Inner& inner) {
  const Tables& tables = inner.tables;
  std::set<std::string_view> named;
  for (const auto& [name, one] : tables.node_classes)
    for (const std::string& node : one->nodes) CHECK(named.insert(node).second, format("{} is in two classes", node));
  for (const auto& [id, node] : tables.nodes) {
    Node again = *node;
    without_class(again);
    with_class(inner, again);
    CHECK(again.node_class == node->node_class && again.features == node->features && again.weight == node->weight,
          format("node {} is not as class {} makes it", node->meta.name, again.node_class));
  }
}

// Findings stand in order, each check has one, and only a bad one closes. A run never waits, and has its node alone.
void check_health(const ClusterState::Inner& inner) {
  for (const auto& [id, node] : inner.tables.nodes)
    for (std::size_t i = 0; i < node->health.size(); ++i) {
      const HealthFinding& one = node->health[i];
      CHECK(i == 0 || node->health[i - 1].check < one.check,
            format("node {} has finding {} twice", id.value, one.check));
      CHECK(!one.closes || (one.verdict == HealthVerdict::kBad && one.at),
            format("node {} is closed for check {}, which did not find it bad", id.value, one.check));
    }
  std::set<NodeId> checked;
  for (const JobId id : inner.health_jobs) {
    const Job& job = *inner.tables.job(id);
    CHECK(job.allocation && job.allocation->grants.size() == 1 && job.allocation->grants.front().whole_node,
          format("job {} runs a check on something else than a node of its own", id.value));
    CHECK(checked.insert(job.allocation->grants.front().node).second,
          format("job {} is a second check on its node", id.value));
  }
}

void count_one_by_one(std::vector<Counted>& sums, const Counted& counted) {
  const auto at = std::find_if(sums.begin(), sums.end(), [&](const Counted& c) { return c.name >= counted.name; });
  if (at != sums.end() && at->name == counted.name)
    at->count += counted.count;
  else
    sums.insert(at, counted);
}

// Adds what a job was granted to what others have on the node, without the index's arithmetic: bit by bit.
void add_bit_by_bit(NodeLoad& load, const Job& job, const Grant& grant) {
  const auto words = [&](const char* what) {
    return format("job {} on node {}: {}", job.id.value, grant.node.value, what);
  };
  CHECK(!load.cores.intersects(grant.cores), words("a core is given twice"));
  CHECK(!load.devices.intersects(grant.devices), words("a device is given twice"));
  for (const DevicePart& part : load.parts)
    CHECK(!grant.devices.test(part.device), words("a device is given whole beside a part"));
  CHECK(load.sole_occupants == 0 && !(grant.whole_node && load.occupants > 0), words("the node is not its alone"));
  grant.cores.for_each([&](std::uint32_t core) { load.cores.set(core); });
  grant.devices.for_each([&](std::uint32_t device) { load.devices.set(device); });
  for (const DevicePart& part : grant.parts) {
    CHECK(!load.devices.test(part.device), words("a part of a device that is given whole"));
    load.parts.insert(std::upper_bound(load.parts.begin(), load.parts.end(), part), part);
  }
  for (const Counted& counted : grant.counted) count_one_by_one(load.counted, counted);
  load.shared_milli += grant.shared_milli;
  load.memory_mb += grant.memory_mb;
  ++load.occupants;
  load.sole_occupants += grant.whole_node;
  load.more_seats += grant.more_seats;
}

// The loads of all nodes are the sums of the grants, and nothing is granted twice.
void check_loads(const ClusterState::Inner& inner) {
  std::map<NodeId, NodeLoad> sums;
  std::map<NodeId, std::set<JobId>> jobs_on;
  for (const auto& [id, job] : inner.tables.jobs) {
    if (!holds_allocation(job->state))
      continue;
    for (std::size_t i = 0; i < job->allocation->grants.size(); ++i) {
      const Grant& grant = job->allocation->grants[i];
      jobs_on[grant.node].insert(id);
      CHECK(inner.tables.node(grant.node), format("job {} was on node {}, which is gone", id.value, grant.node.value));
      if (!occupies(grant))
        CHECK((grant == Grant{.node = grant.node, .group = grant.group}),
              "something is left of a grant that was given back");
      else if (gave_up(*job, i))
        sums[grant.node].memory_mb += grant.memory_mb;
      else
        add_bit_by_bit(sums[grant.node], *job, grant);
    }
  }
  std::erase_if(sums, [](const auto& sum) { return sum.second == NodeLoad{}; });
  CHECK(sums == inner.loads, "the loads are not the sums of the grants");
  CHECK(jobs_on == inner.jobs_on, "jobs by node");
}

// Nobody has told it to go.
bool stays(const Job& job) {
  return (job.state == JobState::kStarting || job.state == JobState::kRunning) && !job.eviction;
}

// A place that is kept for a waiting job overlaps with nothing but what is about to go.
void check_kept_places(const ClusterState::Inner& inner) {
  std::map<NodeId, NodeLoad> kept;
  const auto add = [&](const Job& job, const Grant& grant) {
    NodeLoad& load = kept[grant.node];
    CHECK(!load.cores.intersects(grant.cores) && !load.devices.intersects(grant.devices) && load.sole_occupants == 0 &&
              !(grant.whole_node && load.occupants > 0),
          format("job {} on node {}: what is kept for one job is given to another", job.id.value, grant.node.value));
    add_grant(load, grant);
  };
  for (const auto& [id, job] : inner.tables.jobs)
    if (job->promise && job->promise->held)
      for (const Grant& grant : job->promise->grants) {
        CHECK(inner.tables.node(grant.node), format("job {} is promised a node that is gone", id.value));
        add(*job, grant);
      }
  for (const auto& [id, job] : inner.tables.jobs)
    if (stays(*job))
      for (const Grant& grant : job->allocation->grants)
        if (kept.contains(grant.node) && occupies(grant))
          add(*job, grant);
}

void check_eviction(const ClusterState::Inner& inner, const Job& job) {
  const auto words = [&](const char* what) { return format("job {}: {}", job.id.value, what); };
  const Eviction& eviction = *job.eviction;
  CHECK(holds_allocation(job.state), words("evicted from nowhere"));
  CHECK(eviction.mode != PreemptMode::kCluster && eviction.mode != PreemptMode::kOff &&
        eviction.mode != PreemptMode::kGang);
  if (!eviction.by) {
    CHECK(job.state != JobState::kRunning || !eviction.nodes.empty(), words("makes room for nobody"));
  } else if (job.state == JobState::kStarting || job.state == JobState::kRunning) {
    const Job* by = inner.tables.job(eviction.by);
    CHECK(by && by->promise && by->promise->held, words("makes room for a job that does not need it"));
  }
}

void check_preemption(const ClusterState::Inner& inner, const Job& job) {
  const auto words = [&](const char* what) { return format("job {}: {}", job.id.value, what); };
  const bool could_start = job.state == JobState::kPending && job.hold == Hold::kNone && !job.array;
  CHECK(!job.promise || could_start || is_moving(job), words("only a job that could start is promised something"));
  CHECK(job.state == JobState::kSuspended ? bool{job.suspended_at}
                                          : !job.suspended_at || job.state == JobState::kCompleting,
        words("since when is it suspended?"));
  CHECK(job.suspended_before.us >= 0, words("it paused for less than no time"));
  if (job.eviction)
    check_eviction(inner, job);
}

void check_gang(const Job& job) {
  const auto& grants = job.allocation->grants;
  for (std::size_t g = 0; g < job.spec->groups.size(); ++g) {
    const GroupSpec& group = job.spec->groups[g];
    std::uint64_t tasks = 0;
    std::set<NodeId> nodes;
    for (const Grant& grant : grants)
      if (grant.group == g && occupies(grant)) {
        tasks += grant.tasks;
        CHECK(nodes.insert(grant.node).second || stacks(group), format("job {} has a node twice", job.id.value));
      }
    CHECK(
        tasks >= group.tasks.min && nodes.size() >= group.nodes.min && !nodes.empty(),
        format("job {} has a part of its gang: group {} has {} nodes, {} tasks", job.id.value, g, nodes.size(), tasks));
    CHECK(!is_elastic(group) || (tasks <= group.tasks.max && (group.nodes.max == 0 || nodes.size() <= group.nodes.max)),
          format("job {} has grown too far: group {} has {} nodes, {} tasks", job.id.value, g, nodes.size(), tasks));
  }
}

// The members of a job with an allocation: who has stopped, and why nothing else follows from it yet.
void check_members(const ClusterState::Inner& inner, const Job& job) {
  const auto words = [&](const char* what) { return format("job {}: {}", job.id.value, what); };
  CHECK(job.members.size() == job.allocation->grants.size() && job.allocation->attempt == job.attempt);
  std::size_t stopped = 0, left = 0;
  for (std::size_t i = 0; i < job.members.size(); ++i) {
    const bool has_some = occupies(job.allocation->grants[i]);
    CHECK(has_some || job.members[i] == MemberState::kStopped, words("lives where it has nothing"));
    stopped += job.members[i] == MemberState::kStopped;
    left += !has_some;
  }
  // Its steps come to their end by parts, then it does.
  CHECK(stopped < job.members.size() || (job.state == JobState::kCompleting && inner.chores.sweeps.contains(job.id)),
        words("nothing of it lives any more"));
  CHECK(stopped == left || job.state == JobState::kCompleting || job.spec->survive_node_loss,
        words("a member is gone"));
}

void check_job(const ClusterState::Inner& inner, const Job& job) {
  const auto words = [&](const char* what) { return format("job {}: {}", job.id.value, what); };
  CHECK(inner.tables.cluster && job.id.value < inner.tables.cluster->next_job, words("its id may be given again"));
  CHECK(job.spec && !job.spec->groups.empty());
  const bool has_allocation = holds_allocation(job.state);
  CHECK(has_allocation == (job.allocation != nullptr), words("allocation and state disagree"));
  const bool waits_again = job.state == JobState::kPending && job.attempt > 0;
  const bool ends = job.state == JobState::kCompleting || waits_again;
  CHECK(job.ended ? is_final(job.state) || ends : !is_final(job.state), words("ended and state disagree"));
  if (job.array) {
    CHECK(!has_allocation && !job.array_job && job.attempt == 0, words("an array runs by its elements"));
    return;
  }
  if (!has_allocation) {
    CHECK(job.members.empty() && !job.requeue_after, words("left over from an attempt"));
    return;
  }
  CHECK(job.hold == Hold::kNone || (job.state == JobState::kCompleting && job.requeue_after));
  check_members(inner, job);
  check_gang(job);
}

void check_arrays(const ClusterState::Inner& inner) {
  std::map<JobId, std::pair<std::uint32_t, std::uint32_t>> counts;  // running, unfinished
  std::map<JobId, std::map<std::uint32_t, JobId>> elements;
  for (const auto& [id, job] : inner.tables.jobs) {
    if (!job->array_job)
      continue;
    counts[job->array_job].first += holds_allocation(job->state);
    counts[job->array_job].second += !is_final(job->state);
    CHECK(elements[job->array_job].emplace(job->array_index, id).second, "an array element twice");
    const Job* array = inner.tables.job(job->array_job);
    CHECK(array && array->array, format("the array of job {} is gone", id.value));
    CHECK(!array->array->waiting.contains(job->array_index) && array->array->asked.contains(job->array_index));
  }
  CHECK(elements == inner.elements, "elements by array");
  for (const auto& [id, job] : inner.tables.jobs) {
    if (!job->array)
      continue;
    const auto [running, unfinished] = counts[id];
    CHECK(running == job->array->running && unfinished == job->array->unfinished,
          format("array {} counts {} running and {} unfinished elements", id.value, running, unfinished));
    CHECK(is_final(job->state) == (job->array->waiting.empty() && unfinished == 0),
          format("array {} ends with its elements", id.value));
  }
}

void check_steps(const Tables& tables) {
  std::map<std::pair<JobId, std::uint32_t>, CoreSet> cores;
  std::map<std::pair<JobId, std::uint32_t>, DeviceSet> devices;
  for (const auto& [key, step] : tables.steps) {
    const Job* job = tables.job(key.first);
    CHECK(job, "a step of a job that is gone");
    if (step->state == StepState::kEnded)
      continue;
    CHECK(holds_allocation(job->state) && step->attempt == job->attempt,
          format("step {}.{} outlives its attempt", key.first.value, key.second));
    CHECK(step->members.size() == step->places.size(), "every part of a step has a state");
    std::int64_t last = -1;
    for (const StepPlace& place : step->places) {
      CHECK(place.grant < job->allocation->grants.size());
      CHECK(place.grant > last, "a step's places are in the order of their grants");
      last = place.grant;
      const Grant& grant = job->allocation->grants[place.grant];
      CHECK(grant.node == place.node && grant.cores.contains(place.cores) && grant.devices.contains(place.devices),
            format("step {}.{} uses more than its job", key.first.value, key.second));
      for (const DevicePart& slice : place.slices)
        CHECK(std::ranges::count(grant.parts, slice) == 1 && !slice.mig.empty(),
              format("step {}.{} has a slice that its job does not", key.first.value, key.second));
    }
  }
  std::set<std::string> addresses;
  for (const auto& [key, task] : tables.tasks) {
    const Job* job = tables.job(key.job);
    CHECK(job, "a task of a job that is gone");
    CHECK(!task->user || task->user == job->spec->user, "a task is its job's owner's");  // older logs name nobody
    CHECK(task->state == TaskState::kEnded || (holds_allocation(job->state) && task->attempt == job->attempt),
          format("task {}/{}/{} outlives its attempt", key.job.value, key.group, key.index));
    CHECK(task->address.empty() || task->state != TaskState::kWaiting,
          format("task {}/{}/{} has an address and does not run", key.job.value, key.group, key.index));
    CHECK(task->address.empty() || task->state != TaskState::kRunning || addresses.insert(task->address).second,
          format("task {}/{}/{} has the address {} of another", key.job.value, key.group, key.index,
                 task->address.get()));
  }
}

}  // namespace

namespace {

// Every index is what it would be if it were made from the tables now.
void check_indexes(const ClusterState::Inner& inner) {
  ClusterState::Inner fresh;
  fresh.settings = inner.settings;
  fresh.tables = inner.tables;
  fresh.last = inner.last;
  fresh.rebuild();
  CHECK(fresh.dependents == inner.dependents, "dependents");
  CHECK(fresh.kept_for == inner.kept_for && fresh.making_room == inner.making_room, "kept places and evictions");
  CHECK(fresh.closed_for == inner.closed_for, "whom nodes are closed for");
  CHECK(fresh.names == inner.names, "jobs by name");
  CHECK(fresh.live_steps == inner.live_steps && fresh.waiting_steps == inner.waiting_steps, "live steps");
  CHECK(fresh.open_tasks == inner.open_tasks, "tasks that have not ended");
  CHECK(fresh.tasks_in == inner.tasks_in, "tasks by grant");
  CHECK(fresh.seats == inner.seats, "where members are");
  CHECK(fresh.named == inner.named, "what jobs name");
  CHECK(fresh.class_of_node == inner.class_of_node, "classes of nodes");
  CHECK(fresh.associations_of == inner.associations_of && fresh.qos_of_associations == inner.qos_of_associations,
        "associations");
  CHECK(fresh.objects_by_uid == inner.objects_by_uid && fresh.shown_by == inner.shown_by, "objects and what they show");
  CHECK(fresh.objects_taken == inner.objects_taken, "what objects take of their shares");
  CHECK(fresh.health_jobs == inner.health_jobs, "runs of health checks");
  CHECK(fresh.by_calendar == inner.by_calendar, "jobs with dates");
  CHECK(fresh.ledger == inner.ledger, "what limits count is not the sum over the jobs");
  CHECK(fresh.minute_limits == inner.minute_limits, "limits of minutes");
  // A delay that is over but was not acted on yet is not worked out again; a parked element has no timer.
  const auto lasting = [&inner](const std::set<Timer>& timers) {
    std::vector<Timer> out;
    std::copy_if(timers.begin(), timers.end(), std::back_inserter(out), [&inner](const Timer& t) {
      return t.kind != TimerKind::kDependency &&
             !(t.kind == TimerKind::kPurge && inner.is_parked(*inner.tables.job(t.job)));
    });
    return out;
  };
  CHECK(lasting(fresh.timers) == lasting(inner.timers), "timers");
}

}  // namespace

void check_invariants(const ClusterState& state) {
  const ClusterState::Inner& inner = state.inner();
  check_seqs(inner.tables);
  check_loads(inner);
  check_node_classes(inner);
  check_health(inner);
  for (const auto& [id, job] : inner.tables.jobs) check_job(inner, *job);
  for (const auto& [id, job] : inner.tables.jobs) check_preemption(inner, *job);
  check_kept_places(inner);
  check_arrays(inner);
  check_steps(inner.tables);
  if (const Packing* packing = inner.tables.packing.get())
    CHECK(check_packing(*packing, nullptr, JobId{inner.tables.cluster->next_job - 1}).ok(), "the record of packing");
  for (const auto& [id, nodes] : inner.closed_for)
    for (const NodeId node : nodes)
      CHECK(keeps_closed(inner, *inner.tables.node(node), id),
            format("node {} is closed for job {}, of which it owes nothing", node.value, id.value));
  for (const auto& [key, object] : inner.tables.objects)
    CHECK(!may_go(inner.tables, *object), format("{} is deleted and nothing keeps it", object->meta.name));
  check_indexes(inner);
}

}  // namespace lockstep
