// Files that are staged in before anything of an attempt starts, and what its nodes say of that and of checkpoints.
// Other nodes start their parts at once; the script's own node holds the script back until all have what they need, so
// that no node computes, and no clock runs, while another one still copies.
#pragma once

#include "core/txn.h"
#include "model/staging.h"

namespace lockstep {

// Files are being staged in: none of its steps starts.
bool stages_in(const Job& job);
// Of a job that runs a script: its other nodes still stage in, so its own one is to hold the script back.
bool holds_script_back(const Job& job);

// What is staged in is on the script's own node.
void on_staged_in(Txn& txn, const Job& job, NodeId node);
// A node has started its part. Tells the script's own one to go on if that was what it waited for.
void release_script(Txn& txn, const Job& job);
// The files of its user could not be staged in: nobody else's fault, and another node would do no better.
void stage_in_failed(Txn& txn, const Job& job, NodeId node, const std::string& why);
// A node has ended its part, and not all of it was staged out.
void note_staging_trouble(Txn& txn, JobId job, NodeId node, const std::string& why);

// The node has seen that the attempt has saved its work.
void checkpoint_seen(Txn& txn, const Job& job, Instant at);

// How much longer than others it may take to start, and to stop, on each node.
Duration staging_in_most(const Job& job);
Duration staging_out_most(const Job& job);

}  // namespace lockstep
