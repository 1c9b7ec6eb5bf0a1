// scancel: ends jobs, or signals them. Unknown and finished jobs are silent, as Slurm's are, unless -v is given.
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <unordered_set>

#include "base/hostlist.h"
#include "base/text.h"
#include "frontends/slurm/client/api.h"
#include "frontends/slurm/client/command_options.h"
#include "frontends/slurm/client/context.h"
#include "frontends/slurm/client/invocation.h"
#include "frontends/slurm/client/own_job.h"
#include "frontends/slurm/client/query_call.h"
#include "frontends/slurm/client/scancel_ask.h"
#include "frontends/slurm/client/values.h"
#include "model/job.h"

namespace lockstep::slurm {

namespace {

std::string shown(const ScancelTarget& target) {
  return target.step ? format("{}.{}", target.job, target.step_text) : target.job;
}

// Whether the failure counts. That a job which is to end is not there, or is ending already, does not; an element that
// its array never had is a slip of the pen.
bool counts(const ScancelAsk& ask, const std::string& target, const Error& error) {
  if (error.code == Errc::kNotFound)
    return ask.must_exist() || target.find('_') != std::string::npos;
  if (error.code == Errc::kConflict)
    return ask.must_exist() && error.field == "ended";
  return true;
}

// False for a failure that counts.
bool tell(const Voice& voice, const ScancelAsk& ask, const std::string& target, const Error& error) {
  const bool bad = counts(ask, target, error);
  if (ask.quiet || (!bad && !ask.verbose))
    return !bad;
  const bool is_gone = error.code == Errc::kNotFound || (bad && error.code == Errc::kConflict);
  const std::string_view words = is_gone                         ? "Invalid job id specified"
                                 : error.code == Errc::kConflict ? "Job/step already completing or completed"
                                 : error.code == Errc::kDenied   ? "Access/permission denied"
                                                                 : std::string_view(error.message);
  voice.error(format("Kill job error on job id {}: {}", target, words));
  return !bad;
}

// A step that is not there, or whose job is not, or not any more: not silent, as one that ended in a job that runs is.
bool tell_no_step(const Voice& voice, const ScancelAsk& ask, const ScancelTarget& target) {
  if (!ask.quiet)
    voice.error(format("Kill job error on job step id {}: Invalid job id specified", shown(target)));
  return false;
}

bool cancel_step(Api& api, const Voice& voice, const ScancelAsk& ask, const ScancelTarget& target) {
  Result<void> done;
  if (*target.step == kBatchStep) {
    done = api.cancel(target.job, ask.signal ? ask.signal : 9, SignalReach::kScript);
    if (!done && (done.error().code == Errc::kNotFound || done.error().field == "ended"))
      return tell_no_step(voice, ask, target);
  } else {
    const auto job = api.job_named(target.job);
    if (job ? is_final((*job)->state) : job.error().code == Errc::kNotFound)
      return tell_no_step(voice, ask, target);
    done = job ? api.signal_step((*job)->id, *target.step, ask.signal) : Result<void>(job.error());
    if (!done && done.error().code == Errc::kNotFound)
      return tell_no_step(voice, ask, target);
  }
  if (!done &&
      say_unreached(voice, format("scancel: error: Kill job error on job step id {}", shown(target)), done.error()))
    return false;
  return done || tell(voice, ask, shown(target), done.error());
}

// Jobs that are named are told of by name; those of a filter Slurm looks up first.
std::string unreached_of(const CancelMany& request) {
  return request.targets.empty() ? "slurm_load_jobs error"
                                 : format("scancel: error: Kill job error on job id {}", join(request.targets, ","));
}

// False after a failure that counts.
bool cancel_jobs(Api& api, const Voice& voice, const ScancelAsk& ask, const CancelMany& request) {
  const auto answer = api.cancel_many(request);
  if (!answer) {
    if (answer.error().field == "users")
      voice.error(answer.error().message);
    else if (!ask.quiet && !say_unreached(voice, unreached_of(request), answer.error()))
      voice.error(format("Kill job error: {}", answer.error().message));
    return false;
  }
  bool good = true;
  for (const auto& failure : answer->failed)
    if (!request.targets.empty() || failure.error.field != "ended")  // what a filter found may have ended since
      good = tell(voice, ask, failure.target, failure.error) && good;
  return good;
}

// Jobs and steps that are named, one by one or after they were looked up.
bool cancel_named(Api& api, const Voice& voice, const ScancelAsk& ask, const std::vector<ScancelTarget>& targets) {
  bool good = true;
  CancelMany request;
  request.signal = ask.signal;
  request.reach = ask.reach();
  for (const auto& target : targets) {
    if (ask.verbose)
      voice.info(ask.signal ? format("Signal {} to {} {}", ask.signal, target.step ? "step" : "job", shown(target))
                            : format("Terminating {} {}", target.step ? "step" : "job", shown(target)));
    if (target.step)
      good = cancel_step(api, voice, ask, target) && good;
    else
      request.targets.push_back(target.job);
  }
  return (request.targets.empty() || cancel_jobs(api, voice, ask, request)) && good;
}

bool agreed(const Job& job, const ScancelTarget& target) {
  const std::string& partition = job.allocation                 ? job.allocation->partition
                                 : job.spec->partitions.empty() ? std::string()
                                                                : job.spec->partitions.front();
  const std::string what =
      target.step ? format("step_id={}.{}", target.job, target.step_text) : format("job_id={}", target.job);
  say(format("Cancel {} name={} partition={} [y/n]? ", what, job.spec->name, partition));
  char answer[64];
  std::size_t length = 0;
  char c = 0;
  while (::read(STDIN_FILENO, &c, 1) == 1 && c != '\n')
    if (length < sizeof answer)
      answer[length++] = c;
  return length > 0 && (answer[0] == 'y' || answer[0] == 'Y');
}

// Replaces the targets by the jobs that are there and match. False after a failure that counts.
Result<bool> look_up(Api& api, const Voice& voice, ScancelAsk& ask, std::vector<ScancelTarget>& targets) {
  if (ask.me || !ask.users.empty())
    TRY(ask.choose_users(TRY(api.users()), ::getuid()));
  const auto jobs = api.jobs("state=pending,starting,running,suspended,completing");
  if (!jobs)
    return jobs.error();
  std::vector<NodeId> chosen_nodes;
  const std::unordered_set<std::string_view> named(ask.nodes.begin(), ask.nodes.end());
  if (!named.empty())
    for (const auto& node : TRY(api.nodes()))
      if (named.contains(node->meta.name))
        chosen_nodes.push_back(node->id);
  bool good = true;
  for (const ScancelTarget& target : targets)
    if (ask.must_exist() && ask.choose(*jobs, {target}, chosen_nodes).empty())
      good = target.step ? tell_no_step(voice, ask, target) : tell(voice, ask, shown(target), not_found("no such job"));
  targets = ask.choose(*jobs, targets, chosen_nodes);
  return good;
}

Result<void> set_signal(ScancelAsk& ask, const std::string& text) {
  const auto signal = parse_signal(text);
  if (!signal)
    return invalid(format("Unknown job signal: {}", text));
  ask.signal = *signal;
  ask.signal_given = true;
  return {};
}

template <std::vector<std::string> ScancelAsk::*kNames>
Result<void> set_names(ScancelAsk& ask, const std::string& text) {
  ask.*kNames = scancel_names(text);
  return {};
}

Result<void> set_states(ScancelAsk& ask, const std::string& text) { return ask.set_states(text); }

Result<void> set_nodes(ScancelAsk& ask, const std::string& text) {
  auto names = expand_hostlist(text);
  if (!names || names->empty())
    return invalid(format("Invalid node list: {}", text));
  ask.nodes = std::move(*names);
  return {};
}

// clang-format off
constexpr CommandOption<ScancelAsk> kOptions[] = {
  // letter, names, takes, value, help, what it sets
  {'A', "account", Takes::kValue, "NAME", "only jobs of this account", set_names<&ScancelAsk::accounts>},
  {'b', "batch", Takes::kNothing, "", "signal the batch script only", &ScancelAsk::batch},
  {'f', "full", Takes::kNothing, "", "signal the batch script and all steps", &ScancelAsk::full},
  {'i', "interactive", Takes::kNothing, "", "ask before each job", &ScancelAsk::interactive},
  {'M', "clusters", Takes::kValue, "NAMES", "must name this cluster, or all", &ScancelAsk::clusters},
  {0, "me", Takes::kNothing, "", "only my jobs", &ScancelAsk::me},
  {'n', "name jobname", Takes::kValue, "NAMES", "only jobs of these names", set_names<&ScancelAsk::names>},
  {'p', "partition", Takes::kValue, "NAMES", "only jobs in these partitions", set_names<&ScancelAsk::partitions>},
  {'q', "qos", Takes::kValue, "NAME", "only jobs of this quality of service", set_names<&ScancelAsk::qos>},
  {'Q', "quiet", Takes::kNothing, "", "do not say what went wrong", &ScancelAsk::quiet},
  {'R', "reservation", Takes::kValue, "NAME", "only jobs of this reservation", set_names<&ScancelAsk::reservations>},
  {'s', "signal", Takes::kValue, "SIGNAL", "send a signal instead of ending the job", set_signal},
  {'t', "state", Takes::kValue, "STATE", "only PENDING, RUNNING or SUSPENDED jobs", set_states},
  {'u', "user", Takes::kValue, "NAMES", "only jobs of these users", set_names<&ScancelAsk::users>},
  {'v', "verbose", Takes::kNothing, "", "say more", &ScancelAsk::verbose},
  {'w', "nodelist", Takes::kValue, "NODES", "only jobs on any of these nodes", set_nodes},
  {0, "wckey", Takes::kValue, "KEY", "only jobs of this key", set_names<&ScancelAsk::wckeys>},
  {'V', "version", Takes::kNothing, "", "", Shows::kVersion},
  {0, "help", Takes::kNothing, "", "", Shows::kHelp},
  {0, "usage", Takes::kNothing, "", "", Shows::kUsage},
  {'c', "cron", Takes::kNothing, "", "", Refusal{"--cron is not supported yet"}},
  {0, "sibling", Takes::kValue, "", "", Refusal{"--sibling: federations are not supported yet"}},
  {'H', "hurry", Takes::kNothing, "", "", Nothing{}},
  {0, "ctld", Takes::kNothing, "", "", Nothing{}},
};
// clang-format on

constexpr CommandSyntax<ScancelAsk> kSyntax = {
    .head =
        "Usage: scancel [OPTIONS...] [JOB[_TASK][.STEP]...]\n"
        "\nExamples:\n"
        "  scancel 12                   end job 12\n"
        "  scancel 12_[3-9]             some tasks of an array\n"
        "  scancel 12.0                 one step\n"
        "  scancel --me -t PENDING      everything of mine that still waits\n"
        "  scancel -s USR1 -b 12        a signal to the batch script only\n"
        "\nOptions:\n",
    .usage = "Usage: scancel [OPTIONS...] [JOB[_TASK][.STEP]...]\n",
    .options = kOptions,
    .column = 31};

Result<std::vector<ScancelTarget>> targets_of(const std::vector<std::string>& words) {
  std::vector<ScancelTarget> targets;
  for (const std::string& word : words) {
    const auto read = TRY(parse_scancel_targets(word));
    targets.insert(targets.end(), read.begin(), read.end());
  }
  return targets;
}

// False after a failure that counts, which was said; an Error is still to be said.
Result<bool> cancel(Api& api, const Voice& voice, ScancelAsk& ask, std::vector<ScancelTarget> targets) {
  TRY(check_cluster_name(api, ask.clusters));
  if (targets.empty() && !ask.has_filter())
    return invalid("No job identification provided");
  if (ask.excludes_all())
    return true;
  const bool steps =
      std::any_of(targets.begin(), targets.end(), [](const ScancelTarget& target) { return target.step.has_value(); });
  if (ask.has_filter() && !ask.interactive && !ask.verbose && !steps)
    return cancel_jobs(api, voice, ask, ask.request(targets, ::getuid()));
  bool good = true;
  if (ask.has_filter() || ask.interactive)
    good = TRY(look_up(api, voice, ask, targets));
  if (ask.interactive)
    std::erase_if(targets,
                  [](const ScancelTarget& target) { return !target.record || !agreed(*target.record, target); });
  return cancel_named(api, voice, ask, targets) && good;
}

Result<bool> run(const ClientContext& context, const Voice& voice, ScancelAsk& ask,
                 const std::vector<std::string>& words) {
  TRY(ask.settle());
  std::vector<ScancelTarget> targets = TRY(targets_of(words));
  outlive_own_job();
  Api api(context);
  return cancel(api, voice, ask, std::move(targets));
}

}  // namespace

int scancel_main(const ClientContext& context, int argc, char** argv) {
  const Voice voice("scancel");
  ScancelAsk ask;
  ask.clusters = variable_or("SLURM_CLUSTERS");
  if (const auto read = ask.read_environment([](const char* name) { return ::getenv(name); }); !read) {
    voice.error(read.error().message);
    return 1;
  }
  const CommandWords line = read_options(kSyntax, argc, argv, voice, ask);
  if (line.exit_code)
    return *line.exit_code;
  const auto done = run(context, voice, ask, line.words);
  if (!done && !say_unreached(voice, "slurm_load_jobs error", done.error()))
    voice.error(done.error().message);
  return done && *done ? 0 : 1;
}

}  // namespace lockstep::slurm
