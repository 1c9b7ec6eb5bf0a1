// The API's requests about images that nodes hand each other.
#include "base/text.h"
#include "controller/api.h"
#include "controller/image_source.h"

namespace lockstep {

// Only whose job it is: what an administrator may see of a job is not what lies in its owner's folders.
void Api::answer_image_source(const Visit& visit, const Job& job, ImageAsk ask) {
  ask.node = visit.node();
  ask.hop = parse_uint(visit.query("hop")).value_or(0);
  if (ask.node.empty())
    return visit.refuse(invalid("images are handed from node to node: ask through the agent of one"));
  if (visit.caller.user != job.spec->user)
    return visit.refuse(not_found(format("no images of yours belong to job {}", job.id.value)));
  auto source = find_image_source(world_.view.tables(), world_.links, world_.tickets, job, ask, world_.clock.now());
  if (!source.ok())
    return visit.refuse(source.error());
  visit.answer(encode(StepRoute{{std::move(*source)}}));
}

void Api::step_image_source(Visit visit) {
  const Step* step = step_of(visit);
  const Job* job = step ? world_.view.tables().job(step->job) : nullptr;
  if (job)
    answer_image_source(visit, *job, {.step = step->number, .node = {}});
  else if (step)
    visit.refuse(not_found(format("step {} has no job any more", visit.names[0])));
}

void Api::job_image_source(Visit visit) {
  if (const Job* job = job_of(visit))
    answer_image_source(
        visit, *job,
        {.step = {}, .group = static_cast<std::uint16_t>(parse_uint(visit.query("group")).value_or(0)), .node = {}});
}

}  // namespace lockstep
