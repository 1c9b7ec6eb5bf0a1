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

// What a body asks for, parsed and checked as far as that takes no look at the cluster.
struct Api::Submissions {
  std::optional<Error> refused;                                                    // of the whole body
  bool is_list = false, test_only = false, has_step = false, interactive = false;  // all but the first: of a single one
  std::vector<Result<CoreLoop::Submission>> each;
};

Api::Submissions Api::read_submissions(const Visit& visit) const {
  Submissions out;
  auto body = decode_submit_body(visit.http().body);
  if (!body.ok()) {
    out.refused = body.error();
  } else if (!body->is_list && body->requests.size() != 1) {
    out.refused = invalid("holds no request");
  } else if (body->requests.size() > settings_.submissions_max) {
    out.refused = Error{Errc::kExhausted, format("at most {} jobs in one request", settings_.submissions_max), {}};
  } else {
    out.is_list = body->is_list;
    for (auto& request : body->requests) {
      if (request.ok() && !out.is_list) {
        out.test_only = request->test_only;
        out.has_step = request->first_step.has_value();
        out.interactive = request->spec.interactive;
      }
      out.each.push_back(request.ok() ? prepare(visit, std::move(*request))
                                      : Result<CoreLoop::Submission>(request.error()));
    }
  }
  return out;
}

// Parsing and hashing a long body takes a while, which the I/O thread does not have.
void Api::submit(Visit visit) {
  if (visit.http().body.size() <= kReadAtOnce)
    return submit_read(visit, read_submissions(visit));
  aside(
      std::move(visit), [this](const Visit& v) { return read_submissions(v); },
      [this](Visit v, Submissions all) { submit_read(std::move(v), std::move(all)); });
}

void Api::submit_read(Visit visit, Submissions all) {
  if (all.refused)
    return visit.refuse(*all.refused);
  for (auto& one : all.each)
    if (one.ok())
      if (const auto able = can_become(std::get<SubmitJob>(one->command.body).spec->user); !able.ok())
        one = able.error();
  if (all.is_list)
    return submit_list(std::move(visit), std::move(all.each));
  auto& one = all.each.front();
  if (!one.ok())
    return visit.refuse(one.error(), status_of_submission(one.error()));
  if (all.test_only)
    return try_submit(std::move(visit), std::move(one->command));
  submit_one(std::move(visit), std::move(*one), all.has_step, all.interactive);
}

void Api::submit_list(Visit visit, std::vector<Result<CoreLoop::Submission>> each) {
  std::vector<CoreLoop::Submission> good;
  auto results = std::make_shared<std::vector<Result<JobId>>>();
  std::vector<std::size_t> places;
  for (auto& one : each) {
    if (one.ok()) {
      places.push_back(results->size());
      results->push_back(JobId{});
      good.push_back(std::move(*one));
    } else {
      results->push_back(one.error());
    }
  }
  if (good.empty())
    return visit.answer(encode_submitted(*results));
  auto load = take_load(visit, good);
  if (!load.ok())
    return visit.refuse(load.error());
  world_.core.submit_all(std::move(good), [this, visit = std::move(visit), results, places = std::move(places),
                                           load = std::move(*load)](std::vector<Result<Answer>> answers) {
    drop_load(*load);
    for (std::size_t i = 0; i < answers.size(); ++i)
      (*results)[places[i]] = answers[i].ok() ? Result<JobId>(answers[i]->job) : Result<JobId>(answers[i].error());
    visit.answer(encode_submitted(*results));
  });
}

void Api::submit_one(Visit visit, CoreLoop::Submission submission, bool has_step, bool interactive) {
  const bool waits = visit.query("wait") == "started";
  if (waits)
    if (const auto room = world_.waiters.room(visit.payer); !room.ok())
      return visit.refuse(room.error());
  auto load = take_load(visit, {&submission, 1});
  if (!load.ok())
    return visit.refuse(load.error());
  world_.core.submit(std::move(submission.command), std::move(submission.blobs),
                     [this, visit = std::move(visit), waits, has_step, interactive,
                      load = std::move(*load)](Result<Answer> answer) mutable {
                       drop_load(*load);
                       if (!answer.ok())
                         return visit.refuse(answer.error());
                       const JobId job = answer->job;
                       if (!waits)
                         return visit.answer(encode_submitted(job));
                       auto here = interactive ? world_.presence.enter(job, visit.node()) : nullptr;
                       wait_started(std::move(visit), job, has_step ? 0 : -100, std::move(here));
                     });
}

struct Api::Load {
  UserId user;
  Holdings::Of of;
  std::vector<std::pair<BlobId, std::uint64_t>> blobs;  // each once
};

Result<std::shared_ptr<Api::Load>> Api::take_load(const Visit& visit, std::span<const CoreLoop::Submission> all) {
  auto load = std::make_shared<Load>();
  load->user = visit.caller.user;
  std::map<std::string_view, std::uint64_t> blobs;
  for (const auto& one : all) {
    if (const auto* job = std::get_if<SubmitJob>(&one.command.body)) {
      ++load->of.pending_jobs;
      load->user = job->spec->user;  // an administrator submits for others
    }
    for (const Blob& blob : one.blobs) blobs.emplace(blob.id, blob.bytes.size());
  }
  const Holdings& holdings = world_.view.holdings();
  for (const auto& [id, bytes] : blobs) {
    if (!holdings.has(load->user, BlobId(id)))
      load->of.stored_bytes += bytes;
    load->blobs.emplace_back(id, bytes);
  }
  Holdings::Of& coming = on_the_way_[load->user];
  const Holdings::Of held = holdings.of(load->user);
  const std::uint64_t jobs = held.pending_jobs + coming.pending_jobs, stored = held.stored_bytes + coming.stored_bytes;
  const ApiLimits& limits = settings_.limits;
  if (!visit.caller.admin && load->of.pending_jobs > 0 && jobs + load->of.pending_jobs > limits.pending_jobs_max)
    return Error{
        Errc::kExhausted,
        format("you have {} jobs waiting, and at most {} are taken from one user (an array counts once): submit "
               "the rest when some have started, or as an array",
               jobs, limits.pending_jobs_max),
        "pending_jobs"};
  if (!visit.caller.admin && load->of.stored_bytes > 0 && stored + load->of.stored_bytes > limits.stored_bytes_max)
    return Error{Errc::kExhausted,
                 format("scripts and environments of your jobs take {} MiB, and at most {} MiB are kept for one user: "
                        "put data into files and let the script read them, or wait until jobs have ended",
                        stored >> 20, limits.stored_bytes_max >> 20),
                 "stored_bytes"};
  coming.pending_jobs += load->of.pending_jobs;
  coming.stored_bytes += load->of.stored_bytes;
  return load;
}

void Api::drop_load(const Load& load) {
  // One that brought nothing new, a step whose environment is stored already, may arrive when the entry is gone.
  if (const auto coming = on_the_way_.find(load.user); coming != on_the_way_.end()) {
    coming->second.pending_jobs -= load.of.pending_jobs;
    coming->second.stored_bytes -= load.of.stored_bytes;
    if (coming->second.pending_jobs == 0 && coming->second.stored_bytes == 0)
      on_the_way_.erase(coming);
  }
  for (const auto& [blob, bytes] : load.blobs) world_.view.holdings().known(load.user, blob, bytes);
}

void Api::learn_lengths() {
  constexpr std::size_t kAtOnce = 32;
  auto unknown = world_.view.holdings().take_unknown(kAtOnce);
  if (unknown.empty())
    return;
  const auto left = std::make_shared<std::size_t>(unknown.size());
  for (const auto& [user, blob] : unknown)
    world_.read_blob(blob, [this, left, user = user, blob = blob](const Result<std::string>& bytes) {
      world_.view.holdings().known(user, blob, bytes.ok() ? bytes->size() : 0);
      if (--*left == 0)
        learn_lengths();
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
