// sattach: the output and input of a step that runs, beside the srun that accompanies it. Whatever becomes of this
// command, the step does not notice.
#include <signal.h>

#include <algorithm>

#include "base/hostlist.h"
#include "base/text.h"
#include "frontends/slurm/client/command_options.h"
#include "frontends/slurm/client/context.h"
#include "frontends/slurm/client/invocation.h"
#include "frontends/slurm/client/srun_io.h"
#include "frontends/slurm/client/values.h"
#include "model/job.h"

namespace lockstep::slurm {

namespace {

struct Wish {
  std::string input, output, error;  // ranks; "" = all
  bool label = false, layout = false, pty = false, quiet = false, verbose = false;
};

// clang-format off
constexpr CommandOption<Wish> kOptions[] = {
  // letter, names, takes, value, help, what it sets
  {0, "input-filter", Takes::kValue, "TASK", "send standard input to this task only", &Wish::input},
  {0, "output-filter", Takes::kValue, "TASK", "print the standard output of this task only", &Wish::output},
  {0, "error-filter", Takes::kValue, "TASK", "print the standard error of this task only", &Wish::error},
  {'l', "label", Takes::kNothing, "", "the number of its task before each line", &Wish::label},
  {0, "layout", Takes::kNothing, "", "which tasks run on which nodes, and nothing else", &Wish::layout},
  {0, "pty", Takes::kNothing, "", "the terminal of task zero, of a step of srun --pty", &Wish::pty},
  {'Q', "quiet", Takes::kNothing, "", "say errors only", &Wish::quiet},
  {'v', "verbose", Takes::kNothing, "", "say what is done", &Wish::verbose},
  {'V', "version", Takes::kNothing, "", "version", Shows::kVersion},
  {'h', "help", Takes::kNothing, "", "", Shows::kHelp},
  {'u', "usage", Takes::kNothing, "", "", Shows::kUsage},
};
// clang-format on

constexpr CommandSyntax<Wish> kSyntax = {
    .head =
        "Usage: sattach [OPTIONS] JOB.STEP\n\nShows what the tasks of a step that runs say from now on, and says to "
        "them what is typed.\nCtrl-C ends sattach alone.\n\n",
    .usage = "Usage: sattach [options] <jobid.stepid>\n",
    .options = kOptions};

struct StepName {
  JobId job;
  StepNo step = 0;
};

Result<StepName> step_named(Api& api, const std::string& text) {
  const auto dot = text.find('.');
  const std::string job = text.substr(0, dot), step = dot == text.npos ? "" : text.substr(dot + 1);
  if (step == "batch")
    return invalid(format("{}: what a script says goes into its file: scontrol show job {} names it", text, job));
  const auto number = parse_count(step);
  if (!number || *number > INT32_MAX)
    return invalid(format("\"{}\" names no step: JOB.STEP is wanted, as squeue --steps shows them", text));
  if (job.find('_') != job.npos)
    return StepName{TRY(api.job_named(job))->id, static_cast<StepNo>(*number)};
  const auto id = parse_uint(job);
  if (!id || *id == 0)
    return invalid(format("Invalid job id: {}", text));
  return StepName{JobId(*id), static_cast<StepNo>(*number)};
}

// The step's tasks by nodes, as Slurm prints them.
Result<std::string> layout_text(Api& api, const Step& step) {
  const auto nodes = TRY(api.nodes());
  std::vector<std::string> names;
  std::string rows;
  std::size_t tasks = 0;
  for (const StepPlace& place : step.places) {
    const auto node = std::find_if(nodes.begin(), nodes.end(), [&](const auto& one) { return one->id == place.node; });
    const std::string name = node == nodes.end() ? "?" : (*node)->meta.name;
    rows += format("\tNode {} ({}), {} task(s): ", names.size(), name, place.ranks.size());
    for (const std::uint32_t rank : place.ranks) rows += format("{} ", rank);
    rows += '\n';
    names.push_back(name);
    tasks += place.ranks.size();
  }
  return format("Job step layout:\n\t{} tasks, {} nodes ({})\n\n{}", tasks, names.size(), compress_hostlist(names),
                rows);
}

Result<std::optional<std::uint32_t>> rank_of(const std::string& text, const char* option, const Step& step) {
  if (text.empty())
    return std::optional<std::uint32_t>();
  const auto rank = parse_count(text);
  const bool is_there = rank && std::any_of(step.places.begin(), step.places.end(), [&](const StepPlace& place) {
                          return std::find(place.ranks.begin(), place.ranks.end(), *rank) != place.ranks.end();
                        });
  if (!is_there)
    return invalid(format("--{}={}: the step has no such task", option, text));
  return std::optional(*rank);
}

Result<SessionAsk> session_ask(const Wish& wish, JobId job, Ref<Step> step) {
  if (wish.pty && !(wish.input.empty() && wish.output.empty() && wish.error.empty()))
    return invalid("--pty and filters of tasks do not go together");
  if (wish.pty && !step->spec->pty)
    return invalid(format("step {}.{} has no terminal: it was not started by srun --pty", job.value, step->number));
  SessionAsk ask;
  ask.job = job;
  ask.out.only_rank = TRY(rank_of(wish.output, "output-filter", *step));
  ask.err.only_rank = TRY(rank_of(wish.error, "error-filter", *step));
  if (const auto rank = TRY(rank_of(wish.input, "input-filter", *step)); rank || wish.pty) {
    ask.input = SessionAsk::Input::kRank;
    ask.input_rank = rank.value_or(0);
  }
  ask.label = wish.label;
  ask.pty = wish.pty;
  ask.onlooker = true;
  ask.step = std::move(step);
  return ask;
}

Result<int> attach(const ClientContext& context, const Wish& wish, const std::string& name, const Voice& voice) {
  Api api(context);
  const StepName named = TRY(step_named(api, name));
  auto step = api.step(named.job, named.step);
  if (!step && step.error().code == Errc::kNotFound)
    return Error{Errc::kNotFound, format("Could not get job step info: there is no step {} that runs", name), {}};
  if (!step)
    return step.error();
  if ((*step)->state == StepState::kEnded)
    return Error{Errc::kConflict, format("Could not get job step info: step {} has ended", name), {}};
  if (wish.layout) {
    say(TRY(layout_text(api, **step)));
    return 0;
  }
  SignalDesk signals(SignalDesk::all_of_srun());
  StepSession session(context, api, voice, signals, TRY(session_ask(wish, named.job, std::move(*step))), nullptr);
  return session.run([] {});
}

}  // namespace

int sattach_main(const ClientContext& context, int argc, char** argv) {
  Voice voice("sattach");
  Wish wish;
  const CommandWords line = read_options(kSyntax, argc, argv, voice, wish);
  if (line.exit_code)
    return *line.exit_code;
  voice.set_quiet(wish.quiet);
  voice.set_verbose(wish.verbose);
  if (line.words.size() != 1) {
    voice.error(line.words.empty() ? "which step? Name one: JOB.STEP" : "one step at a time");
    return error_exit_code();
  }
  ::signal(SIGTTIN, SIG_IGN);
  ::signal(SIGTTOU, SIG_IGN);
  const auto code = attach(context, wish, line.words[0], voice);
  if (!code)
    voice.error(code.error().message);
  return code ? *code : error_exit_code();
}

}  // namespace lockstep::slurm
