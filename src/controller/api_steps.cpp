// The API's requests about steps, and their input and output.
#include "base/text.h"
#include "controller/api.h"
#include "controller/request_names.h"
#include "controller/step_client.h"
#include "model/request_name.h"
#include "wire/codec.h"

namespace lockstep {

Result<CoreLoop::Submission> Api::read_step(const Visit& visit, JobId job) const {
  StepRequest request = TRY(decode_step_request(visit.http().body));
  if (request.environment.size() > settings_.environment_bytes_max)
    return Error{Errc::kExhausted, format("the environment is larger than {} bytes", settings_.environment_bytes_max),
                 "environment"};
  CoreLoop::Submission out;
  request.spec.environment.clear();
  if (!request.environment.empty()) {
    request.spec.environment = powers_.sha256_hex(request.environment);
    out.blobs.push_back({request.spec.environment, std::move(request.environment)});
  }
  set_client(request.spec, {std::string(visit.query("request")), visit.query("presence") == "1"});
  out.command = {visit.caller, CreateStep{job, std::make_shared<const StepSpec>(std::move(request.spec))}};
  return out;
}

namespace {

std::optional<StepNo> made_before(const LiveView& view, const Visit& visit, const Job& job) {
  return view.requests().find_step(visit.caller.user ? visit.caller.user : job.spec->user, job.id,
                                   visit.query("request"));
}

}  // namespace

void Api::create_step(Visit visit) {
  const Job* job = job_of(visit);
  if (!job)
    return;
  if (visit.http().query.contains("request") && !is_request_name(visit.query("request")))
    return visit.refuse(no_request_name());
  if (visit.query("wait") == "started")
    if (const auto room = world_.waiters.room(visit.payer); !room.ok())
      return visit.refuse(room.error());
  const JobId id = job->id;
  if (const auto known = made_before(world_.view, visit, *job))
    return step_created(std::move(visit), {id, *known});
  if (job->next_step >= settings_.limits.steps_max)
    return visit.refuse({Errc::kExhausted,
                         format("job {} has had {} steps, and every one of them is listed: start the rest in another "
                                "job, or several programs in one step",
                                id.value, job->next_step),
                         "steps"});
  if (visit.http().body.size() <= kReadAtOnce)
    return submit_step(visit, id, read_step(visit, id));
  aside(
      std::move(visit), [this, id](const Visit& v) { return read_step(v, id); },
      [this, id](Visit v, Result<CoreLoop::Submission> step) { submit_step(std::move(v), id, std::move(step)); });
}

void Api::submit_step(Visit visit, JobId id, Result<CoreLoop::Submission> step) {
  if (!step.ok())
    return visit.refuse(step.error());
  // It may have been made while this one was read aside.
  const Job* job = world_.view.tables().job(id);
  if (const auto known = job ? made_before(world_.view, visit, *job) : std::nullopt)
    return step_created(std::move(visit), {id, *known});
  const std::string name(visit.query("request"));
  const bool is_named = !name.empty();
  const std::pair<UserId, std::string> under_way{visit.caller.user, name_in_job(id, name)};
  if (const auto same = named_.find(under_way); is_named && same != named_.end()) {
    const auto held = std::make_shared<Visit>(std::move(visit));
    same->second.push_back([this, held, id](const Result<Answer>& answer) {
      answer.ok() ? step_created(std::move(*held), {id, answer->step}) : held->refuse(answer.error());
    });
    return;
  }
  auto load = take_load(visit, {&*step, 1});
  if (!load.ok())
    return visit.refuse(load.error());
  if (is_named)
    named_[under_way];
  world_.core.submit(std::move(step->command), std::move(step->blobs),
                     [this, visit = std::move(visit), id, load = std::move(*load), under_way,
                      is_named](Result<Answer> answer) mutable {
                       drop_load(*load);
                       auto again = is_named ? named_.extract(under_way) : decltype(named_)::node_type();
                       if (answer.ok())
                         step_created(std::move(visit), {id, answer->step});
                       else
                         visit.refuse(answer.error());
                       if (again)
                         for (const auto& same : again.mapped()) same(answer);
                     });
}

void Api::step_created(Visit visit, StepKey step) {
  if (visit.query("wait") != "started")
    return visit.answer(encode_step_created(step.second));
  // A step nobody waits for any more must not start later. An agent that goes takes its clients' requests along, but
  // not the clients: they ask again, or their patience ends.
  const auto gone = [this, step, node = visit.node(), is_patient = visit.query("presence") == "1"] {
    world_.loop.post([this, step, node, is_patient] {
      if (is_patient && !node.empty() && !world_.links.has(node))
        return;
      world_.core.submit({{UserId{}, true}, SignalStep{step.first, step.second, 0}}, {}, [](const Result<Answer>&) {});
    });
  };
  auto here = client_of(visit, step);
  wait_started(std::move(visit), step.first, step.second, std::move(here), gone);
}

std::shared_ptr<void> Api::client_of(const Visit& visit, StepKey step) {
  return std::make_shared<std::pair<std::shared_ptr<void>, std::shared_ptr<void>>>(
      world_.presence.enter(Presence::whole(step.first), visit.node()), world_.step_presence.enter(step, visit.node()));
}

// In slices over the tables as they are then: a million references to steps would take too long to gather.
void Api::get_step(Visit visit) {
  if (const Step* step = step_of(visit))
    if (const auto shown = shown_to(visit.viewer(), Record(world_.view.tables().steps.at({step->job, step->number}))))
      visit.answer(encode_record(*shown));
}

void Api::signal_step(Visit visit) {
  const Step* step = step_of(visit);
  if (!step)
    return;
  auto body = decode_signal_step(visit.http().body);
  if (!body.ok())
    return visit.refuse(body.error());
  body->job = step->job;
  body->step = step->number;
  command(std::move(visit), std::move(*body));
}

void Api::step_stream(Visit visit) {
  const Step* step = step_of(visit);
  if (!step)
    return;
  if (!visit.caller.admin &&
      visit.caller.user != step->user)  // an administrator's step in somebody's job is not for that user's eyes
    return visit.refuse(denied(format("step {} belongs to somebody else", visit.names[0])));
  constexpr std::string_view kProtocol = "lockstep-stepio/1";
  const auto asked = visit.http().headers.find("upgrade");
  if (asked == visit.http().headers.end() || asked->second != kProtocol)
    return visit.refuse(invalid(format("this is a stream: ask for an upgrade to {}", kProtocol)), 426);
  const StepKey key{step->job, step->number};
  StepIo::Ask ask;
  if (const auto words = visit.query("verbs"); !words.empty()) {
    const auto verbs = parse_step_verbs(words);
    if (!verbs.ok())
      return visit.refuse(verbs.error());
    ask.verbs = *verbs;
  }
  ask.direct = visit.query("direct") == "1" && visit.http().peer.how == Peer::How::kForwarded;
  auto stream = visit.exchange->upgrade(std::string(kProtocol));
  if (stream)
    // An onlooker keeps no step alive.
    world_.step_io.attach(std::move(stream), key, ask, visit.query("onlooker") == "1" ? nullptr : client_of(visit, key),
                          std::to_string(visit.caller.user.value));
}

}  // namespace lockstep
