// When and how work truly ended. The controller decides ends (limits, deadlines, preemption) and learns afterwards that
// the work had ended by itself: it was away, or deaf, or it was a matter of milliseconds.
#pragma once

#include "core/attempts.h"

namespace lockstep {

// How an end is kept and shown: what ran out of memory is 0:125, as with Slurm, whatever became of the program behind
// it, which the kernel killed or which went on without the child that it had.
ExitStatus as_kept(const ExitStatus& exit);

// What the exit of a script, or of the step that is the whole job, makes of the job.
Ending ending_by(const Txn& txn, NodeId node, const ExitStatus& exit);

// When the attempt ended, as far as that can be: not before it started or went on for the last time. What it is charged
// for, and its pauses, end there.
Instant within_attempt(const Job& job, Instant at);

// The job was told to end, and now a node says that it had ended by itself, at truly.at: it ends as it did. False: what
// was decided stays. It stays where a user decided it, where the work overran its limit before it could hear of it, and
// where the job is moved. A preempted script may even have ended after the decision, because to run it again would be
// to run it twice.
bool correct_end(Txn& txn, const Job& job, const Ending& truly, const ExitStatus& exit);

// The job's limit has struck, or is striking. If it is nothing but its first step, and that had ended by itself before,
// it ends as the step did. False: it had not, or there is more to the job.
bool end_with_its_step(Txn& txn, const Job& job);

// When the client was done, as it says. It is believed of a time when no controller could hear it, if it says so soon
// after. Of any other time it is not: a client that could have told us and did not was not done.
Instant end_as_told(const Txn& txn, const EndJob& ask);

}  // namespace lockstep
