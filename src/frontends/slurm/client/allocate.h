// Interactive allocations of srun and salloc: submit, wait until granted, and know when they end.
#pragma once

#include <optional>

#include "frontends/slurm/client/api.h"
#include "frontends/slurm/client/background.h"
#include "frontends/slurm/client/options.h"
#include "frontends/slurm/client/say.h"
#include "frontends/slurm/client/signal_desk.h"

namespace lockstep::slurm {

// The job, asked for on a connection of its own whose presence keeps an interactive job alive.
using JobEnd = Pending<Result<Ref<Job>>>;
JobEnd watch_end(const ClientContext& context, JobId id);

struct Granted {
  JobId id;
  JobAnswer answer;
};
// Says "queued and waiting for resources" when it takes long. Nothing when it did not come to an allocation: the reason
// has been said, and the job is gone. immediate: give up after this time.
std::optional<Granted> allocate(const ClientContext& context, Api& api, const SubmitRequest& request,
                                std::optional<Duration> immediate, const Voice& voice, SignalDesk& signals);

// Of a job with --stage-out that was ended just now: waits until its files are where they are to go, says that it does
// when that takes long, and tells what was left behind. code: what the client would end with; with files left behind,
// or a signal that leaves the wait (the copying goes on), never 0.
int await_stage_out(const ClientContext& context, JobId id, const JobSpec& spec, int code, const Voice& voice,
                    SignalDesk& signals);

// How long --immediate waits. Nothing: for as long as it takes.
Result<std::optional<Duration>> immediate_of(const OptionSet& options);

}  // namespace lockstep::slurm
