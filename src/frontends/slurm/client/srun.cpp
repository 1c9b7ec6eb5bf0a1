// srun: runs a program on the nodes of an allocation; without one it makes its own for as long as the program runs.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <memory>

#include "base/text.h"
#include "frontends/slurm/client/allocate.h"
#include "frontends/slurm/client/context.h"
#include "frontends/slurm/client/environment.h"
#include "frontends/slurm/client/invocation.h"
#include "frontends/slurm/client/key_rows.h"
#include "frontends/slurm/client/resource_ask.h"
#include "frontends/slurm/client/shell_limits.h"
#include "frontends/slurm/client/srun_hooks.h"
#include "frontends/slurm/client/srun_io.h"
#include "frontends/slurm/client/srun_programs.h"
#include "frontends/slurm/client/step_files.h"
#include "frontends/slurm/client/values.h"
#include "model/job.h"
#include "ports/lingering_step.h"

namespace lockstep::slurm {

namespace {

Result<Variables> exported_with_limits(const OptionSet& options, bool new_job) {
  auto variables = TRY(exported(own_variables(), options.text("export"), new_job));
  TRY(put_shell_limits(variables, options.text("propagate")));
  TRY(put_own_tmp(options, variables));
  return variables;
}

constexpr std::int64_t kBusyMs = 1000;         // a step that waits longer for resources says so
constexpr useconds_t kFullDiskUs = 1'000'000;  // between two tries to make a step while the controller's disk is full
constexpr Duration kParting = seconds(3);      // for a controller that may be silent, when one leaves

struct Files {
  StepFile out, err, in;
  bool err_given = false;
};

Files files_of(const OptionSet& options) {
  Files files;
  files.out = parse_step_file(options.text("output"));
  files.err = parse_step_file(options.text("error"));
  files.in = parse_step_file(options.text("input"));
  files.err_given = options.has("error");
  return files;
}

// What the nodes open themselves.
void files_into(const Files& files, StepSpec& step) {
  const auto remote = [](const StepFile& file) -> std::string {
    if (file.kind == StepFile::Kind::kNone)
      return "/dev/null";
    return file.kind == StepFile::Kind::kPerTask ? file.pattern : std::string();
  };
  step.std_out = remote(files.out);
  step.std_err = remote(files.err);
  step.std_in = files.in.kind == StepFile::Kind::kShared ? files.in.pattern : remote(files.in);
}

// The files that srun itself writes what its tasks say to. They are opened before anything runs, as far as their names
// are known then.
struct OpenFiles {
  std::shared_ptr<OutputFile> out, err;
};

bool is_ours(const StepFile& file) { return file.kind == StepFile::Kind::kShared; }

// Error goes where output does.
bool shares_output(const Files& files) {
  return is_ours(files.out) && (!files.err_given || (is_ours(files.err) && files.err.pattern == files.out.pattern));
}

Result<OpenFiles> open_files(const Files& files, const PatternFacts& facts) {
  OpenFiles open;
  if (is_ours(files.out))
    open.out = TRY(OutputFile::open(expand_pattern(files.out.pattern, facts)));
  if (shares_output(files))
    open.err = open.out;
  else if (is_ours(files.err))
    open.err = TRY(OutputFile::open(expand_pattern(files.err.pattern, facts)));
  return open;
}

// The names cannot be known before one of these is.
bool any_names(const Files& files, std::string_view letters) {
  return (is_ours(files.out) && names_any(files.out.pattern, letters)) ||
         (is_ours(files.err) && names_any(files.err.pattern, letters));
}
constexpr std::string_view kOfStep = "Js", kOfJob = "jJsAab";

// What srun opens and routes itself.
Result<void> files_into(const Files& files, const OpenFiles& open, bool append, SessionAsk& ask) {
  const auto route = [](const StepFile& file, const std::shared_ptr<OutputFile>& opened, StepSink& sink) {
    if (file.kind == StepFile::Kind::kOneRank)
      sink.only_rank = file.rank;
    if (opened)
      sink.file = opened;
  };
  route(files.out, open.out, ask.out);
  if (files.err_given)
    route(files.err, open.err, ask.err);
  else if (files.out.kind == StepFile::Kind::kOneRank)
    ask.err.only_rank = files.out.rank;
  if (shares_output(files))
    ask.err = ask.out;
  if (files.in.kind == StepFile::Kind::kOneRank) {
    ask.input = SessionAsk::Input::kRank;
    ask.input_rank = files.in.rank;
  } else if (files.in.kind != StepFile::Kind::kClient) {
    ask.input = SessionAsk::Input::kNone;
  }
  for (const auto& file : {open.out, open.err})
    if (file)
      TRY(file->begin(append));
  return {};
}

// The nodes open the file of all tasks, and what is not there stops the step before it is made.
Result<void> check_input(const Files& files, const PatternFacts& facts, const std::string& work_dir) {
  if (files.in.kind != StepFile::Kind::kShared || names_any(files.in.pattern, kOfJob))
    return {};
  const std::string path = expand_pattern(files.in.pattern, facts);
  if (::access(absolute_path(path, work_dir).c_str(), R_OK) == 0)
    return {};
  return Error{Errc::kIo, format("Could not open stdin file {}: {}", path, ::strerror(errno)), {}};
}

// As Slurm names them: a version of PMIx is that of the library on the nodes, whatever it is.
constexpr const char* kMpiTypes =
    "MPI plugin types are...\n\tnone\n\tpmi2\n\tpmix\nspecific pmix plugin versions available: "
    "pmix_v2,pmix_v3,pmix_v4,pmix_v5\n";

Result<Pmi> mpi_of(const OptionSet& options) {
  const std::string type = lower(options.text("mpi"));
  if (type.empty() || type == "none")
    return Pmi::kNone;
  if (type == "pmi2")
    return Pmi::kPmi2;
  if (is_among("pmix pmix_v2 pmix_v3 pmix_v4 pmix_v5", type))
    return Pmi::kPmix;
  return invalid(format("Invalid MPI type '{}', --mpi=list for acceptable types", type), "mpi");
}

Result<StepSpec> step_spec(const OptionSet& options, const std::vector<std::string>& words, const Surroundings& around,
                           bool own_job, const std::vector<std::vector<std::string>>& programs,
                           std::vector<std::string>& notes) {
  StepSpec step = TRY(step_of(options, around, notes));
  if (own_job) {  // the allocation is made for this step: it takes all of it, as planned
    step.nodes = {};
    if (step.distribution != "arbitrary")
      step.only_nodes.clear();
    step.exclude_nodes.clear();
    step.devices_per_node.clear();
    step.devices_total = 0;
    step.memory_mb = -1;
    step.exact = false;
    step.whole = true;
    step.sole = true;
  }
  step.argv = words;
  step.name = options.by("job-name", Origin::kCommandLine) ? options.text("job-name") : base_name(words[0]);
  step.pmi = TRY(mpi_of(options));
  step.pty = options.has("pty");
  if (step.pty) {
    const WindowSize size = window_size();
    step.pty_rows = size.rows;
    step.pty_columns = size.columns;
    step.unbuffered = true;
  }
  if (!programs.empty()) {
    step.multi_prog = programs;
    step.tasks = static_cast<std::uint32_t>(programs.size());
  } else if (options.has("multi-prog")) {
    const std::uint32_t tasks = TRY(shape_of(options, notes)).tasks.min;
    auto text = TRY(read_whole_file(words[0], 1 << 20));
    step.multi_prog = TRY(parse_multi_prog(text, tasks));
    for (auto& argv : step.multi_prog) argv.insert(argv.end(), words.begin() + 1, words.end());
    step.tasks = tasks;
    step.argv = step.multi_prog[0];
  } else if (own_job && step.distribution != "arbitrary") {
    step.tasks = 0;
    step.tasks_per_node = 0;
  }
  files_into(files_of(options), step);
  return step;
}

// The highest number that map_gpu:LIST or mask_gpu:LIST names; a step's GPUs on a node are numbered from 0.
std::optional<std::uint64_t> highest_bound_gpu(std::string_view binding) {
  const bool is_mask = binding.find("mask_gpu:") != binding.npos;
  if (!is_mask && binding.find("map_gpu:") == binding.npos)
    return std::nullopt;
  std::uint64_t highest = 0;
  for (const std::string& item : split(binding.substr(binding.find(':') + 1), ',')) {
    const bool is_hex = is_mask || item.starts_with("0x") || item.starts_with("0X");
    const std::uint64_t value = ::strtoull(item.c_str(), nullptr, is_hex ? 16 : 10);
    const auto bits = static_cast<std::uint64_t>(std::bit_width(value));
    highest = std::max<std::uint64_t>(highest, is_mask ? std::max<std::uint64_t>(bits, 1) - 1 : value);
  }
  return highest;
}

// A task whose part of the list names no GPU that is there sees all of them.
void tell_of_unbound(const OptionSet& options, const Step& step, const Voice& voice) {
  const Given* bind = options.find("gpu-bind");
  const auto highest = bind ? highest_bound_gpu(bind->text) : std::nullopt;
  if (!highest)
    return;
  for (const StepPlace& place : step.places) {
    const std::uint64_t gpus = place.devices.count() + place.slices.size();
    if (gpus == 0 || *highest < gpus)
      continue;
    voice.warning(format("{}={} names GPU {}, and the step has {} on a node: what is not there binds nothing",
                         where_given("gpu-bind", *bind), bind->text, *highest, gpus));
    return;
  }
}

SessionAsk session_ask(const OptionSet& options, JobId job, Ref<Step> step, bool own_job) {
  SessionAsk ask;
  ask.job = job;
  ask.label = step->spec->label;
  ask.unbuffered = step->spec->unbuffered;
  ask.pty = step->spec->pty;
  ask.kill_on_bad_exit = step->spec->kill_on_bad_exit;
  ask.wait_after_first = step->spec->wait_after_first;
  if (!own_job)
    ask.time_limit = whole_minutes(parse_time_limit(options.text("time")).value_or(Duration{}));
  ask.disable_status = options.has("disable-status");
  ask.quit_on_interrupt = options.has("quit-on-interrupt");
  ask.step = std::move(step);
  return ask;
}

class Srun {
 public:
  Srun(const ClientContext& context, Voice& voice) : context_(context), voice_(voice), api_(context) {}

  int run(int argc, char** argv);

 private:
  int in_allocation(JobId job);
  struct OwnJob;
  Result<OwnJob> own_job();
  Result<void> prepare_run(OwnJob& own);
  int try_own(const SubmitRequest& request);
  int in_own_allocation();
  int fail(const Error& error) { return say_option_error(voice_, error); }
  PatternFacts facts_of(const Job* job, JobId id, StepNo step) const;
  // Called with how the tasks ended once none runs any more, and how long the cluster may take to hear it.
  using Released = std::function<void(const ExitStatus&, std::optional<Duration> within)>;
  Result<int> accompany(JobId id, Ref<Step> step, JobEnd* end, std::optional<OpenFiles> open, const PatternFacts& facts,
                        const Released& released);
  Result<int> run_step(const Granted& granted, std::optional<OpenFiles> open, std::optional<StepSpec> later,
                       const std::string& environment);
  std::optional<Ref<Step>> create(const StepRequest& request);

  const ClientContext& context_;
  Voice& voice_;
  Api api_;
  OptionSet options_{SlurmCommand::kSrun};
  std::vector<std::string> words_;
  std::vector<std::vector<std::string>> programs_;  // by rank, when there are several
  Surroundings around_;
  std::optional<SignalDesk> signals_;
};

int Srun::run(int argc, char** argv) {
  auto begun = begin(SlurmCommand::kSrun, argc, argv, voice_);
  if (begun.exit_code)
    return *begun.exit_code;
  options_ = begun.invocation.components.front();
  if (begun.invocation.components.size() > 1) {
    auto programs = programs_of(begun.invocation, ::getenv("SLURM_HET_SIZE") != nullptr);
    if (!programs)
      return fail(programs.error());
    options_ = std::move(programs->options);
    programs_ = std::move(programs->by_rank);
  }
  words_ = begun.invocation.words.front();
  voice_.set_quiet(options_.has("quiet"));
  voice_.set_verbose(options_.has("verbose"));
  around_ = read_surroundings();
  if (lower(options_.text("mpi")) == "list") {
    say(kMpiTypes);
    return 0;
  }
  if (words_.empty())
    return fail(invalid("No command given to execute."));
  if (const auto read = place_by_hostfile(options_, around_, ::getenv); !read)
    return fail(read.error());
  if (const auto mpi = mpi_of(options_); !mpi)
    return fail(mpi.error());
  ::signal(SIGTTIN, SIG_IGN);
  ::signal(SIGTTOU, SIG_IGN);
  const Given* jobid = options_.find("jobid");
  if (!jobid || options_.has("test-only"))
    return in_own_allocation();
  const auto underscore = jobid->text.find('_');
  if (underscore != std::string::npos) {
    const auto element = api_.job_named(jobid->text);
    if (!element) {
      say_refusal(voice_, "Unable to find the job", element.error());
      return error_exit_code();
    }
    return in_allocation((*element)->id);
  }
  const auto id = parse_uint(jobid->text);
  if (!id || *id == 0)
    return fail(bad_value(options_, "jobid"));
  return in_allocation(JobId(*id));
}

bool lingers() {
  const char* word = ::getenv(kLingerVariable);
  return word && std::string_view(word) == "1";
}

// A controller whose disk is full takes steps again in a moment, or when somebody has made room: `full` says so.
Result<Ref<Step>> create_patiently(const ClientContext& context, const StepRequest& request, std::atomic<bool>& full) {
  for (;; ::usleep(kFullDiskUs)) {
    Api own(context);
    auto step = own.create_step(request, !lingers());
    const bool waits = !step && (step.error().field == "disk" || step.error().field == "read-only");
    if (!waits || request.spec.immediate)
      return step;
    full.store(true);
  }
}

bool is_told_to_end(SignalDesk& signals) {
  bool told = false;
  for (const int signal : signals.take())
    told |= signal == SIGINT || signal == SIGTERM || signal == SIGQUIT || signal == SIGHUP;
  return told;
}

void say_not_created(const Voice& voice, JobId job, const Error& error) {
  const std::string what = format("Unable to create step for job {}", job.value);
  if (error.code == Errc::kNotFound)
    voice.error(format("{}: Invalid job id specified", what));
  else if (error.field == "immediate")
    voice.error(format("{}: Requested nodes are busy", what));
  else
    say_refusal(voice, what, error);
}

// The step's record once it runs. Nothing: it was interrupted or refused, which has been said.
std::optional<Ref<Step>> Srun::create(const StepRequest& request) {
  const auto full = std::make_shared<std::atomic<bool>>(false);
  Pending<Result<Ref<Step>>> created(
      [&context = context_, request, full] { return create_patiently(context, request, *full); });
  const std::int64_t asked_ms = monotonic_ms();
  bool announced = false;
  for (;;) {
    const std::int64_t waited = monotonic_ms() - asked_ms;
    if (!announced && waited >= kBusyMs) {
      voice_.info(format("Job {} step creation temporarily disabled, retrying ({})", request.job.value,
                         full->load() ? "the disk under the controller is full" : "Requested nodes are busy"));
      announced = true;
    }
    ::pollfd waits[] = {{created.fd(), POLLIN, 0}, {signals_->fd(), POLLIN, 0}};
    ::poll(waits, 2, announced ? -1 : static_cast<int>(kBusyMs - waited));
    if (is_told_to_end(*signals_)) {
      voice_.info("Cancelled pending job step");
      return std::nullopt;
    }
    auto step = created.take();
    if (!step)
      continue;
    if (!*step) {
      say_not_created(voice_, request.job, step->error());
      return std::nullopt;
    }
    if (announced)
      voice_.info(format("Step created for StepId={}.{}", request.job.value, (**step)->number));
    return **step;
  }
}

PatternFacts Srun::facts_of(const Job* job, JobId id, StepNo step) const {
  PatternFacts facts;
  facts.job = id.value;
  facts.step = step;
  const auto variable = [](const char* name) -> std::string {
    const char* value = ::getenv(name);
    return value ? value : "";
  };
  facts.user = variable("USER");
  facts.job_name = job ? job->spec->name : variable("SLURM_JOB_NAME");
  if (job && job->array_job) {
    facts.array_job = job->array_job.value;
    facts.array_index = job->array_index;
  } else if (const auto array = parse_uint(variable("SLURM_ARRAY_JOB_ID")); !job && array) {
    facts.array_job = *array;
    facts.array_index = parse_count(variable("SLURM_ARRAY_TASK_ID")).value_or(0);
  }
  return facts;
}

Result<int> Srun::accompany(JobId id, Ref<Step> step, JobEnd* end, std::optional<OpenFiles> open,
                            const PatternFacts& facts, const Released& released) {
  if (step->state == StepState::kEnded && step->places.empty())
    return Error{Errc::kConflict,
                 format("Step {}.{} was refused or cancelled before it had a node", id.value, step->number),
                 {}};
  const Files files = files_of(options_);
  if (!open)
    open = TRY(open_files(files, facts));
  tell_of_unbound(options_, *step, voice_);
  SessionAsk ask = session_ask(options_, id, step, end != nullptr);
  ask.lingers = lingers();
  TRY(files_into(files, *open, step->spec->append, ask));
  StepSession session(context_, api_, voice_, *signals_, std::move(ask), end);
  return session.run([&] {
    ExitStatus worst;
    for (const auto& [rank, exit] : session.exits()) {
      worst.code = std::max(worst.code, exit.code);
      if (exit.signal > worst.signal)
        worst.signal = exit.signal, worst.not_opened = exit.not_opened;
      worst.oom |= exit.oom;
    }
    if (!session.all_exited() && worst.ok())  // what nobody heard of has not ended well
      worst.code = 1;
    if (session.world_ended())
      worst = {*session.world_ended(), 0, false};
    released(worst, session.gave_up() ? std::optional(kParting) : std::nullopt);
  });
}

int Srun::in_allocation(JobId job) {
  std::vector<std::string> notes = options_.notes();
  for (const char* name : {"stage-in", "stage-out"})
    if (options_.has(name))
      notes.push_back(
          format("--{} is passed over inside an allocation: files are staged for a job, not for a step. "
                 "Name it to sbatch, salloc or #SBATCH, or copy with sbcast",
                 name));
  StepRequest request;
  request.job = job;
  auto spec = step_spec(options_, words_, around_, false, programs_, notes);
  for (const auto& note : notes) voice_.warning(note);
  if (!spec)
    return fail(spec.error());
  request.spec = std::move(*spec);
  const auto variables = exported_with_limits(options_, false);
  if (!variables)
    return fail(variables.error());
  request.environment = nul_separated(*variables);
  const Files files = files_of(options_);
  std::optional<OpenFiles> open;
  const PatternFacts facts = facts_of(nullptr, job, 0);
  if (const auto may = check_input(files, facts, request.spec.work_dir); !may)
    return fail(may.error());
  if (any_names(files, kOfStep)) {
    for (const StepFile* file : {&files.out, &files.err})
      if (is_ours(*file))
        if (const auto may = OutputFile::check_folder(expand_pattern(file->pattern, facts)); !may)
          return fail(may.error());
  } else {
    auto opened = open_files(files, facts);
    if (!opened)
      return fail(opened.error());
    open = std::move(*opened);
  }
  signals_.emplace(SignalDesk::all_of_srun());
  run_beside_step(options_, "prolog", words_, job, voice_);
  const auto step = create(request);
  if (!step)
    return error_exit_code();
  const auto code = accompany(job, *step, nullptr, std::move(open), facts_of(nullptr, job, (*step)->number),
                              [](const ExitStatus&, std::optional<Duration>) {});
  run_beside_step(options_, "epilog", words_, job, voice_);
  if (!code) {
    (void)api_.signal_step(job, (*step)->number, 0, kParting);
    return fail(code.error());
  }
  return *code;
}

// A job of its own, and what of its first step waits for the job's number.
struct Srun::OwnJob {
  SubmitRequest request;
  std::optional<StepSpec> later;  // the step, made after the job where a file is named after that
  std::optional<OpenFiles> open;
  std::optional<Duration> immediate;
};

// A new allocation has no components to choose among, and no nodes yet to count off.
Result<void> settle_without_job(OptionSet& options) {
  options.unset("het-group");
  if (options.has("relative"))
    return invalid("--relative option invalid for job allocation request", "relative");
  return {};
}

Result<Srun::OwnJob> Srun::own_job() {
  OwnJob own;
  std::vector<std::string> notes;
  auto request = job_request({options_}, around_, notes);
  auto spec =
      request ? step_spec(options_, words_, around_, true, programs_, notes) : Result<StepSpec>(request.error());
  for (auto note = notes.begin(); note != notes.end(); ++note)  // job and step share options: each warning once
    if (!request || std::find(notes.begin(), note, *note) == note)
      voice_.warning(*note);
  if (!spec)
    return spec.error();
  own.request = std::move(*request);
  StepSpec step = std::move(*spec);
  own.request.environment = nul_separated(TRY(exported_with_limits(options_, true)));
  JobSpec& job = own.request.spec;
  if (job.name.empty())
    job.name = base_name(words_[0]);
  job.command = words_[0];
  job.interactive = true;
  job.requeue = false;
  job.std_in.clear();
  job.std_out.clear();
  job.std_err.clear();
  job.groups.front().launch = Launch::kNothing;
  TRY(check_input(files_of(options_), facts_of(nullptr, {}, 0), step.work_dir));
  if (any_names(files_of(options_), kOfJob) || options_.has("prolog"))
    own.later = std::move(step);
  else
    own.request.first_step = std::move(step);
  own.request.test_only = options_.has("test-only");
  TRY(check_cluster_name(api_, options_.text("clusters")));
  return own;
}

// What is not needed to ask whether the job could run.
Result<void> Srun::prepare_run(OwnJob& own) {
  own.immediate = TRY(immediate_of(options_));
  if (own.later)
    return {};
  PatternFacts facts = facts_of(nullptr, {}, 0);
  facts.job_name = own.request.spec.name;
  own.open = TRY(open_files(files_of(options_), facts));
  return {};
}

int Srun::try_own(const SubmitRequest& request) {
  const auto answer = api_.try_submit(request);
  if (!answer) {
    say_refusal(voice_, "allocation failure", answer.error());
    return error_exit_code();
  }
  voice_.info(*answer);
  return 0;
}

int Srun::in_own_allocation() {
  if (const auto settled = settle_without_job(options_); !settled) {
    voice_.fatal(settled.error().message);
    return error_exit_code();
  }
  auto own = own_job();
  if (!own)
    return fail(own.error());
  if (own->request.test_only)
    return try_own(own->request);
  if (const auto ready = prepare_run(*own); !ready)
    return fail(ready.error());
  signals_.emplace(SignalDesk::all_of_srun());
  const auto granted = allocate(context_, api_, own->request, own->immediate, voice_, *signals_);
  if (!granted) {
    const char* code = own->immediate ? ::getenv("SLURM_EXIT_IMMEDIATE") : nullptr;
    return code ? static_cast<int>(parse_uint(code).value_or(1) & 0xff) : error_exit_code();
  }
  const auto code = run_step(*granted, std::move(own->open), std::move(own->later), own->request.environment);
  if (code)
    return await_stage_out(context_, granted->id, own->request.spec, *code, voice_, *signals_);
  (void)api_.end(granted->id, ExitStatus{1, 0, false}, false, kParting);
  return code.error().message.empty() ? error_exit_code() : fail(code.error());
}

// An error without words has been said already.
Result<int> Srun::run_step(const Granted& granted, std::optional<OpenFiles> open, std::optional<StepSpec> later,
                           const std::string& environment) {
  JobEnd end = watch_end(context_, granted.id);
  if (end.refused())
    return *end.refused();
  const Job& job = *granted.answer.job;
  Ref<Step> step;
  if (later) {
    open = TRY(open_files(files_of(options_), facts_of(&job, granted.id, 0)));
    run_beside_step(options_, "prolog", words_, granted.id, voice_);
    const auto made = create({granted.id, std::move(*later), environment});
    if (!made)
      return Error{};
    step = *made;
  }
  for (const auto& known : granted.answer.steps)
    if (known->number == 0)
      step = known;
  for (int tries = 0; !step; ++tries) {
    const auto known = api_.step(granted.id, 0);
    if (known)
      step = *known;
    else if (known.error().code != Errc::kNotFound || tries == 100)
      return known.error();
    else
      sleep_for(millis(10));
  }
  auto code = accompany(granted.id, step, &end, std::move(open), facts_of(&job, granted.id, step->number),
                        [&](const ExitStatus& worst, std::optional<Duration> within) {
                          (void)api_.end(granted.id, worst, false, within);
                        });
  run_beside_step(options_, "epilog", words_, granted.id, voice_);
  return code;
}

}  // namespace

int srun_main(const ClientContext& context, int argc, char** argv) {
  Voice voice("srun");
  return Srun(context, voice).run(argc, argv);
}

}  // namespace lockstep::slurm
