// What a ClusterState is made of: the tables, and what can be worked out from them and is kept at hand. Every index
// follows from the records (and the settings) alone; index() brings all of them forward with one changed record, so a
// change is undone by indexing it the other way round.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/cluster.h"
#include "core/named.h"
#include "core/object_ledger.h"
#include "core/seats.h"
#include "core/turns.h"
#include "model/weight.h"
#include "rules/ledger.h"
#include "rules/minutes.h"
#include "rules/neighbours.h"
#include "rules/usage.h"

namespace lockstep {

// In the order in which timers due at the same moment are acted on.
enum class TimerKind : unsigned char {
  kLimit,        // the time limit strikes
  kDeadline,     // pending or running past its deadline
  kWarn,         // signal_ahead
  kEvict,        // an eviction's grace is over
  kBegin,        // Hold::kBeginTime is over
  kDependency,   // kAfter with a delay
  kTask,         // a task's retry_at
  kReservation,  // one is over
  kConfirm,      // nodes should have confirmed what they were told
  kPurge,        // an ended job has been listed long enough
};

struct Timer {
  Instant at;
  TimerKind kind = TimerKind::kLimit;
  JobId job;
  std::uint16_t group = 0;  // kTask
  std::uint32_t index = 0;  // kTask
  friend auto operator<=>(const Timer&, const Timer&) = default;
};

// What is due besides timers, because one command does only so much; Ticks go on with it. No record, and no index:
// whatever is forgotten with a restart is found again by looking at everybody who waits (rebuild()).
struct Chores {
  struct Telling {
    JobId last;          // of those who wait for it: the last one that has looked
    bool again = false;  // it changed once more meanwhile
  };
  struct Settling {
    std::uint64_t from = 0;  // elements below are settled
    bool again = false;
  };
  std::map<JobId, Telling> untold;          // jobs whose change not everybody has seen who waits for it
  std::set<JobId> lookers;                  // jobs that wait and look once more: their turn by name has come
  std::map<JobId, Settling> unsettled;      // arrays that wait by aftercorr
  std::map<JobId, std::set<JobId>> parked;  // array -> ended elements that stay listed as long as somebody awaits it
  std::set<JobId> unparked;                 // of these, arrays that nobody awaits any more
  struct Sweep {
    NodeId node;              // the only one where something has changed for steps; 0: look at all
    StepNo step = INT32_MIN;  // steps and tasks below have been looked at; none has a lower number than this
    std::uint16_t group = 0;
    std::uint32_t task = 0;
  };
  std::map<JobId, Sweep>
      sweeps;               // jobs whose steps and tasks have to learn where nothing of the attempt lives any more
  std::set<JobId> roomier;  // wide jobs in which something became free: steps that wait are looked at by the next Tick
  // Nothing that any command would go on with.
  bool empty() const {
    return untold.empty() && lookers.empty() && unsettled.empty() && unparked.empty() && sweeps.empty();
  }
};

// What was learned since the controller's start and is no record: nodes say it again to the next controller. It is
// handed on when the state is rebuilt in the middle of a life (ClusterState::inherit).
struct Epoch {
  // What nodes have seen of a job beyond what the log tells, which was put back from a backup.
  struct Attempts {
    AttemptNo in_log = 0;  // the job's when the first of them spoke: all together are believed only so far above it
    AttemptNo seen = 0;    // the next attempt goes above it
  };
  Instant began = kNever;            // kNever: not known
  std::uint64_t first_id = 0;        // of the jobs that came since; 0: not known
  std::set<NodeId> heard;            // nodes that have said hello
  std::vector<NodeId> heard_lately;  // of these, those whose hello is not known to be stored
  std::map<JobId, Attempts> attempts;
};

struct ClusterState::Inner {
  CoreSettings settings;
  Tables tables;
  Instant last;  // cluster time of the last command

  std::map<NodeId, NodeLoad> loads;              // sum of the grants of jobs that have an allocation; absent = idle
  std::map<NodeId, std::set<JobId>> jobs_on;     // jobs with a grant there
  Neighbours neighbours;                         // jobs that have an allocation, by their labels
  std::map<JobId, Seats> seats;                  // of jobs that have an allocation
  std::map<JobId, std::set<NodeId>> closed_for;  // jobs that nodes name in Node::unconfirmed
  std::map<NodeId, std::set<JobId>> kept_for;    // waiting jobs with a place there that is kept (Promise::held)
  std::map<JobId, std::set<JobId>> making_room;  // waiting job -> those that are evicted for it
  Epoch epoch;
  std::map<JobId, std::set<JobId>> dependents;  // job -> pending jobs whose dependencies name it and may still matter
  std::map<JobId, std::map<std::uint32_t, JobId>> elements;      // array -> its elements with a record
  std::map<std::pair<UserId, std::string>, IdSet<JobId>> names;  // unfinished jobs and arrays by user and name
  std::map<UserId, std::uint64_t> waiting_elements;              // of arrays, without a record of their own; none zero
  std::map<JobId, std::set<StepNo>> live_steps;                  // steps that have not ended
  std::map<JobId, std::set<StepNo>> waiting_steps;               // of these, those that have not started
  std::map<JobId, std::uint32_t> open_tasks;  // tasks that have not ended, of groups that can; none zero
  std::map<std::pair<JobId, std::uint32_t>, std::set<TaskKey>> tasks_in;  // by Task::grant, of whatever attempt
  std::map<Uid, ObjectKey> objects_by_uid;
  std::set<std::pair<Shown, Uid>> shown_by;  // which objects show what
  ObjectLedger objects_taken;
  // The last change of anything that names an object among its owners. No index: removals leave nothing behind, so
  // after a restart everything counts as changed then.
  std::map<Uid, Seq> dependents_changed;
  Seq dependents_floor = 0;
  std::set<JobId> health_jobs;                                   // of health checks, that have not ended
  std::set<JobId> by_calendar;                                   // pending or running jobs with a begin or a deadline
  Named named;                                                   // what unfinished jobs name
  std::map<std::string, std::string> class_of_node;              // node -> the class that names it
  std::map<std::string, std::set<std::string>> associations_of;  // user -> names of associations
  std::map<std::string, std::set<std::string>> qos_of_associations;  // QOS -> names of those that name it
  std::set<Timer> timers;
  Chores chores;
  std::uint64_t timers_worked_out = 0;             // since the start: what tests of costs count
  std::uint64_t layouts_tried = 0;                 // of steps that wait; likewise
  mutable std::uint64_t tasks_read = 0;            // where a whole job's are looked at; likewise
  std::map<JobId, std::vector<Timer>> job_timers;  // what each job has in timers, without its tasks'

  Ledger ledger;                              // what limits, quotas and licences count
  Turns turns;                                // whose turn it will be among equals
  Instant reservations_at;                    // the timer of reservations in timers; 0 = there is none
  std::int64_t minute_limits = 0;             // QOS, accounts and associations that bound minutes
  mutable std::optional<Instant> minutes_at;  // minutes_due() as it was worked out last; nullopt = not since a change

  // Specs accepted lately. Equal ones are shared by their jobs, and whether one could ever run is not worked out again
  // while the ground it stands on, nodes and partitions, stays the same.
  struct Accepted {
    Ref<JobSpec> spec;
    std::uint64_t ground = 0;
  };
  std::deque<Accepted> accepted;
  std::uint64_t ground = 0;

  RecordScale scale;  // how much records take in the log

  void index(const Node* before, const Node* after);
  void index(const Partition* before, const Partition* after);
  void index(const Topology*, const Topology*) { ++ground; }
  void index(const Cluster* before, const Cluster* after);
  void index(const Account* before, const Account* after);
  void index(const Association* before, const Association* after);
  void index(const Qos* before, const Qos* after);
  void index(const Usage*, const Usage*) { minutes_at.reset(); }
  void index(const Policy*, const Policy*) { minutes_at.reset(); }
  void index(const Reservation*, const Reservation*);
  void index(const NodeClass* before, const NodeClass* after);
  void index(const Job* before, const Job* after);
  void index(const Step* before, const Step* after);
  void index(const Task* before, const Task* after);
  void index(const Object* before, const Object* after);
  template <class T>
  void index(const T*, const T*) {}  // the other records have no index

  // Parts of index(), each with indexes of its own. One of before and after may be null, not both.
  void index_allocation(const Job* before, const Job* after);
  void index_room_made(const Job* before, const Job* after);
  void index_dependencies(const Job* before, const Job* after);
  void index_name(const Job* before, const Job* after);
  void index_element(const Job* before, const Job* after);
  void load(const Job& job);
  void unload(const Job& job);
  void count_open(const Task* before, const Task* after);
  void clear_indexes();
  void find_chores();  // of rebuild()

  // Recomputes a job's timers. Called by index(); needed besides when the wall clock moves or another job, on which a
  // timer depends, changes.
  void refresh_timers(JobId id);
  void refresh_reservation_timer();
  void park(const Job& job);  // its record is not forgotten before nobody awaits its array
  bool is_parked(const Job& job) const;
  template <class T>
  void count_minute_limits(const T* before, const T* after) {
    minute_limits += (after && bounds_minutes(after->limits)) - (before && bounds_minutes(before->limits));
    minutes_at.reset();
  }
  void count_jobs_anew();       // in the ledger
  Instant minutes_due() const;  // when a limit of minutes is used up by what runs; kNever
  void rebuild();               // every index, from the tables

  Instant of_wall(WallTime t) const;            // when the calendar shows t
  WallTime wall_at(Instant t) const;            // what the calendar shows then
  Instant usage_floor_at(Instant t) const;      // use before this is forgotten
  std::vector<RunningUse> running_use() const;  // of every job that has an allocation and runs
  std::vector<JobId> jobs_with_allocation() const;
  bool listed_for_others(const Job& job) const;  // an ended job that may not be forgotten yet, its array aside
  bool array_awaited(const Job& job) const;      // of an element: somebody waits for its array
  Seq dependents_at(Uid owner) const;
  // Of a job that has an allocation, as it is in the tables.
  const Seats& seats_of(const Job& job) const;
};

// Some member on the node is not stopped. The job is in the tables as it is given.
bool lives_on(const ClusterState::Inner& inner, const Job& job, NodeId node);

// The job's pending dependencies still matter: index() keeps it in dependents.
bool awaits_dependencies(const Job& job);
// It waits to be the only one of its name.
bool is_singleton(const Job& job);

}  // namespace lockstep
