// The API's requests about steps, and their input and output.
#include "base/text.h"
#include "controller/api.h"
#include "wire/codec.h"

namespace lockstep {

void Api::create_step(Visit visit) {
  const Job* job = job_of(visit);
  if (!job)
    return;
  auto request = decode_step_request(visit.http().body);
  if (!request.ok())
    return visit.refuse(request.error());
  if (request->environment.size() > settings_.environment_bytes_max)
    return visit.refuse({Errc::kExhausted,
                         format("the environment is larger than {} bytes", settings_.environment_bytes_max),
                         "environment"});
  std::vector<Blob> blobs;
  request->spec.environment.clear();
  if (!request->environment.empty()) {
    request->spec.environment = powers_.sha256_hex(request->environment);
    blobs.push_back({request->spec.environment, std::move(request->environment)});
  }
  const JobId id = job->id;
  const bool interactive = job->spec->interactive;
  const Caller caller = visit.caller;
  world_.core.submit(
      {caller, CreateStep{id, std::make_shared<const StepSpec>(std::move(request->spec))}}, std::move(blobs),
      [this, visit = std::move(visit), id, interactive](Result<Answer> answer) mutable {
        if (!answer.ok())
          return visit.refuse(answer.error());
        const StepNo step = answer->step;
        if (visit.query("wait") != "started")
          return visit.answer(encode_step_created(step));
        // A step nobody waits for any more must not start later.
        const auto gone = [this, id, step] {
          world_.core.submit({{UserId{}, true}, SignalStep{id, step, 0}}, {}, [](const Result<Answer>&) {});
        };
        wait_started(std::move(visit), id, step, interactive ? world_.presence.enter(id) : nullptr, gone);
      });
}

void Api::list_steps(Visit visit) {
  std::vector<Record> records;
  for (const auto& [key, step] : world_.view.tables().steps) records.emplace_back(step);
  visit.answer(encode_records(Kind::kStep, records));
}

void Api::get_step(Visit visit) {
  if (const Step* step = step_of(visit))
    visit.answer(encode_record(world_.view.tables().steps.at({step->job, step->number})));
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
  if (!may_see(visit, step->user))
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
    world_.step_io.attach(std::move(stream), key, ask, world_.presence.enter(key.first));
}

}  // namespace lockstep
