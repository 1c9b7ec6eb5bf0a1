// The API's requests that change jobs.
#include "base/text.h"
#include "controller/api.h"
#include "views/job_names.h"
#include "wire/codec.h"

namespace lockstep {

namespace {

Result<void> check_script(const std::string& script, std::size_t bytes_max) {
  if (script.size() > bytes_max)
    return Error{Errc::kExhausted,
                 format("the batch script has {} bytes; at most {} are taken: put data into files and let the script "
                        "read them",
                        script.size(), bytes_max),
                 "script"};
  if (script.empty())
    return invalid("the batch script is empty", "script");
  if (script.find('\0') != std::string::npos)
    return invalid("the batch script contains a NULL character: it is a binary file, not a script", "script");
  if (!script.starts_with("#!"))
    return invalid(
        "This does not look like a batch script.  The first line must start with #! followed by the path to an "
        "interpreter.  For instance: #!/bin/sh",
        "script");
  const auto line_end = script.find('\n');
  if (line_end != std::string::npos && script[line_end - 1] == '\r')
    return invalid("Batch script contains DOS line breaks (\\r\\n) instead of expected UNIX line breaks (\\n).",
                   "script");
  return {};
}

bool wants_script(const JobSpec& spec) {
  return std::any_of(spec.groups.begin(), spec.groups.end(),
                     [](const GroupSpec& group) { return group.launch == Launch::kScript; });
}

}  // namespace

int Api::status_of_submission(const Error& error) {
  return error.code == Errc::kExhausted && error.field == "script" ? 413 : 0;
}

Result<void> Api::can_become(UserId id) const {
  const auto& users = world_.view.tables().users;
  const auto found = users.find(id);
  const bool ours = found != users.end() && found->second->realm == "local" && found->second->uid == settings_.only_uid;
  if (!settings_.only_uid || ours)
    return {};
  return denied(
      format("this cluster was started by user {}, not by root: it runs that user's jobs only. Start one of your "
             "own with: lockstep up",
             *settings_.only_uid));
}

Result<CoreLoop::Submission> Api::prepare(const Visit& visit, SubmitRequest request) const {
  JobSpec spec = std::move(request.spec);
  if (!visit.caller.admin || !spec.user)
    spec.user = visit.caller.user;
  if (!spec.user)
    return invalid("names no user to run as", "spec.user");
  TRY(can_become(spec.user));
  CoreLoop::Submission out;
  const auto blob = [&](std::string bytes) -> BlobId {
    if (bytes.empty())
      return {};
    BlobId id = powers_.sha256_hex(bytes);
    out.blobs.push_back({id, std::move(bytes)});
    return id;
  };
  // Blobs are named by what was sent along, never by the caller: an id would open somebody else's script.
  spec.script.clear();
  if (wants_script(spec)) {
    TRY(check_script(request.script, settings_.script_bytes_max));
    spec.script = blob(std::move(request.script));
  }
  if (request.environment.size() > settings_.environment_bytes_max ||
      request.first_step_environment.size() > settings_.environment_bytes_max)
    return Error{Errc::kExhausted, format("the environment is larger than {} bytes", settings_.environment_bytes_max),
                 "environment"};
  spec.environment = blob(std::move(request.environment));
  SubmitJob submit;
  if (request.first_step) {
    request.first_step->environment = blob(std::move(request.first_step_environment));
    submit.first_step = std::make_shared<const StepSpec>(std::move(*request.first_step));
  }
  submit.spec = std::make_shared<const JobSpec>(std::move(spec));
  submit.array = std::move(request.array);
  out.command = {visit.caller, std::move(submit)};
  return out;
}

void Api::submit(Visit visit) {
  auto body = decode_submit_body(visit.http().body);
  if (!body.ok())
    return visit.refuse(body.error());
  if (!body->is_list) {
    if (body->requests.size() != 1)
      return visit.refuse(invalid("holds no request"));
    if (!body->requests[0].ok())
      return visit.refuse(body->requests[0].error());
    return submit_one(std::move(visit), std::move(*body->requests[0]));
  }
  if (body->requests.size() > settings_.submissions_max)
    return visit.refuse({Errc::kExhausted, format("at most {} jobs in one request", settings_.submissions_max), {}});

  std::vector<CoreLoop::Submission> good;
  auto results = std::make_shared<std::vector<Result<JobId>>>();
  std::vector<std::size_t> places;
  for (auto& request : body->requests) {
    auto prepared = request.ok() ? prepare(visit, std::move(*request)) : Result<CoreLoop::Submission>(request.error());
    if (prepared.ok()) {
      places.push_back(results->size());
      results->push_back(JobId{});
      good.push_back(std::move(*prepared));
    } else {
      results->push_back(prepared.error());
    }
  }
  if (good.empty())
    return visit.answer(encode_submitted(*results));
  world_.core.submit_all(std::move(good), [visit = std::move(visit), results,
                                           places = std::move(places)](std::vector<Result<Answer>> answers) {
    for (std::size_t i = 0; i < answers.size(); ++i)
      (*results)[places[i]] = answers[i].ok() ? Result<JobId>(answers[i]->job) : Result<JobId>(answers[i].error());
    visit.answer(encode_submitted(*results));
  });
}

void Api::submit_one(Visit visit, SubmitRequest request) {
  if (request.test_only)
    return try_submit(std::move(visit), std::move(request));
  const bool has_step = request.first_step.has_value(), interactive = request.spec.interactive;
  auto prepared = prepare(visit, std::move(request));
  if (!prepared.ok())
    return visit.refuse(prepared.error(), status_of_submission(prepared.error()));
  world_.core.submit(std::move(prepared->command), std::move(prepared->blobs),
                     [this, visit = std::move(visit), has_step, interactive](Result<Answer> answer) mutable {
                       if (!answer.ok())
                         return visit.refuse(answer.error());
                       const JobId job = answer->job;
                       if (visit.query("wait") != "started")
                         return visit.answer(encode_submitted(job));
                       wait_started(std::move(visit), job, has_step ? 0 : -100,
                                    interactive ? world_.presence.enter(job) : nullptr);
                     });
}

void Api::hold_job(Visit visit) {
  auto target = parse_job_target(visit.names[0]);
  auto body = decode_hold(visit.http().body);
  if (!target.ok() || !body.ok())
    return visit.refuse(target.ok() ? body.error() : target.error());
  body->target = std::move(*target);
  command(std::move(visit), std::move(*body));
}

void Api::release_job(Visit visit) {
  auto target = parse_job_target(visit.names[0]);
  if (!target.ok())
    return visit.refuse(target.error());
  command(std::move(visit), ReleaseJob{std::move(*target)});
}

void Api::suspend_job(Visit visit) {
  auto target = parse_job_target(visit.names[0]);
  if (!target.ok())
    return visit.refuse(target.error());
  command(std::move(visit), SuspendJob{std::move(*target)});
}

void Api::resume_job(Visit visit) {
  auto target = parse_job_target(visit.names[0]);
  if (!target.ok())
    return visit.refuse(target.error());
  command(std::move(visit), ResumeJob{std::move(*target)});
}

void Api::checkpoint_job(Visit visit) {
  if (const Job* job = job_of(visit)) {
    const JobId id = job->id;
    command(std::move(visit), MarkCheckpoint{id});
  }
}

void Api::requeue_job(Visit visit) {
  auto target = parse_job_target(visit.names[0]);
  auto body = decode_requeue(visit.http().body);
  if (!target.ok() || !body.ok())
    return visit.refuse(target.ok() ? body.error() : target.error());
  body->target = std::move(*target);
  command(std::move(visit), std::move(*body));
}

void Api::update_job(Visit visit) {
  auto target = parse_job_target(visit.names[0]);
  auto body = decode_update_job(visit.http().body);
  if (!target.ok() || !body.ok())
    return visit.refuse(target.ok() ? body.error() : target.error());
  body->target = std::move(*target);
  command(std::move(visit), std::move(*body));
}

void Api::end_job(Visit visit) {
  const Job* job = job_of(visit);
  if (!job)
    return;
  auto body = decode_end(visit.http().body);
  if (!body.ok())
    return visit.refuse(body.error());
  body->job = job->id;
  command(std::move(visit), std::move(*body));
}

}  // namespace lockstep
