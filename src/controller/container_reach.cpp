#include "controller/container_reach.h"

#include "base/text.h"
#include "model/job.h"
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

// Where it is and whose.
struct Reached {
  std::string node;
  std::uint32_t uid = 0;
  WorkId work;
};

Result<Reached> find_task(const Tables& tables, const ContainerAsk& ask) {
  const auto job = tables.jobs.find(ask.job);
  const auto task = tables.tasks.find({ask.job, ask.group, ask.index});
  const bool known = job != tables.jobs.end() && task != tables.tasks.end();
  if (!known && ask.ran_on.empty())
    return not_found(format("there is no task {}.{} of job {}", ask.group, ask.index, ask.job.value));
  Reached out;
  out.node = known ? node_of(tables, *job->second, *task->second) : ask.ran_on;
  const User* user = tables.user(known ? job->second->spec->user : ask.user);
  if (out.node.empty() || !user)
    return not_found(format("task {}.{} of job {} has not started on any node", ask.group, ask.index, ask.job.value));
  out.uid = user->uid;
  out.work = {ask.job, known ? task->second->attempt : ask.attempt,
              TaskPart{ask.group, ask.index, known ? task->second->incarnation : 1}};
  return out;
}

}  // namespace

Result<std::unique_ptr<Stream>> reach_container(const Tables& tables, LinkHub& links, const TicketOffice& tickets,
                                                const ContainerAsk& ask, Instant now) {
  const Reached to = TRY(find_task(tables, ask));
  StepTicket about;
  about.job = ask.job;
  about.attempt = to.work.attempt;
  about.step = kBatchStep;
  about.uid = to.uid;
  StepOpen open;
  open.ticket = tickets.issue(std::move(about), to.node, kStepContainer, now);
  open.ask = encode_container_ask({ask, text_of(to.work)});
  auto stream = links.open(to.node, open);
  if (!stream)
    return Error{Errc::kUnavailable, format("node {} is not connected at the moment", to.node), {}};
  return stream;
}

}  // namespace lockstep
