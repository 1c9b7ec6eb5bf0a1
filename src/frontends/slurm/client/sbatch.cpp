// sbatch: submits a batch script. Prints "Submitted batch job N"; tools parse that line.
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "frontends/slurm/client/api.h"
#include "frontends/slurm/client/container_ask.h"
#include "frontends/slurm/client/context.h"
#include "frontends/slurm/client/environment.h"
#include "frontends/slurm/client/foreign_directives.h"
#include "frontends/slurm/client/invocation.h"
#include "frontends/slurm/client/resource_ask.h"
#include "frontends/slurm/client/script.h"
#include "frontends/slurm/client/shell_limits.h"
#include "frontends/slurm/client/shell_word.h"
#include "model/job.h"

namespace lockstep::slurm {

namespace {

constexpr std::string_view kFailed = "Batch job submission failed";

struct Script {
  std::string text;
  std::string name;  // of the job, when nobody gives one
  std::string path;  // what users see as Command=
};

// A bare name that is not here is looked up in PATH, as Slurm does.
std::string find_script(const std::string& name, const std::string& work_dir) {
  struct ::stat facts {};
  if (name.find('/') == std::string::npos && ::stat(name.c_str(), &facts) != 0) {
    const char* path = ::getenv("PATH");
    for (const auto& folder : split(path ? path : "", ':')) {
      const std::string candidate = folder + "/" + name;
      if (::stat(candidate.c_str(), &facts) == 0 && S_ISREG(facts.st_mode) && ::access(candidate.c_str(), R_OK) == 0)
        return candidate;
    }
  }
  return absolute_path(name, work_dir);
}

// What is no script is often a program: how to run it as it is.
Error not_a_script(Error error, const Script& script, const std::vector<std::string>& words) {
  const bool python = script.path.ends_with(".py");
  if (words.empty() || error.field != kNotAScript || (!python && ::access(script.path.c_str(), X_OK) != 0))
    return error;
  std::string command = python ? "python3" : "";
  for (const auto& word : words) command += (command.empty() ? "" : " ") + as_shell_word(word);
  error.message += format("\nTo run a program as it is: sbatch --wrap {}", shell_quoted(command));
  return error;
}

// The component that has a command instead of a script, the last one that says so; null: there is a script.
const OptionSet* wrapping(const std::vector<OptionSet>& components) {
  const auto last = std::find_if(components.rbegin(), components.rend(),
                                 [](const OptionSet& options) { return options.has("wrap"); });
  return last == components.rend() ? nullptr : &*last;
}

Result<Script> load_script(const std::vector<OptionSet>& components, const std::vector<std::string>& words,
                           const std::string& work_dir) {
  Script script;
  if (const OptionSet* options = wrapping(components)) {
    if (!words.empty())
      return invalid("Script arguments not permitted with --wrap option", "script");
    if (trim(options->text("wrap")).empty())
      return invalid("The --wrap command is empty", "script");
    script.text = "#!/bin/sh\n# This script was created by sbatch --wrap.\n\n" + options->text("wrap") + "\n";
    script.name = "wrap";
  } else if (words.empty()) {
    script.text = TRY(read_descriptor(STDIN_FILENO, "standard input", kScriptMax));
    script.name = "sbatch";
  } else {
    script.path = find_script(words[0], work_dir);
    auto text = read_whole_file(script.path, kScriptMax);
    if (!text && text.error().code == Errc::kNotFound)
      return Error{Errc::kNotFound, format("Unable to open file {}", words[0]), "script"};
    if (!text && text.error().code == Errc::kExhausted)
      return invalid(format("Job script exceeds size limit: {} is larger than {} bytes", words[0], kScriptMax),
                     "script");
    script.text = TRY(std::move(text));
    script.name = base_name(script.path);
  }
  if (auto checked = check_script(script.text); !checked)
    return not_a_script(std::move(checked).error(), script, words);
  return script;
}

// Directives first, then environment and command line over them, component by component. A command line of one
// component speaks of all that the script has; one of several has more than the script's where it names more.
Result<std::vector<OptionSet>> with_directives(const std::vector<OptionSet>& outer, const Script& script,
                                               std::vector<std::string>& notes) {
  std::vector<OptionSet> out;
  auto read = TRY(read_directives(script.text));
  ForeignOptions foreign;
  if (!outer.front().has("ignore-pbs"))
    foreign = TRY(read_foreign_directives(script.text));
  for (const auto* told : {&read.notes, &foreign.notes}) notes.insert(notes.end(), told->begin(), told->end());
  OptionSet bare(SlurmCommand::kSbatch);
  TRY(bare.read_environment([](const char* name) { return ::getenv(name); }));
  for (std::size_t i = 0; i < std::max(outer.size(), read.components.size()); ++i) {
    OptionSet options = outer.size() == 1 ? outer.front() : i < outer.size() ? outer[i] : bare;
    if (i < read.components.size())
      for (const auto& directive : read.components[i]) TRY(options.read_directive(directive.words, directive.line));
    for (const auto& directive : foreign.directives) TRY(options.read_directive(directive.words, directive.line));
    out.push_back(std::move(options));
  }
  return out;
}

Result<Variables> chosen_variables(const OptionSet& options) {
  if (const Given* file = options.find("export-file")) {
    if (options.has("export") && options.text("export") != "NONE")
      return invalid("--export and --export-file are mutually exclusive", "export");
    char* end = nullptr;
    const long number = std::strtol(file->text.c_str(), &end, 10);
    const bool descriptor = !file->text.empty() && *end == 0 && number >= 0 && number < 1 << 20;
    const auto text = TRY(descriptor ? read_descriptor(static_cast<int>(number), file->text, 64 << 20)
                                     : read_whole_file(file->text, 64 << 20));
    return parse_variables(text);
  }
  return exported(own_variables(), options.text("export"), true);
}

Result<Variables> job_variables(const OptionSet& options) {
  auto variables = TRY(chosen_variables(options));
  TRY(put_shell_limits(variables, options.text("propagate")));
  TRY(put_own_tmp(options, variables));
  put_container_variables(options, variables);
  return variables;
}

// --wait: the job's own code; of an array the highest; 1 when it ended in another way than by exiting.
int code_of(const Job& job) {
  int code = job.array ? static_cast<int>(job.array->worst_code) : job.exit.code;
  if (job.exit.signal != 0 || (job.state != JobState::kCompleted && code == 0))
    code = 1;
  return code & 0xff;
}

// What options ask for is refused in the words of the cluster where it is the cluster that would refuse it.
int say_bad_request(const Voice& voice, const Error& error) {
  const bool at_submission = error.field == "array" || error.field == "dependencies";
  if (!at_submission)
    return say_option_error(voice, error);
  say_refusal(voice, kFailed, error);
  return error_exit_code();
}

// The script and its surroundings, into a request that options have made.
Result<void> complete(SubmitRequest& request, const Script& script, const OptionSet& options,
                      const std::vector<std::string>& words) {
  const auto variables = TRY(job_variables(options));
  JobSpec& spec = request.spec;
  if (spec.name.empty())
    spec.name = script.name;
  spec.command = script.path;
  for (auto& group : spec.groups) group.launch = Launch::kNothing;
  spec.groups.front().launch = Launch::kScript;
  if (words.size() > 1)
    spec.groups.front().argv.assign(words.begin() + 1, words.end());
  request.script = script.text;
  request.environment = nul_separated(variables);
  request.test_only = options.has("test-only");
  return {};
}

int try_submit(Api& cluster, const SubmitRequest& request, const Voice& voice) {
  const auto answer = cluster.try_submit(request);
  if (!answer) {
    say_refusal(voice, "allocation failure", answer.error());
    return error_exit_code();
  }
  voice.info(*answer);
  return 0;
}

// Tools read this.
void tell_submitted(JobId id, const Api& cluster, const OptionSet& options, const Voice& voice) {
  const std::string clusters = options.text("clusters");
  if (options.has("parsable"))
    say(options.has("clusters") ? format("{};{}\n", id.value, clusters) : format("{}\n", id.value));
  else if (!options.has("quiet"))
    say(options.has("clusters") ? format("Submitted batch job {} on cluster {}\n", id.value, clusters)
                                : format("Submitted batch job {}\n", id.value));
  if (!cluster.warning().empty())
    voice.warning(format("job {}: {}", id.value, cluster.warning()));
  if (unsaid())  // who cannot read the number may submit it again
    voice.error(format("job {} was submitted, and nobody was told", id.value));
}

int wait_for_end(Api& cluster, JobId id, const Voice& voice) {
  const auto ended = cluster.wait(id, Api::Until::kEnded, false, minutes(15));
  if (ended)
    return code_of(*ended->job);
  voice.error(format("Unable to wait for job {}: {}", id.value, ended.error().message));
  return error_exit_code();
}

int submit(Api& cluster, const SubmitRequest& request, const OptionSet& options, const Voice& voice) {
  if (const auto named = check_cluster_name(cluster, options.text("clusters")); !named) {
    voice.error(named.error().message);
    return error_exit_code();
  }
  if (request.test_only)
    return try_submit(cluster, request, voice);
  const auto id = cluster.submit(request);
  if (!id) {
    say_refusal(voice, kFailed, id.error());
    return error_exit_code();
  }
  tell_submitted(*id, cluster, options, voice);
  return options.has("wait") ? wait_for_end(cluster, *id, voice) : 0;
}

int run(const ClientContext& context, int argc, char** argv, Voice& voice) {
  auto begun = begin(SlurmCommand::kSbatch, argc, argv, voice);
  if (begun.exit_code)
    return *begun.exit_code;
  const OptionSet& outer = begun.invocation.components.front();
  const auto& words = begun.invocation.words.back();
  voice.set_quiet(outer.has("quiet"));
  voice.set_verbose(outer.has("verbose"));
  const Surroundings around = read_surroundings();
  const auto script = load_script(begun.invocation.components, words, around.work_dir);
  if (!script)
    return say_option_error(voice, script.error());
  std::vector<std::string> notes;
  auto components = with_directives(begun.invocation.components, *script, notes);
  if (!components)
    return say_option_error(voice, components.error());
  if (const auto listed = place_by_hostfile(components->front(), around, ::getenv); !listed)
    return say_option_error(voice, listed.error());
  const OptionSet& options = components->front();
  voice.set_quiet(options.has("quiet"));
  auto request = job_request(*components, around, notes);
  for (const auto& note : notes) voice.warning(note);
  if (!request)
    return say_bad_request(voice, request.error());
  if (const auto done = complete(*request, *script, options, words); !done)
    return say_option_error(voice, done.error());
  Api cluster(context);
  return submit(cluster, *request, options, voice);
}

}  // namespace

int sbatch_main(const ClientContext& context, int argc, char** argv) {
  Voice voice("sbatch");
  return run(context, argc, argv, voice);
}

}  // namespace lockstep::slurm
