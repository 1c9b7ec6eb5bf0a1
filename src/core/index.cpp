// The indexes of the cluster state: each follows from the tables, and index() is the only place that changes them.
#include <algorithm>

#include "base/mutant.h"
#include "core/accounting.h"
#include "core/inner.h"
#include "core/reservations.h"
#include "core/tasks.h"
#include "core/timers.h"
#include "model/job.h"
#include "model/resources.h"
#include "rules/preempt.h"

namespace lockstep {

namespace {

bool unfinished(const Job* job) { return job && !is_final(job->state); }

const Allocation* allocation_of(const Job* job) {
  return job && holds_allocation(job->state) ? job->allocation.get() : nullptr;
}

// Both use the same of what they were granted.
bool use_the_same(const Job* a, const Job* b) {
  if (allocation_of(a) != allocation_of(b))
    return false;
  if (!allocation_of(a) || (!is_paused(*a) && !is_paused(*b)))
    return true;
  return is_paused(*a) == is_paused(*b) && a->members == b->members;
}

const Promise* kept_place(const Job* job) {
  return job && job->promise && job->promise->held ? job->promise.get() : nullptr;
}

template <class Map, class K, class V>
void add_to(Map& map, const K& key, const V& value) {
  map[key].insert(value);
}

template <class Map, class K, class V>
void remove_from(Map& map, const K& key, const V& value) {
  const auto it = map.find(key);
  CHECK(it != map.end() && it->second.erase(value) == 1, "an index lost an entry");
  if (it->second.empty())
    map.erase(it);
}

// The same of what need not be there.
template <class Map, class K, class V>
void drop_from(Map& map, const K& key, const V& value) {
  if (const auto it = map.find(key); it != map.end() && it->second.erase(value) && it->second.empty())
    map.erase(it);
}

void count_waiting(std::map<UserId, std::uint64_t>& elements, const Job* job, std::int64_t times) {
  const std::uint64_t count = unfinished(job) && job->array ? job->array->waiting.size() : 0;
  if (count == 0)
    return;
  const auto at = elements.try_emplace(job->spec->user).first;
  at->second += count * static_cast<std::uint64_t>(times);
  if (at->second == 0)
    elements.erase(at);
}

// Capacity is the business of plan re-checks; what a node has may shrink under a grant. Nothing is ever granted twice.
void add_once(NodeLoad& load, const Grant& grant) {
  DeviceSet in_part;
  for (const DevicePart& part : load.parts) in_part.set(part.device);
  if (!mutant(Mutant::kNoRecheck))
    CHECK(!load.cores.intersects(grant.cores) && !load.devices.intersects(grant.visible()) &&
              !in_part.intersects(grant.devices) && load.sole_occupants == 0 &&
              !(grant.whole_node && load.occupants != 0),
          "a core or device is granted twice");
  add_grant(load, grant);
}

bool uses_calendar(const Job* job) {
  return (unfinished(job) && (job->spec->begin || job->spec->deadline)) ||
         (allocation_of(job) && !job->spec->reservation.empty());
}

// Whom its dependencies name, each once.
std::vector<JobId> awaited(const Job& job) {
  std::vector<JobId> out;
  for (const Dependency& d : job.spec->dependencies)
    if (d.job)
      out.push_back(d.job);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

// Whether a request that could ever run on one could ever run on the other.
bool offer_the_same(const Node& a, const Node& b) {
  return a.cores == b.cores && a.sockets == b.sockets && a.threads_per_core == b.threads_per_core &&
         a.memory_mb == b.memory_mb && a.tmp_disk_mb == b.tmp_disk_mb && a.devices == b.devices &&
         a.features == b.features && a.domains == b.domains && a.counted == b.counted && a.labels == b.labels &&
         a.marks == b.marks;
}

// For whom the job makes room; none: for nobody.
JobId makes_room_for(const Job* job) { return job && job->eviction ? job->eviction->by : JobId{}; }

// What gives the job the name by which its user's jobs wait for each other; elements of arrays have their array's.
const JobSpec* naming_spec(const Job* job) { return unfinished(job) && !job->array_job ? job->spec.get() : nullptr; }

}  // namespace

bool is_singleton(const Job& job) {
  return job.hold == Hold::kDependency &&
         std::any_of(job.spec->dependencies.begin(), job.spec->dependencies.end(),
                     [](const Dependency& d) { return d.type == Dependency::Type::kSingleton; });
}

bool awaits_dependencies(const Job& job) {
  return job.state == JobState::kPending && job.attempt == 0 && !job.spec->dependencies.empty() &&
         (job.hold == Hold::kDependency || job.hold == Hold::kUser || job.hold == Hold::kAdmin);
}

void ClusterState::Inner::index(const Node* before, const Node* after) {
  ground += !(before && after && offer_the_same(*before, *after));
  turns.index(before, after);
  if (before && after && before->unconfirmed == after->unconfirmed)
    return;
  if (before)
    for (const Unconfirmed& one : before->unconfirmed) drop_from(closed_for, one.job, before->id);
  if (after)
    for (const Unconfirmed& one : after->unconfirmed) closed_for[one.job].insert(after->id);
}

void ClusterState::Inner::index(const Cluster* before, const Cluster* after) {
  if (before && after && before->back_at != after->back_at)
    for (JobId id : jobs_with_allocation()) refresh_timers(id);
  if (!before || !after || before->wall_offset == after->wall_offset)
    return;
  minutes_at.reset();
  for (JobId id : by_calendar) refresh_timers(id);
  refresh_reservation_timer();
}

void ClusterState::Inner::count_jobs_anew() {
  ledger.forget_jobs();
  for (const auto& [id, job] : tables.jobs) ledger.index(nullptr, job.get());
}

void ClusterState::Inner::index(const Partition* before, const Partition* after) {
  ++ground;
  if (ledger.index(before, after))
    count_jobs_anew();
}

void ClusterState::Inner::index(const Account* before, const Account* after) {
  if (ledger.index(before, after))
    count_jobs_anew();
  count_minute_limits(before, after);
}

void ClusterState::Inner::index(const Qos* before, const Qos* after) {
  if (ledger.index(before, after))
    count_jobs_anew();
  count_minute_limits(before, after);
}

void ClusterState::Inner::index(const Association* before, const Association* after) {
  if (ledger.index(before, after))
    count_jobs_anew();
  count_minute_limits(before, after);
  const auto each_qos = [](const Association& a, auto&& visit) {
    std::set<std::string> names(a.qos.begin(), a.qos.end());
    if (!a.default_qos.empty())
      names.insert(a.default_qos);
    for (const std::string& name : names) visit(name);
  };
  if (before) {
    remove_from(associations_of, before->user, before->meta.name);
    each_qos(*before, [&](const std::string& qos) { remove_from(qos_of_associations, qos, before->meta.name); });
  }
  if (after) {
    add_to(associations_of, after->user, after->meta.name);
    each_qos(*after, [&](const std::string& qos) { add_to(qos_of_associations, qos, after->meta.name); });
  }
}

void ClusterState::Inner::index(const NodeClass* before, const NodeClass* after) {
  // Classes that trade nodes in one entry may be seen in any order: what another one has taken by now stays with it.
  if (before)
    for (const std::string& node : before->nodes)
      if (const auto at = class_of_node.find(node); at != class_of_node.end() && at->second == before->meta.name)
        class_of_node.erase(at);
  if (after)
    for (const std::string& node : after->nodes) class_of_node.insert_or_assign(node, after->meta.name);
}

void ClusterState::Inner::index(const Reservation* before, const Reservation* after) {
  refresh_reservation_timer();
  for (JobId id : named.in_reservation(before ? before->meta.name : after->meta.name).running) refresh_timers(id);
}

// What the job has of its grants no longer counts on their nodes.
void ClusterState::Inner::unload(const Job& job) {
  const std::vector<Grant>& grants = job.allocation->grants;
  for (std::size_t i = 0; i < grants.size() && !mutant(Mutant::kDeviceLeak); ++i) {
    const Grant& grant = grants[i];
    const bool memory_only = gave_up(job, i);
    if (!occupies(grant) || (memory_only && grant.memory_mb == 0))
      continue;
    const auto load = loads.find(grant.node);
    CHECK(load != loads.end());
    if (memory_only)
      load->second.memory_mb -= grant.memory_mb;
    else
      give_back(load->second, grant);
    if (load->second == NodeLoad{})
      loads.erase(load);
  }
  for (const Grant& grant : grants) drop_from(jobs_on, grant.node, job.id);
}

void ClusterState::Inner::load(const Job& job) {
  const std::vector<Grant>& grants = job.allocation->grants;
  for (std::size_t i = 0; i < grants.size(); ++i) {
    const Grant& grant = grants[i];
    jobs_on[grant.node].insert(job.id);
    if (!occupies(grant))
      continue;
    if (!gave_up(job, i))
      add_once(loads[grant.node], grant);
    else if (grant.memory_mb > 0)
      loads[grant.node].memory_mb += grant.memory_mb;
  }
}

void ClusterState::Inner::index_allocation(const Job* before, const Job* after) {
  const Allocation* had = allocation_of(before);
  const Allocation* has = allocation_of(after);
  if (has)
    seats[after->id].count(had ? before : nullptr, *after);
  else if (had)
    seats.erase(before->id);
  if ((had || has) && (had != has || before->state != after->state || before->spec != after->spec))
    minutes_at.reset();
  if (use_the_same(before, after)) {
    if (has && before->spec->labels != after->spec->labels)
      neighbours.put(after->id, after->spec, has->grants);
    return;
  }
  if (had)
    unload(*before);
  if (has)
    load(*after);
  if (has)
    neighbours.put(after->id, after->spec, has->grants);
  else
    neighbours.drop(before->id);
}

// Places that are kept for the job while it waits, and those that make room for it.
void ClusterState::Inner::index_room_made(const Job* before, const Job* after) {
  const JobId id = before ? before->id : after->id;
  if (const Promise* was = kept_place(before), *is = kept_place(after); was != is) {
    if (was)
      for (const Grant& grant : was->grants) drop_from(kept_for, grant.node, id);
    if (is)
      for (const Grant& grant : is->grants) kept_for[grant.node].insert(id);
  }
  const JobId was_for = makes_room_for(before), is_for = makes_room_for(after);
  if (was_for == is_for)
    return;
  if (was_for)
    remove_from(making_room, was_for, id);
  if (is_for)
    add_to(making_room, is_for, id);
}

void ClusterState::Inner::index_dependencies(const Job* before, const Job* after) {
  const JobId id = before ? before->id : after->id;
  const bool waited = before && awaits_dependencies(*before);
  const bool waits = after && awaits_dependencies(*after);
  if (waited == waits && !(waited && before->spec != after->spec))
    return;
  const std::vector<JobId> were = waited ? awaited(*before) : std::vector<JobId>();
  const std::vector<JobId> are = waits ? awaited(*after) : std::vector<JobId>();
  // The timers of another job hang on whether anybody waits for it, not on how many do.
  std::vector<JobId> first_or_last;
  for (JobId other : were) {
    remove_from(dependents, other, id);
    if (!dependents.contains(other))
      first_or_last.push_back(other);
  }
  for (JobId other : are) {
    add_to(dependents, other, id);
    if (dependents.at(other).size() == 1)
      first_or_last.push_back(other);
  }
  for (JobId other : first_or_last) {
    refresh_timers(other);
    if (!dependents.contains(other) && chores.parked.contains(other))
      chores.unparked.insert(other);
  }
}

void ClusterState::Inner::index_name(const Job* before, const Job* after) {
  const JobSpec* was = naming_spec(before);
  const JobSpec* is = naming_spec(after);
  if (was == is || (was && is && was->name == is->name))
    return;
  if (was)
    remove_from(names, std::pair{was->user, was->name}, before->id);
  if (is)
    add_to(names, std::pair{is->user, is->name}, after->id);
}

// A record that comes or goes. The array is not forgotten before its last element is.
void ClusterState::Inner::index_element(const Job* before, const Job* after) {
  const Job& job = before ? *before : *after;
  if ((before && after) || !job.array_job)
    return;
  std::size_t left = 0;
  if (after) {
    auto& of_array = elements[job.array_job];
    of_array[job.array_index] = job.id;
    left = of_array.size() - 1;
  } else {
    const auto it = elements.find(job.array_job);
    CHECK(it != elements.end() && it->second.erase(job.array_index) == 1);
    left = it->second.size();
    if (left == 0)
      elements.erase(it);
  }
  if (left == 0)
    refresh_timers(job.array_job);
}

void ClusterState::Inner::index(const Job* before, const Job* after) {
  ledger.index(before, after);
  turns.index(before, after);
  named.index(before, after);
  index_allocation(before, after);
  index_room_made(before, after);
  index_dependencies(before, after);
  index_name(before, after);
  count_waiting(waiting_elements, before, -1);
  count_waiting(waiting_elements, after, 1);
  index_element(before, after);
  const JobId id = before ? before->id : after->id;
  if (uses_calendar(after))
    by_calendar.insert(id);
  else if (uses_calendar(before))
    by_calendar.erase(id);
  if (unfinished(after) && !after->spec->health_check.empty())
    health_jobs.insert(id);
  else
    health_jobs.erase(id);
  refresh_timers(id);
}

void ClusterState::Inner::index(const Step* before, const Step* after) {
  const bool lived = before && before->state != StepState::kEnded;
  const bool lives = after && after->state != StepState::kEnded;
  if (lived && !lives)
    remove_from(live_steps, before->job, before->number);
  if (!lived && lives)
    add_to(live_steps, after->job, after->number);
  const bool waited = before && before->state == StepState::kPending;
  const bool waits = after && after->state == StepState::kPending;
  if (waited && !waits)
    remove_from(waiting_steps, before->job, before->number);
  if (!waited && waits)
    add_to(waiting_steps, after->job, after->number);
}

void ClusterState::Inner::index(const Task* before, const Task* after) {
  const auto timer = [](const Task& t) { return Timer{t.retry_at, TimerKind::kTask, t.job, t.group, t.index}; };
  if (before && before->retry_at)
    timers.erase(timer(*before));
  if (after && after->retry_at)
    timers.insert(timer(*after));
  const auto grant = [](const Task* t) { return t ? t->grant : kNoGrant; };
  if (grant(before) != grant(after)) {
    const auto key = [](const Task& t) { return TaskKey{t.job, t.group, t.index}; };
    if (grant(before) != kNoGrant)
      remove_from(tasks_in, std::pair{before->job, before->grant}, key(*before));
    if (grant(after) != kNoGrant)
      add_to(tasks_in, std::pair{after->job, after->grant}, key(*after));
  }
  count_open(before, after);
}

// So that the end of a task says without a look at the others whether it was the last.
void ClusterState::Inner::count_open(const Task* before, const Task* after) {
  const auto open = [this](const Task* t) {
    return t && t->state != TaskState::kEnded && !tables.job(t->job)->spec->groups[t->group].endless;
  };
  const bool was_open = open(before), is_open = open(after);
  if (was_open == is_open)
    return;
  if (is_open) {
    ++open_tasks[after->job];
  } else if (const auto it = open_tasks.find(before->job); --it->second == 0) {
    open_tasks.erase(it);
  }
}

void ClusterState::Inner::index(const Object* before, const Object* after) {
  objects_taken.index(before, after);
  if (!before)
    objects_by_uid[after->meta.uid] = key_of(*after);
  if (!after)
    objects_by_uid.erase(before->meta.uid);
  if (before && after && before->shows == after->shows)
    return;
  if (before)
    for (const Shown& shown : before->shows) shown_by.erase({shown, before->meta.uid});
  if (after)
    for (const Shown& shown : after->shows) shown_by.insert({shown, after->meta.uid});
}

Seq ClusterState::Inner::dependents_at(Uid owner) const {
  const auto at = dependents_changed.find(owner);
  return at == dependents_changed.end() ? dependents_floor : std::max(at->second, dependents_floor);
}

void ClusterState::Inner::refresh_timers(JobId id) {
  ++timers_worked_out;
  const Job* job = tables.job(id);
  std::vector<Timer> fresh;
  if (job)
    fresh = timers_of(*this, *job);
  const auto it = job_timers.find(id);
  if (it == job_timers.end() && fresh.empty())
    return;
  if (it != job_timers.end()) {
    if (it->second == fresh)
      return;
    for (const Timer& timer : it->second) timers.erase(timer);
  }
  timers.insert(fresh.begin(), fresh.end());
  if (fresh.empty())
    job_timers.erase(it);
  else
    job_timers[id] = std::move(fresh);
}

void ClusterState::Inner::park(const Job& job) {
  if (const auto it = job_timers.find(job.id); it != job_timers.end()) {
    for (const Timer& timer : it->second) timers.erase(timer);
    job_timers.erase(it);
  }
  chores.parked[job.array_job].insert(job.id);
}

bool ClusterState::Inner::is_parked(const Job& job) const {
  const auto it = chores.parked.find(job.array_job);
  return it != chores.parked.end() && it->second.contains(job.id);
}

void ClusterState::Inner::refresh_reservation_timer() {
  if (reservations_at)
    timers.erase({reservations_at, TimerKind::kReservation, {}});
  const Instant at = reservations_due(*this);
  reservations_at = at < kNever ? std::max(at, Instant{1}) : Instant{};
  if (reservations_at)
    timers.insert({reservations_at, TimerKind::kReservation, {}});
}

void ClusterState::Inner::clear_indexes() {
  loads.clear();
  neighbours.clear();
  jobs_on.clear();
  seats.clear();
  named = {};
  class_of_node.clear();
  associations_of.clear();
  qos_of_associations.clear();
  closed_for.clear();
  kept_for.clear();
  making_room.clear();
  dependents.clear();
  elements.clear();
  names.clear();
  waiting_elements.clear();
  live_steps.clear();
  waiting_steps.clear();
  open_tasks.clear();
  tasks_in.clear();
  objects_by_uid.clear();
  objects_taken.begin(settings.object_shares);
  shown_by.clear();
  dependents_changed.clear();
  health_jobs.clear();
  by_calendar.clear();
  timers.clear();
  job_timers.clear();
  chores = {};
  ledger.clear();
  turns.clear();
  reservations_at = {};
  minute_limits = 0;
}

// Who waits for something that has happened may not have seen it.
void ClusterState::Inner::find_chores() {
  for (const auto& [on, waiting] : dependents)
    if (const Job* job = tables.job(on); !job || job->array || job->started || is_final(job->state))
      chores.untold[on] = {};
  for (const auto& [id, job_seats] : seats)
    if (job_seats.live() < tables.job(id)->members.size())
      chores.sweeps[id] = {};
  for (const auto& [id, steps] : waiting_steps) chores.roomier.insert(id);
  for (const auto& [name, jobs] : names)
    if (is_singleton(*tables.job(jobs.front())))
      chores.lookers.insert(jobs.front());
}

void ClusterState::Inner::rebuild() {
  clear_indexes();
  const auto index_all = [this](const auto& table) {
    for (const auto& [key, record] : table) index(nullptr, record.get());
  };
  index_all(tables.partitions);
  index_all(tables.accounts);
  index_all(tables.associations);
  index_all(tables.qos);
  index_all(tables.node_classes);
  refresh_reservation_timer();
  index_all(tables.nodes);
  index_all(tables.jobs);
  index_all(tables.steps);
  index_all(tables.tasks);
  index_all(tables.objects);
  find_chores();
}

Instant ClusterState::Inner::of_wall(WallTime t) const {
  return {t.us - (tables.cluster ? tables.cluster->wall_offset.us : 0)};
}

WallTime ClusterState::Inner::wall_at(Instant t) const {
  return {t.us + (tables.cluster ? tables.cluster->wall_offset.us : 0)};
}

Instant ClusterState::Inner::usage_floor_at(Instant t) const {
  const WallTime floor = usage_floor(tables.policy(), wall_at(t));
  return floor ? of_wall(floor) : Instant{};
}

std::vector<JobId> ClusterState::Inner::jobs_with_allocation() const {
  std::set<JobId> ids;
  for (const auto& [node, jobs] : jobs_on) ids.insert(jobs.begin(), jobs.end());
  return {ids.begin(), ids.end()};
}

Instant ClusterState::Inner::minutes_due() const {
  if (minute_limits == 0)
    return kNever;
  if (!minutes_at)
    minutes_at = used_up_next(*this).at;
  return *minutes_at;
}

std::vector<RunningUse> ClusterState::Inner::running_use() const {
  std::vector<RunningUse> out;
  for (JobId id : jobs_with_allocation()) {
    const Job* job = tables.job(id);
    if (!is_paused(*job))
      out.push_back({job->spec.get(), job->allocation.get()});
  }
  return out;
}

bool ClusterState::Inner::listed_for_others(const Job& job) const {
  return dependents.contains(job.id) || elements.contains(job.id);
}

bool ClusterState::Inner::array_awaited(const Job& job) const {
  return job.array_job && dependents.contains(job.array_job);
}

const Seats& ClusterState::Inner::seats_of(const Job& job) const {
  const auto at = seats.find(job.id);
  CHECK(at != seats.end() && at->second.are_of(job), "asks for the seats of another version of a job");
  return at->second;
}

bool lives_on(const ClusterState::Inner& inner, const Job& job, NodeId node) {
  const auto seats = inner.seats_of(job).on(node);
  return std::any_of(seats.begin(), seats.end(),
                     [&](const Seats::Seat& seat) { return job.members[seat.grant] != MemberState::kStopped; });
}

}  // namespace lockstep
