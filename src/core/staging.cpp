#include "core/staging.h"

#include "base/characters.h"
#include "base/text.h"
#include "core/attempts.h"
#include "core/preemption.h"
#include "model/bounds.h"
#include "model/job.h"

namespace lockstep {

namespace {

constexpr std::size_t kWhyMost = kPhraseBytesMax / 4;  // of one node
constexpr std::size_t kReasonMost = kPhraseBytesMax;   // of all: the first nodes are enough to know what is wrong

std::string name_of_node(const Txn& txn, NodeId id) {
  const Ref<Node> node = txn.node(id);
  return node ? node->meta.name : "?";
}

}  // namespace

bool stages_in(const Job& job) { return job.state == JobState::kStarting && !job.spec->stage_in.empty(); }

bool holds_script_back(const Job& job) {
  if (!stages_in(job) || !runs_script(*job.spec))
    return false;
  const std::vector<Grant>& grants = job.allocation->grants;
  for (std::size_t i = 0; i < job.members.size(); ++i)
    if (grants[i].node != grants.front().node && job.members[i] == MemberState::kAssigned)
      return true;
  return false;
}

void on_staged_in(Txn& txn, const Job& before, NodeId node) {
  if (!stages_in(before) || !runs_script(*before.spec) || before.allocation->grants.front().node != node)
    return;
  Job job = before;
  job.staged = true;
  const Ref<Job> now_there = txn.put(std::move(job));
  release_script(txn, *now_there);
}

void release_script(Txn& txn, const Job& job) {
  if (!job.staged || !stages_in(job))
    return;
  const NodeId first = job.allocation->grants.front().node;
  const Seats& seats = txn.inner().seats_of(job);
  // Every node of a wide job comes by here: the few that are left to come are counted, and only then looked at.
  if (seats.assigned() <= seats.on(first).size() && !holds_script_back(job))
    txn.act(first, job, StartAttempt{});
}

void stage_in_failed(Txn& txn, const Job& before, NodeId node, const std::string& why) {
  if (before.state == JobState::kCompleting)
    return;
  const std::string said = format("{}{}: {}", kStageInFailed, name_of_node(txn, node),
                                  without_control_characters(why.substr(kStageInFailed.size()), kWhyMost));
  txn.event(before, "LaunchFailed", said);
  Job job = before;
  job.exit = {1, 0, false};
  end_attempt(txn, std::move(job), {.state = JobState::kFailed, .reason = said});
}

void note_staging_trouble(Txn& txn, JobId id, NodeId node, const std::string& why) {
  const Ref<Job> before = txn.job(id);
  if (!before || before->state != JobState::kCompleting)
    return;
  const std::string said =
      format("{} {}: {}", kStageOutFailed, name_of_node(txn, node), without_control_characters(why, kWhyMost));
  txn.event(*before, "StageOutFailed", said);
  if (before->end_reason.size() + said.size() > kReasonMost)
    return;
  Job job = *before;
  job.end_reason = job.end_reason.empty() ? said : format("{} {}", job.end_reason, said);
  txn.put(std::move(job));
}

void checkpoint_seen(Txn& txn, const Job& job, Instant at) {
  if (job.state == JobState::kRunning || job.state == JobState::kSuspended)
    note_checkpoint(txn, job, std::max({at, job.started, job.checkpointed}));
}

Duration staging_in_most(const Job& job) { return job.spec->stage_in.empty() ? Duration{} : kStagingMost; }
Duration staging_out_most(const Job& job) { return job.spec->stage_out.empty() ? Duration{} : kStagingMost; }

}  // namespace lockstep
