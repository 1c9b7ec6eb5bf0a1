// `lockstep checkpoint`: a job says that what it has done so far is saved.
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/verb_words.h"
#include "frontends/slurm/client/api.h"

namespace lockstep {

namespace {

constexpr const char* kHelp = R"help(Usage: lockstep checkpoint [JOB]

Tells the scheduler that the job's present state is saved: preempted now, nothing would be lost. Of jobs that could make
room for another one those go first that lose the least. A job that was told to save its work before it goes does not
wait for the end of its grace. Without JOB: the job this runs in (SLURM_JOB_ID).

Examples
  lockstep checkpoint             in a job's script, behind each save
  lockstep checkpoint 12
)help";

}  // namespace

int checkpoint_main(const slurm::ClientContext& context, int argc, char** argv) {
  static const option kOptions[] = {{"help", 0, nullptr, 'h'}, {nullptr, 0, nullptr, 0}};
  VerbWords words({.verb = "checkpoint", .options = kOptions, .words = 1, .instead = "one job at a time"}, argc, argv);
  for (int c; (c = words.next()) != -1;) {
    if (c != 'h')
      return 2;
    fputs(kHelp, stdout);
    return 0;
  }
  const auto jobs = words.rest();
  std::string job = jobs.empty() ? "" : jobs[0];
  for (const char* name : {"LOCKSTEP_JOB_ID", "SLURM_JOB_ID"})
    if (const char* value = getenv(name); job.empty() && value)
      job = value;
  if (job.empty()) {
    fputs("lockstep checkpoint: which job? Name one, or run this inside it.\n", stderr);
    return 2;
  }
  slurm::Api cluster(context);
  const auto reply = cluster.call("POST", format("/v1/jobs/{}/checkpoint", slurm::url_escaped(job)), "{}");
  if (reply)
    return 0;
  fprintf(stderr, "lockstep checkpoint: %s\n", reply.error().message.c_str());
  return 1;
}

}  // namespace lockstep
