// The API's requests that change jobs.
#include <set>

#include "base/text.h"
#include "controller/api.h"
#include "controller/past_ends.h"
#include "controller/step_client.h"
#include "foresight/reserved.h"
#include "model/request_name.h"
#include "model/script_flaw.h"
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
  switch (flaw_in_script(script)) {
    case ScriptFlaw::kNone: break;
    case ScriptFlaw::kEmpty: return invalid("the batch script is empty", "script");
    case ScriptFlaw::kBlank: return invalid("the batch script contains only blanks", "script");
    case ScriptFlaw::kNul:
      return invalid("the batch script contains a NULL character: it is a binary file, not a script", "script");
    case ScriptFlaw::kNoInterpreter:
      return invalid(
          "This does not look like a batch script.  The first line must start with #! followed by the path to an "
          "interpreter.  For instance: #!/bin/sh",
          "script");
    case ScriptFlaw::kDosLineEnds:
      return invalid("Batch script contains DOS line breaks (\\r\\n) instead of expected UNIX line breaks (\\n).",
                     "script");
  }
  return {};
}

// Nobody names a request but by the query.
void set_request_name(JobSpec& spec, std::string_view name) {
  auto labels = spec.labels.get();
  const std::size_t removed = std::erase_if(labels, [](const auto& label) { return label.first == kRequestLabel; });
  if (!name.empty())
    labels.insert(std::upper_bound(labels.begin(), labels.end(), std::pair{std::string(kRequestLabel), std::string()}),
                  {std::string(kRequestLabel), std::string(name)});
  if (removed > 0 || !name.empty())
    spec.labels = std::move(labels);
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

Result<CoreLoop::Submission> Api::prepare(const Visit& visit, SubmitRequest request, std::string_view name) const {
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
  set_request_name(spec, name);
  SubmitJob submit;
  if (request.first_step) {
    request.first_step->environment = blob(std::move(request.first_step_environment));
    set_client(*request.first_step, {});  // it is made with its job, under the job's name
    submit.first_step = std::make_shared<const StepSpec>(std::move(*request.first_step));
  }
  submit.spec = std::make_shared<const JobSpec>(std::move(spec));
  submit.array = std::move(request.array);
  out.command = {visit.caller, std::move(submit)};
  return out;
}

struct Api::List {
  std::string name;  // what its client calls it; "" = nothing
  std::vector<Result<CoreLoop::Submission>> each;
  std::vector<std::string> digests;  // of each, when it has a name
};

struct Api::Single {
  std::pair<UserId, std::string> name;  // its owner, and what its client calls it; "" = nothing
  std::string digest;                   // of its body, when it has a name
  bool waits = false, has_step = false, interactive = false;
  std::string warning = {};  // what its submitter is told beside the number
};

namespace {

void settle_dependencies(SubmitJob& submit, const PastEnds& ends) {
  if (submit.spec->dependencies.empty())
    return;
  auto spec = std::make_shared<JobSpec>(*submit.spec);
  std::vector<Dependency> left = spec->dependencies.get();
  settle_past(left, spec->dependency_any, ends);
  spec->dependencies = std::move(left);
  submit.spec = std::move(spec);
}

}  // namespace

// What a body asks for, parsed and checked as far as that takes no look at the cluster.
struct Api::Submissions {
  std::optional<Error> refused;                                                    // of the whole body
  bool is_list = false, test_only = false, has_step = false, interactive = false;  // all but the first: of a single one
  std::vector<Result<CoreLoop::Submission>> each;
  std::vector<std::string> digests;  // of each, when it has a name
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
    const std::string name(visit.query("request"));
    for (auto& request : body->requests) {
      if (request.ok() && !out.is_list) {
        out.test_only = request->test_only;
        out.has_step = request->first_step.has_value();
        out.interactive = request->spec.interactive;
      }
      std::string own = out.is_list && !name.empty() ? name_in_list(name, out.each.size()) : name;
      if (!name.empty() && request.ok()) {
        out.digests.resize(out.each.size());
        out.digests.push_back(body_digest(out.is_list ? encode(*request) : visit.http().body));
        own = name_with_body(own, out.digests.back());
      }
      out.each.push_back(request.ok() ? prepare(visit, std::move(*request), own)
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
  std::set<Prerequisite> past;
  for (const auto& one : all.each)
    if (one.ok())
      for (const Prerequisite& job :
           not_listed(world_.view.tables(), std::get<SubmitJob>(one->command.body).spec->dependencies.get()))
        past.insert(job);
  if (past.empty())
    return submit_settled(std::move(visit), std::move(all));
  if (past.size() > kPastEndsMost)
    return visit.refuse(Error{Errc::kExhausted,
                              format("Job dependency problem: {} jobs are named that are listed no more; {} are looked "
                                     "up in accounting for one request",
                                     past.size(), kPastEndsMost),
                              "dependencies"});
  const auto held = std::make_shared<Visit>(std::move(visit));
  const auto asked_for = std::make_shared<Submissions>(std::move(all));
  auto question = [this, held, asked_for, jobs = std::vector<Prerequisite>(past.begin(), past.end())](
                      HistoryStore& store, const Tables&) {
    auto ends = std::make_shared<Result<PastEnds>>(past_ends(store, jobs));
    world_.loop.post([this, v = std::move(*held), asked_for, ends]() mutable {
      const Payer payer = v.payer;
      world_.turns.add(payer, [this, v = std::move(v), asked_for, ends]() mutable {
        if (!ends->ok())
          return v.refuse(ends->error());
        for (auto& one : asked_for->each)
          if (one.ok())
            settle_dependencies(std::get<SubmitJob>(one->command.body), **ends);
        submit_settled(std::move(v), std::move(*asked_for));
      });
    });
  };
  if (const auto asked = world_.history.ask(held->payer, std::move(question)); !asked.ok())
    held->refuse(asked.error());
}

void Api::submit_settled(Visit visit, Submissions all) {
  for (auto& one : all.each)
    if (one.ok())
      if (const auto able = can_become(std::get<SubmitJob>(one->command.body).spec->user); !able.ok())
        one = able.error();
  const std::string name(visit.query("request"));
  const bool is_named = visit.http().query.contains("request");
  if (is_named && !is_request_name(name))
    return visit.refuse(no_request_name());
  if (all.is_list)
    return submit_list(std::move(visit), {name, std::move(all.each), std::move(all.digests)});
  auto& one = all.each.front();
  if (!one.ok())
    return visit.refuse(one.error(), status_of_submission(one.error()));
  if (all.test_only)
    return try_submit(std::move(visit), std::move(one->command));
  const UserId user = std::get<SubmitJob>(one->command.body).spec->user;
  const bool waits = visit.query("wait") == "started";
  submit_one(std::move(visit), std::move(*one),
             {{user, name}, name.empty() ? name : all.digests.front(), waits, all.has_step, all.interactive});
}

// A list is named by its places: those that the last controller committed are known, the rest is submitted.
void Api::submit_list(Visit visit, List list) {
  const std::pair<UserId, std::string> under_way{visit.caller.user, list.name + "."};
  const bool is_named = !list.name.empty();
  if (const auto same = named_.find(under_way); is_named && same != named_.end()) {
    const auto held = std::make_shared<std::pair<Visit, List>>(std::move(visit), std::move(list));
    same->second.push_back(
        [this, held](const Result<Answer>&) { submit_list(std::move(held->first), std::move(held->second)); });
    return;
  }
  std::vector<CoreLoop::Submission> good;
  auto results = std::make_shared<std::vector<Result<JobId>>>();
  std::vector<std::size_t> places;
  for (auto& one : list.each) {
    const std::size_t place = results->size();
    if (!one.ok()) {
      results->push_back(one.error());
      continue;
    }
    const UserId user = std::get<SubmitJob>(one->command.body).spec->user;
    const std::string own = name_in_list(list.name, place);
    const JobId known = is_named ? world_.view.requests().find(user, own) : JobId{};
    if (known && world_.view.requests().is_of_another(user, own, list.digests[place]))
      results->push_back(name_of_another(known));
    else
      results->push_back(known);
    if (known)
      continue;
    places.push_back(place);
    good.push_back(std::move(*one));
  }
  if (good.empty())
    return visit.answer(encode_submitted(*results));
  auto load = take_load(visit, good);
  if (!load.ok())
    return visit.refuse(load.error());
  if (is_named)
    named_[under_way];
  world_.core.submit_all(
      std::move(good), [this, visit = std::move(visit), results, places = std::move(places), load = std::move(*load),
                        under_way, is_named](std::vector<Result<Answer>> answers) {
        drop_load(*load);
        auto again = is_named ? named_.extract(under_way) : decltype(named_)::node_type();
        for (std::size_t i = 0; i < answers.size(); ++i)
          (*results)[places[i]] = answers[i].ok() ? Result<JobId>(answers[i]->job) : Result<JobId>(answers[i].error());
        visit.answer(encode_submitted(*results));
        if (again)
          for (const auto& same : again.mapped()) same(Answer{});
      });
}

void Api::submitted(Visit visit, const Result<Answer>& answer, const Single& how) {
  if (!answer.ok())
    return visit.refuse(answer.error());
  const JobId job = answer->job;
  if (!how.waits)
    return visit.answer(encode_submitted(job, how.warning));
  auto here = how.interactive ? world_.presence.enter(Presence::whole(job), visit.node()) : nullptr;
  wait_started(std::move(visit), job, how.has_step ? 0 : -100, std::move(here));
}

void Api::known_submission(Visit visit, JobId job, const Single& how) {
  if (world_.view.requests().is_of_another(how.name.first, how.name.second, how.digest))
    return visit.refuse(name_of_another(job));
  submitted(std::move(visit), Answer{.job = job}, how);
}

void Api::submit_one(Visit visit, CoreLoop::Submission submission, Single how) {
  if (how.waits)
    if (const auto room = world_.waiters.room(visit.payer); !room.ok())
      return visit.refuse(room.error());
  const bool is_named = !how.name.second.empty();
  if (const JobId known = is_named ? world_.view.requests().find(how.name.first, how.name.second) : JobId{})
    return known_submission(std::move(visit), known, how);
  if (const auto same = named_.find(how.name); is_named && same != named_.end()) {
    const auto held = std::make_shared<Visit>(std::move(visit));
    same->second.push_back([this, held, how](const Result<Answer>& answer) {
      answer.ok() ? known_submission(std::move(*held), answer->job, how) : held->refuse(answer.error());
    });
    return;
  }
  auto load = take_load(visit, {&submission, 1});
  if (!load.ok())
    return visit.refuse(load.error());
  if (const auto* job = std::get_if<SubmitJob>(&submission.command.body))
    how.warning = shut_out_for_good(world_.view.tables(), *job->spec);
  if (is_named)
    named_[how.name];
  world_.core.submit(
      std::move(submission.command), std::move(submission.blobs),
      [this, visit = std::move(visit), how, is_named, load = std::move(*load)](Result<Answer> answer) mutable {
        drop_load(*load);
        auto again = is_named ? named_.extract(how.name) : decltype(named_)::node_type();
        submitted(std::move(visit), answer, how);
        if (again)
          for (const auto& same : again.mapped()) same(answer);
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
  decoded(
      std::move(visit), [](const std::string& body) { return decode_update_job(body); },
      [this](Visit v, Result<UpdateJob> body) { update_read(std::move(v), std::move(body)); });
}

void Api::update_read(Visit visit, Result<UpdateJob> body) {
  auto target = parse_job_target(visit.names[0]);
  if (!target.ok() || !body.ok())
    return visit.refuse(target.ok() ? body.error() : target.error());
  body->target = std::move(*target);
  auto load = take_update(visit, visit.http().body.size());
  if (!load.ok())
    return visit.refuse(load.error());
  const Caller caller = visit.caller;
  world_.core.submit({caller, std::move(*body)}, {},
                     [this, visit = std::move(visit), load = std::move(*load)](Result<Answer> answer) {
                       drop_load(*load);
                       if (answer.ok())
                         visit.answer("{}");
                       else
                         visit.refuse(answer.error());
                     });
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
