#include "controller/container_reach.h"

#include "base/text.h"
#include "model/work_id.h"
#include "wire/container_ask_text.h"

namespace lockstep {
namespace {

// Of a job that has ended, what it ran on is known by name.
std::string node_of(const Tables& tables, const Job& job, const Task& task) {
  if (job.allocation && task.grant < job.allocation->grants.size())
    if (const Node* node = tables.node(job.allocation->grants[task.grant].node))
      return node->meta.name;
  return job.ran_on.find(',') == std::string::npos ? std::string(job.ran_on) : std::string();
}

}  // namespace

Result<std::unique_ptr<Stream>> reach_container(const Tables& tables, LinkHub& links, const TicketOffice& tickets,
                                                const ContainerAsk& ask, Instant now) {
  const auto job = tables.jobs.find(ask.job);
  const auto task = tables.tasks.find({ask.job, ask.group, ask.index});
  if (job == tables.jobs.end() || task == tables.tasks.end())
    return not_found(format("there is no task {}.{} of job {}", ask.group, ask.index, ask.job.value));
  const std::string name = node_of(tables, *job->second, *task->second);
  const User* user = tables.user(job->second->spec->user);
  if (name.empty() || !user)
    return not_found(format("task {}.{} of job {} has not started on any node", ask.group, ask.index, ask.job.value));
  StepTicket about;
  about.job = ask.job;
  about.attempt = task->second->attempt;
  about.step = kBatchStep;
  about.uid = user->uid;
  const WorkId work{ask.job, task->second->attempt, TaskPart{ask.group, ask.index, task->second->incarnation}};
  StepOpen open;
  open.ticket = tickets.issue(std::move(about), name, kStepContainer, now);
  open.ask = encode_container_ask({ask, text_of(work)});
  auto stream = links.open(name, open);
  if (!stream)
    return Error{Errc::kUnavailable, format("node {} is not connected at the moment", name), {}};
  return stream;
}

}  // namespace lockstep
