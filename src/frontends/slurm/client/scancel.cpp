// scancel: ends jobs, or signals them. Unknown and finished jobs are silent, as Slurm's are, unless -v is given.
#include <getopt.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <unordered_set>

#include "base/hostlist.h"
#include "base/text.h"
#include "frontends/slurm/client/api.h"
#include "frontends/slurm/client/context.h"
#include "frontends/slurm/client/invocation.h"
#include "frontends/slurm/client/own_job.h"
#include "frontends/slurm/client/query_call.h"
#include "frontends/slurm/client/scancel_ask.h"
#include "frontends/slurm/client/values.h"
#include "model/job.h"

namespace lockstep {

namespace {

enum Long { kMe = 1000, kWckey, kCtld, kSibling, kHelp, kUsage, kAdminComment, kAutocomplete };

constexpr ::option kLongs[] = {{"account", required_argument, nullptr, 'A'},
                               {"batch", no_argument, nullptr, 'b'},
                               {"clusters", required_argument, nullptr, 'M'},
                               {"cron", no_argument, nullptr, 'c'},
                               {"ctld", no_argument, nullptr, kCtld},
                               {"full", no_argument, nullptr, 'f'},
                               {"help", no_argument, nullptr, kHelp},
                               {"hurry", no_argument, nullptr, 'H'},
                               {"interactive", no_argument, nullptr, 'i'},
                               {"jobname", required_argument, nullptr, 'n'},
                               {"me", no_argument, nullptr, kMe},
                               {"name", required_argument, nullptr, 'n'},
                               {"nodelist", required_argument, nullptr, 'w'},
                               {"partition", required_argument, nullptr, 'p'},
                               {"qos", required_argument, nullptr, 'q'},
                               {"quiet", no_argument, nullptr, 'Q'},
                               {"reservation", required_argument, nullptr, 'R'},
                               {"sibling", required_argument, nullptr, kSibling},
                               {"signal", required_argument, nullptr, 's'},
                               {"state", required_argument, nullptr, 't'},
                               {"usage", no_argument, nullptr, kUsage},
                               {"user", required_argument, nullptr, 'u'},
                               {"verbose", no_argument, nullptr, 'v'},
                               {"version", no_argument, nullptr, 'V'},
                               {"wckey", required_argument, nullptr, kWckey},
                               {nullptr, 0, nullptr, 0}};

constexpr std::string_view kUsageText = "Usage: scancel [OPTIONS...] [JOB[_TASK][.STEP]...]\n";
constexpr std::string_view kHelpText =
    "Usage: scancel [OPTIONS...] [JOB[_TASK][.STEP]...]\n"
    "\nExamples:\n"
    "  scancel 12                   end job 12\n"
    "  scancel 12_[3-9]             some tasks of an array\n"
    "  scancel 12.0                 one step\n"
    "  scancel --me -t PENDING      everything of mine that still waits\n"
    "  scancel -s USR1 -b 12        a signal to the batch script only\n"
    "\nOptions:\n"
    "  -A, --account=NAME           only jobs of this account\n"
    "  -b, --batch                  signal the batch script only\n"
    "  -f, --full                   signal the batch script and all steps\n"
    "  -i, --interactive            ask before each job\n"
    "  -M, --clusters=NAMES         must name this cluster, or all\n"
    "      --me                     only my jobs\n"
    "  -n, --name=NAMES             only jobs of these names\n"
    "  -p, --partition=NAMES        only jobs in these partitions\n"
    "  -q, --qos=NAME               only jobs of this quality of service\n"
    "  -Q, --quiet                  do not say what went wrong\n"
    "  -R, --reservation=NAME       only jobs of this reservation\n"
    "  -s, --signal=SIGNAL          send a signal instead of ending the job\n"
    "  -t, --state=STATE            only PENDING, RUNNING or SUSPENDED jobs\n"
    "  -u, --user=NAMES             only jobs of these users\n"
    "  -v, --verbose                say more\n"
    "  -w, --nodelist=NODES         only jobs on any of these nodes\n"
    "      --wckey=KEY              only jobs of this key\n";

std::string shown(const ScancelTarget& target) {
  return target.step ? format("{}.{}", target.job, target.step_text) : target.job;
}

// False for a failure that counts: that a job is not there, or is ending already, does not.
bool tell(const Voice& voice, const ScancelAsk& ask, const std::string& target, const Error& error) {
  const bool gone = error.code == Errc::kNotFound || error.code == Errc::kConflict;
  if (ask.quiet || (gone && !ask.verbose))
    return gone;
  const std::string_view words = error.code == Errc::kNotFound   ? "Invalid job id specified"
                                 : error.code == Errc::kConflict ? "Job/step already completing or completed"
                                 : error.code == Errc::kDenied   ? "Access/permission denied"
                                                                 : std::string_view(error.message);
  voice.error(format("Kill job error on job id {}: {}", target, words));
  return gone;
}

// A step of a job that is not there, or not any more: not silent, as a step that ended in a job that runs is.
bool tell_no_job(const Voice& voice, const ScancelAsk& ask, const ScancelTarget& target) {
  if (!ask.quiet)
    voice.error(format("Kill job error on job step id {}: Invalid job id specified", shown(target)));
  return false;
}

bool cancel_step(Api& api, const Voice& voice, const ScancelAsk& ask, const ScancelTarget& target) {
  Result<void> done;
  if (*target.step == kBatchStep) {
    done = api.cancel(target.job, ask.signal ? ask.signal : 9, SignalReach::kScript);
    if (!done && done.error().code == Errc::kNotFound)
      return tell_no_job(voice, ask, target);
  } else {
    const auto job = api.job_named(target.job);
    if (job ? is_final((*job)->state) : job.error().code == Errc::kNotFound)
      return tell_no_job(voice, ask, target);
    done = job ? api.signal_step((*job)->id, *target.step, ask.signal) : Result<void>(job.error());
  }
  return done || tell(voice, ask, shown(target), done.error());
}

// False after a failure that counts.
bool cancel_jobs(Api& api, const Voice& voice, const ScancelAsk& ask, const CancelMany& request) {
  const auto answer = api.cancel_many(request);
  if (!answer) {
    if (answer.error().field == "users")
      voice.error(answer.error().message);
    else if (!ask.quiet)
      voice.error(format("Kill job error: {}", answer.error().message));
    return false;
  }
  bool good = true;
  for (const auto& failure : answer->failed) good = tell(voice, ask, failure.target, failure.error) && good;
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

// Replaces the targets by the jobs that are there and match.
Result<void> look_up(Api& api, ScancelAsk& ask, std::vector<ScancelTarget>& targets) {
  if (ask.me || !ask.users.empty())
    TRY(ask.choose_users(TRY(api.users()), ::getuid()));
  const auto jobs = api.jobs("state=pending,starting,running,suspended,completing");
  if (!jobs)
    return Error{jobs.error().code, format("slurm_load_jobs error: {}", jobs.error().message), {}};
  std::vector<NodeId> chosen_nodes;
  const std::unordered_set<std::string_view> named(ask.nodes.begin(), ask.nodes.end());
  if (!named.empty())
    for (const auto& node : TRY(api.nodes()))
      if (named.contains(node->meta.name))
        chosen_nodes.push_back(node->id);
  targets = ask.choose(*jobs, targets, chosen_nodes);
  return {};
}

int run(const ClientContext& context, int argc, char** argv, Voice& voice) {
  ScancelAsk ask;
  ask.read_environment([](const char* name) { return ::getenv(name); });
  std::vector<std::string> words(argv, argv + argc);
  words[0] = "scancel";
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const auto wrong = [&](std::string text) {
    voice.error(text);
    return 1;
  };
  std::string clusters;
  optind = 0;
  opterr = 1;
  for (int c; (c = getopt_long(argc, pointers.data(), "A:bcfHiM:n:p:q:QR:s:t:u:vVw:", kLongs, nullptr)) != -1;) {
    switch (c) {
      case 'A': ask.accounts = split(optarg, ','); break;
      case 'b': ask.batch = true; break;
      case 'c': return wrong("--cron is not supported yet");
      case kSibling: return wrong("--sibling: federations are not supported yet");
      case kCtld:
      case 'H': break;
      case 'f': ask.full = true; break;
      case 'i': ask.interactive = true; break;
      case 'M': clusters = optarg; break;
      case kMe: ask.me = true; break;
      case 'n': ask.names = split(optarg, ','); break;
      case 'p': ask.partitions = split(optarg, ','); break;
      case 'q': ask.qos = split(optarg, ','); break;
      case 'Q': ask.quiet = true; break;
      case 'R': ask.reservations = split(optarg, ','); break;
      case 's': {
        const auto signal = parse_signal(optarg);
        if (!signal)
          return wrong(format("Unknown job signal: {}", optarg));
        ask.signal = *signal;
        break;
      }
      case 't':
        if (const auto read = ask.set_states(optarg); !read)
          return wrong(read.error().message);
        break;
      case 'u': ask.users = split(optarg, ','); break;
      case 'v': ask.verbose = true; break;
      case 'V': say("slurm 24.11.5 (lockstep " LOCKSTEP_VERSION ")\n"); return 0;
      case 'w': {
        auto names = expand_hostlist(optarg);
        if (!names || names->empty())
          return wrong(format("Invalid node list: {}", optarg));
        ask.nodes = *names;
        break;
      }
      case kWckey: ask.wckeys = split(optarg, ','); break;
      case kHelp: say(kHelpText); return 0;
      case kUsage: say(kUsageText); return 0;
      default:
        tell_what_was_meant(pointers.data(), kLongs);
        write_all(STDERR_FILENO, "Try \"scancel --help\" for more information\n");
        return 1;
    }
  }
  if (ask.batch && ask.full)
    return wrong("--batch and --full cannot be given together");
  if (ask.signal == 9 && !ask.batch)
    ask.signal = 0;  // KILL is what ends a job anyway
  if (ask.signal == 0 && ask.batch)
    ask.signal = 9;
  std::vector<ScancelTarget> targets;
  for (int i = optind; i < argc; ++i) {
    auto read = parse_scancel_targets(pointers[static_cast<std::size_t>(i)]);
    if (!read)
      return wrong(read.error().message);
    targets.insert(targets.end(), read->begin(), read->end());
  }
  outlive_own_job();
  Api api(context);
  if (const auto named = check_cluster_name(api, clusters); !named)
    return wrong(named.error().message);
  if (targets.empty() && !ask.has_filter())
    return wrong("No job identification provided");
  const bool steps =
      std::any_of(targets.begin(), targets.end(), [](const ScancelTarget& target) { return target.step.has_value(); });
  if (ask.has_filter() && !ask.interactive && !ask.verbose && !steps)
    return cancel_jobs(api, voice, ask, ask.request(targets, ::getuid())) ? 0 : 1;
  if (ask.has_filter() || ask.interactive) {
    if (const auto found = look_up(api, ask, targets); !found)
      return wrong(found.error().message);
    if (ask.interactive)
      std::erase_if(targets,
                    [](const ScancelTarget& target) { return !target.record || !agreed(*target.record, target); });
  }
  return cancel_named(api, voice, ask, targets) ? 0 : 1;
}

}  // namespace

int scancel_main(const ClientContext& context, int argc, char** argv) {
  Voice voice("scancel");
  return run(context, argc, argv, voice);
}

}  // namespace lockstep
