// Attempts: one run of a job, from the grant of its allocation to the proof that nothing of it lives any more.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "core/txn.h"

namespace lockstep {

bool runs_script(const JobSpec& spec);  // a batch job: its script's end ends it
bool may_requeue(const JobSpec& spec);  // after a failure that was not its own

// The distinct nodes of the allocation, in rank order; only those with a member that is not stopped. A look at all of
// it: for what concerns one node there is Inner::seats_of().
std::vector<NodeId> live_nodes(const Job& job);

// Gives a pending job its allocation and tells every node to start its part. tres: what the grants count for.
void start_attempt(Txn& txn, const Job& job, const std::string& partition, std::vector<Grant> grants, Tres tres);

// How an attempt ends.
struct Ending {
  JobState state = JobState::kCompleted;  // the state to come; with requeue: what this run is remembered as
  std::string reason;                     // "TimeLimit", "NodeDown n3"
  bool requeue = false;                   // back to kPending instead
  Hold hold = Hold::kNone;                // with requeue: held then
  UserId by;                              // with kCancelled
  Instant at;                             // when; 0 = now
};
// The job (starting, running or suspended) becomes kCompleting; its nodes are told to stop, and where nothing is left
// to stop it ends at once. job.exit is taken as it stands.
void end_attempt(Txn& txn, Job job, const Ending& ending);
// A node has not started its part. says_so: by its own word.
void launch_failed(Txn& txn, const Job& job, NodeId node, const std::string& why, bool says_so);
// The same for a failure the job is not to blame for: requeued if it may be, else it ends in `state`.
// never_ran: nothing of the attempt did, so that it may be requeued whatever the user said of that.
void fail_attempt(Txn& txn, const Job& job, JobState state, const std::string& reason, Hold hold_at_limit,
                  bool never_ran = false);

// Asks the nodes that still have something of the attempt to stop it.
void send_stops(Txn& txn, const Job& job, Duration kill_wait);

// The node is given up or proven gone: decides what that means for a job with a member there.
void member_lost(Txn& txn, JobId job, NodeId node, const std::string& reason);
// It is proven that nothing of the attempt lives on the node any more.
void member_gone(Txn& txn, JobId job, NodeId node, const std::string& reason);
// Goes on with what a job's many steps and tasks have to learn of that (Chores::sweeps), and ends it when all know.
void sweep_more(Txn& txn);

Result<void> agent_report(Txn& txn, const AgentReport& report);
Result<void> end_job(Txn& txn, const EndJob& ask);

}  // namespace lockstep
