#include "sim/health_checker.h"

#include <algorithm>

#include "base/text.h"
#include "model/job.h"
#include "model/node.h"
#include "model/records.h"
#include "model/ref_map.h"
#include "model/spec.h"

namespace lockstep::sim {

void HealthChecker::saw(std::span<const Change> changes) {
  for (const Change& change : changes) {
    const auto* job = std::get_if<Ref<Job>>(&change.record);
    const auto* node = std::get_if<Ref<Node>>(&change.record);
    if (job && !change.removed && !(*job)->spec->health_check.empty())
      run_changed(tables_.job((*job)->id), **job);
    if (node && !change.removed)
      if (const Node* before = tables_.node((*node)->id))
        node_changed(*before, **node);
    tables_.apply(change);
  }
  for (const JobId run : untold_)
    verdict_.fail(format("run {} of a health check ended, and its node does not say how", run.value));
  untold_.clear();
}

void HealthChecker::run_changed(const Job* before, const Job& after) {
  const std::string words = format("run {} of check {}", after.id.value, after.spec->health_check);
  if (after.state == JobState::kPending && before && before->state != JobState::kPending)
    verdict_.fail(words + " waits for a second start");
  if (after.state == JobState::kStarting && (!before || before->state == JobState::kPending)) {
    ++runs_;
    for (const auto& [id, other] : tables_.jobs)
      if (id != after.id && other->allocation && after.allocation &&
          std::any_of(other->allocation->grants.begin(), other->allocation->grants.end(),
                      [&](const Grant& g) { return g.node == after.allocation->grants.front().node; }))
        verdict_.fail(format("{} starts where job {} is", words, id.value));
  }
  const bool tells = after.state == JobState::kCompleted || (after.state == JobState::kFailed && !after.exit.ok());
  if (!tells || !before || !before->allocation)
    return;
  const HealthCheck* check = find_ref(tables_.health_checks, after.spec->health_check.get());
  const Node* node = tables_.node(before->allocation->grants.front().node);
  if (check && node && checks_node(*check, *node))
    untold_.insert(after.id);
}

void HealthChecker::node_changed(const Node& before, const Node& after) {
  if (before.drain && !after.drain && before.health != after.health)
    verdict_.fail(format("a health check opens {}, which an administrator drained", after.meta.name));
  for (const HealthFinding& finding : after.health) {
    const HealthFinding* last = finding_of(before, finding.check);
    if (finding.job && (!last || last->job != finding.job))
      found(after, finding);
  }
}

// What a run has come to, as its node says in the change that says it first.
void HealthChecker::found(const Node& node, const HealthFinding& finding) {
  untold_.erase(finding.job);
  const Job* run = tables_.job(finding.job);
  const std::string words = format("run {} of check {} on {}", finding.job.value, finding.check, node.meta.name);
  if (!run || !is_final(run->state)) {
    verdict_.fail(words + " has not ended, and its node says how it did");
    return;
  }
  const bool passed = run->state == JobState::kCompleted;
  if (passed != (finding.verdict == HealthVerdict::kHealthy))
    verdict_.fail(format("{} {}, and its node says otherwise", words, passed ? "passed" : "failed"));
  else if (finding.closes != (finding.verdict == HealthVerdict::kBad))
    verdict_.fail(words + " found it bad, and the node takes work");
  closings_ += finding.closes;
}

}  // namespace lockstep::sim
