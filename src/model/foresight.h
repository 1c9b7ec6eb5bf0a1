// Foresight: what is foreseen for waiting jobs, why one of them waits, and what would make it start sooner. Answers of
// questions that are put to a copy of the cluster (foresight/), as the API hands them on. Times are the calendar's.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "model/command.h"

namespace lockstep {

// A job in the near future of one world.
struct Foreseen {
  bool started = false;  // it starts now, or runs already
  WallTime start;        // 0 = not known: nothing that is known will let it start
  bool binds = false;    // promised: nothing lower may delay it
  std::string partition;
  std::string nodes;        // host list; "" = not known yet
  std::uint32_t cores = 0;  // of its place; 0 = not known
  std::string reason;       // Slurm's word, while it waits: "Resources", "Priority", "JobHeldUser"
  friend bool operator==(const Foreseen&, const Foreseen&) = default;
};

// How many nodes pass one filter, of those that passed all before it.
struct NodeFilter {
  std::string name;  // "in partition main", "up", "allowed", "large enough", "not reserved", "free now", "not kept"
  std::uint32_t left = 0;
  std::string lost;     // why others did not: "2 down, 1 drained", "3 lack GPUs"
  std::string example;  // one of those: "n3: drained, fan"
};

// The nodes for one group of the job in one of its partitions.
struct NodeFunnel {
  std::string partition;
  std::uint32_t group = 0;
  std::uint32_t wanted = 0;  // nodes, at least
  std::string closed;        // why the partition itself does not take the job; "" = it does
  std::vector<NodeFilter> filters;
};

struct JobAhead {
  JobId job;
  std::string name, user;
  std::string why;  // "tier", "priority", "earlier"
  Foreseen expected;
};

// A job that has what this one waits for.
struct JobInTheWay {
  JobId job;
  std::string name, user;
  std::string nodes;  // that both want
  WallTime until;     // when its limit ends it; 0 = no limit
};

// What could be otherwise about a job, so that it starts sooner. Front ends word these.
namespace remedy {

struct Release {
  friend bool operator==(const Release&, const Release&) = default;
};

// One thing it insists on is left out.
struct Without {
  enum class What : unsigned char {
    kDependency,
    kBegin,
    kConstraint,
    kOnlyNodes,
    kExcludedNodes,
    kWholeNodes,
    kReservation,
    kLicences,
    kLevel,
    kSwitches,
    kSegment,
    kTopology,  // level, switches and segments together
  };
  What what = What::kDependency;
  std::string value;  // as the job has it; "" = there is none to name
  friend bool operator==(const Without&, const Without&) = default;
};

struct FewerNodes {
  std::uint32_t nodes = 0, instead_of = 0;
  std::uint32_t tasks = 0;  // to be set too; 0 = they follow
  friend bool operator==(const FewerNodes&, const FewerNodes&) = default;
};

struct FewerTasks {
  std::uint32_t tasks = 0, instead_of = 0;
  friend bool operator==(const FewerTasks&, const FewerTasks&) = default;
};

struct ShorterLimit {
  Duration limit, instead_of;
  Duration likely;  // how long it will likely run, where that is longer than the limit; 0 = it is not
  friend bool operator==(const ShorterLimit&, const ShorterLimit&) = default;
};

struct OtherPartition {
  std::string partition;
  friend bool operator==(const OtherPartition&, const OtherPartition&) = default;
};

enum class DevicesPer : unsigned char { kNode, kTask, kJob };

struct AnyDeviceType {
  std::string type;  // that it asks for
  DevicesPer per = DevicesPer::kNode;
  std::uint32_t count = 0;
  friend bool operator==(const AnyDeviceType&, const AnyDeviceType&) = default;
};

struct FewerDevices {
  DevicesPer per = DevicesPer::kNode;
  std::uint32_t count = 0, instead_of = 0;
  friend bool operator==(const FewerDevices&, const FewerDevices&) = default;
};

struct WiderLevel {
  std::string level, instead_of;
  friend bool operator==(const WiderLevel&, const WiderLevel&) = default;
};

struct MoreSwitches {
  std::uint32_t switches = 0, instead_of = 0;
  friend bool operator==(const MoreSwitches&, const MoreSwitches&) = default;
};

// Running jobs go elsewhere.
struct MoveJobs {
  std::vector<JobId> jobs;
  std::int64_t device_minutes_lost = 0;  // at most
  friend bool operator==(const MoveJobs&, const MoveJobs&) = default;
};

}  // namespace remedy

using Remedy = std::variant<remedy::Release, remedy::Without, remedy::FewerNodes, remedy::FewerTasks,
                            remedy::ShorterLimit, remedy::OtherPartition, remedy::AnyDeviceType, remedy::FewerDevices,
                            remedy::WiderLevel, remedy::MoreSwitches, remedy::MoveJobs>;

// A change of the job, and what was foreseen for it when it was planned so.
struct Suggestion {
  Remedy remedy;
  Foreseen then;
  // A front end fills these in; only they leave the controller.
  std::string change;   // "6 nodes instead of 8"
  std::string command;  // that makes the change; "" = the job has to be submitted anew
};

// What the reason of an explanation is about: front ends add the option or the command of theirs.
enum class ReasonTopic : unsigned char { kNone, kBeginTime, kTimeLimit, kAccounting };

struct Explanation {
  JobId job;
  std::string name, user;
  std::string state;    // "pending"
  std::string because;  // a sentence or two
  ReasonTopic topic = ReasonTopic::kNone;
  WallTime not_before;  // as its owner asked; 0 = at once
  Foreseen expected;
  std::vector<NodeFunnel> funnels;
  std::uint64_t ahead = 0;            // jobs before it in the order
  std::vector<JobAhead> first_ahead;  // the first of them that want nodes it could use
  std::vector<JobInTheWay> in_the_way;
  std::vector<Suggestion> suggestions;  // best first
  std::uint32_t plans = 0;              // worlds that were planned for this
  bool all_tried = true;                // false: there were more ideas than plans
};

// --- changes to a copy of the cluster ---

struct AddNodes {
  std::string like;  // name of a node; the new ones join its partitions
  std::uint32_t count = 1;
};
struct SetNodes {
  std::string nodes;  // host list
  bool drain = true;  // no new work there; what runs goes on to its end
};
// Fields to lay over a record, which is made if it is not there yet.
struct EditRecord {
  Kind kind = Kind::kPolicy;  // kPartition, kQos, kAccount, kLicence, kReservation, kPolicy
  std::string name;
  std::string fields;  // JSON object, as the API writes the record
};
struct AddJobs {
  JobId like;
  std::uint32_t count = 1;
};
struct RemoveJobs {
  std::vector<JobTarget> jobs;  // waiting ones are cancelled, running ones end
};
struct ChangeAsk {
  std::variant<AddNodes, SetNodes, EditRecord, UpdateJob, AddJobs, RemoveJobs> what;
  std::string field;  // where it stands in the request: "changes[2]"
};

struct BeforeAfter {
  JobId job;
  std::string name, user;
  bool added = false, removed = false;  // by the changes
  Foreseen before, after;
};

// Of the jobs that wait in both worlds.
struct ForeseenTotals {
  std::uint64_t jobs = 0, start_now = 0, no_time = 0;
  std::int64_t mean_wait_s = 0;  // from now, of those with a time
  std::int64_t last_start_s = 0;
};

struct WhatIfAnswer {
  std::vector<BeforeAfter> jobs;  // in the order they start after the changes
  ForeseenTotals before, after;
};

// Jobs of the past, as recorded or replayed.
struct PastFigures {
  std::int64_t mean_wait_s = 0, max_wait_s = 0;
  std::int64_t slowdown_milli = 0;  // mean of max(1, (wait + run) / max(run, 10 s))
  std::int64_t used_permille = 0;   // of GPUs, or of cores, from the first submission to the last end
};

struct WhatIfPast {
  std::uint64_t jobs = 0, left_out = 0;
  bool by_gpus = true;                   // used_permille is of GPUs
  PastFigures recorded, as_is, changed;  // changed: with the changes
};

}  // namespace lockstep
