#include "sim/client_checker.h"

#include "model/job.h"

namespace lockstep::sim {

void ClientChecker::answered(const std::string& what, Seq seq, Seq durable, Instant) {
  if (seq > durable)
    verdict_.fail(format("{} was acknowledged with change {}, but only {} is durable", what, seq, durable));
}

void ClientChecker::submitted(JobId job, const std::string& name, Instant now) {
  if (verdict_.noting)
    verdict_.note(now, format("client: {} is job {}", name, job.value));
  const auto [it, fresh] = submitted_.emplace(job, name);
  if (!fresh)
    verdict_.fail(format("job id {} was given to {} and again to {}", job.value, it->second, name));
}

void ClientChecker::saw(const Job& job) {
  const auto [it, fresh] = seen_.try_emplace(job.id);
  Seen& seen = it->second;
  if (fresh) {
    seen.name = job.spec->name;
    seen.uid = job.meta.uid;
  } else if (seen.uid != job.meta.uid) {
    verdict_.fail(format("job id {} names two jobs: {} and {}", job.id.value, seen.name, job.spec->name));
  }
  seen.state = job.state;
}

void ClientChecker::finish() {
  for (const auto& [id, name] : submitted_) {
    const auto it = seen_.find(id);
    if (it == seen_.end())
      verdict_.fail(format("job {} ({}) was acknowledged and is lost", id.value, name));
    else if (it->second.name != name)
      verdict_.fail(format("job {} was acknowledged as {} and is {}", id.value, name, it->second.name));
  }
  for (const JobId id : cancelled_) {
    const auto it = seen_.find(id);
    if (it != seen_.end() && !is_final(it->second.state) && !requeued_.contains(id))
      verdict_.fail(format("the cancel of job {} was acknowledged, yet it is not over", id.value));
  }
}

}  // namespace lockstep::sim
