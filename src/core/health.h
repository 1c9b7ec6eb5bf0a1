// Health checks that run as jobs (model/health.h): their records, the start of a run, and what its end says of the
// node.
#pragma once

#include "core/txn.h"

namespace lockstep {

Result<Answer> put_health_check(Txn& txn, const PutHealthCheck& ask);
Result<void> remove_health_check(Txn& txn, const RemoveHealthCheck& ask);

// Makes the job of a run and starts it, at once and on the whole node. Refused where the check is not due there, the
// node is not idle, or as many runs as there may be are under way: whoever asks may lag, or ask twice.
Result<Answer> run_health_check(Txn& txn, const RunHealthCheck& ask);

// The job of a run has ended for good: its check's finding on the node follows, and with it whether the node is closed.
// where: the node that it ran on. A run that was preempted, cancelled or lost says nothing.
void note_health(Txn& txn, const Job& ended, NodeId where);

// An administrator opens the node: what checks have found so far closes it no more.
void forgive_health(Node& node);

}  // namespace lockstep
