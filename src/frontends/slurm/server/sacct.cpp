// One function per column over the rows that the history store found; what it cannot filter is filtered here.
#include "frontends/slurm/server/sacct.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/hostlist.h"
#include "base/text.h"
#include "frontends/slurm/server/job_filter.h"
#include "frontends/slurm/server/row_text.h"
#include "frontends/slurm/server/slurm_json.h"
#include "frontends/slurm/server/use_columns.h"
#include "model/job.h"
#include "views/job_names.h"
#include "views/selectors.h"

namespace lockstep::slurm {

namespace {

constexpr StepNo kNoStep = -100;               // the row is the job itself
constexpr std::size_t kHistoryNamesMax = 400;  // each is a condition for the store, which takes a thousand

struct Line {
  const ReadContext& context;
  const JobRow& row;
  bool is_step() const { return row.step != kNoStep; }
};
using Out = std::string&;
using Column = void (*)(Out, const Line&);

void text(Out out, std::string_view value) { append_field_text(out, value); }
template <class Int>
void number(Out out, Int value) {
  append_field_number(out, value);
}

std::string upper(std::string_view text_) {
  std::string out(text_);
  for (char& c : out)
    if (c >= 'a' && c <= 'z')
      c = static_cast<char>(c - 'a' + 'A');
  return out;
}

std::string_view step_suffix(StepNo step, std::string& buffer) {
  if (step == kNoStep)
    return "";
  if (step == kBatchStep)
    return ".batch";
  buffer = format(".{}", step);
  return buffer;
}

std::string job_text(const Line& line) {
  const JobRow& row = line.row;
  std::string suffix;
  const std::string_view step = step_suffix(row.step, suffix);
  if (row.is_element)
    return format("{}_{}{}", row.array_job.value, row.array_index, step);
  // An array's own record stands for its waiting elements; a het job's first component carries the offset.
  if (const Job* job = line.context.tables.job(row.job)) {
    if (job->array && !job->array->waiting.empty())
      return format("{}_[{}{}]", row.job.value, indices_text(job->array->waiting),
                    job->array->throttle ? format("%{}", job->array->throttle) : std::string());
    if (job->spec->groups.size() > 1)
      return format("{}+0{}", row.job.value, step);
  }
  return format("{}{}", row.job.value, step);
}

// The store's words for states are ours in lower case; Slurm has no STARTING.
std::string plain_state(const JobRow& row) {
  const std::string state = upper(row.state);
  return state == "STARTING" ? "RUNNING" : state == "COMPLETING" ? "RUNNING" : state == "ENDED" ? "COMPLETED" : state;
}
constexpr std::array kFromOutside = {std::string_view("cancelled"), std::string_view("deadline"),
                                     std::string_view("node_fail"), std::string_view("preempted"),
                                     std::string_view("requeued"),  std::string_view("timeout")};

bool is_from_outside(std::string_view state) {
  return std::find(kFromOutside.begin(), kFromOutside.end(), state) != kFromOutside.end();
}

// A job that gives its nodes back has ended for whoever asks how; what is left may take an epilog's minutes.
void take_end(const ReadContext& context, JobRow& row) {
  const bool is_script = row.step == kBatchStep;
  if (row.ended_us != 0 || (row.step != kNoStep && !is_script))
    return;
  const Job* job = context.tables.job(row.job);
  const bool ends = job && job->state == JobState::kCompleting && job->attempt == row.attempt && job->ended;
  if (!ends || (is_script && !job->script_use))
    return;
  const bool starts_again = job->requeue_after && job->ending == JobState::kCancelled && !job->cancelled_by;
  row.ended_us = (job->ended + context.wall_offset).us;
  row.exit_code = job->exit.code;
  row.exit_signal = job->exit.signal;
  row.state = starts_again ? "requeued" : lower(slurm_state(job->ending));
  if (!is_script)
    row.reason = as_seen_by(context.tables.jobs.at(job->id), sees_job_as(context.viewer(), *job)).as<Job>()->end_reason;
  else if (is_from_outside(row.state))
    row.state = "cancelled";
  else if (row.state != "out_of_memory")
    row.state = job->exit.code == 0 && job->exit.signal == 0 ? "completed" : "failed";
}

// How a script took the end that others made is the script's line; the job itself did not fail.
void show_end(const ReadContext& context, JobRow& row) {
  take_end(context, row);
  if (row.step == kNoStep && is_from_outside(row.state))
    row.exit_code = row.exit_signal = 0;
}

std::string state_text(const Line& line) {
  std::string state = plain_state(line.row);
  if (state == "CANCELLED" && !line.is_step() && !line.row.cancelled_by.empty()) {
    const User* user = line.context.tables.user_named(line.row.cancelled_by);
    state += " by " + (user ? std::to_string(user->uid) : line.row.cancelled_by);
  }
  return state;
}

std::int64_t now_us(const ReadContext& context) { return (context.now + context.wall_offset).us; }

Duration ran_for(const Line& line) {
  const JobRow& row = line.row;
  const std::int64_t until = row.ended_us ? row.ended_us : row.paused_us ? row.paused_us : now_us(line.context);
  return row.started_us == 0 ? Duration{} : Duration{until - row.started_us - row.suspended_us};
}

// Without pauses, and between whole seconds, as Slurm counts: End - Start where both are shown.
std::int64_t elapsed_seconds(const Line& line) {
  const JobRow& row = line.row;
  if (row.started_us == 0)
    return 0;
  const std::int64_t until = row.ended_us ? row.ended_us : row.paused_us ? row.paused_us : now_us(line.context);
  constexpr std::int64_t kSecond = 1'000'000;
  return std::max<std::int64_t>(0, until / kSecond - row.started_us / kSecond - row.suspended_us / kSecond);
}

std::int64_t suspended_seconds(const Line& line) {
  const JobRow& row = line.row;
  const std::int64_t pauses = row.paused_us ? std::max<std::int64_t>(0, now_us(line.context) - row.paused_us) : 0;
  return (row.suspended_us + pauses) / 1'000'000;
}

JobCounts row_counts(const JobRow& row) {
  JobCounts counts;
  counts.nodes = row.nodes, counts.cpus = row.cores, counts.tasks = row.tasks, counts.gpus = row.devices;
  counts.memory_mb = row.memory_mb;
  // "gpu:h100=8": one type only, else none is named.
  if (row.devices_text.starts_with("gpu:") && row.devices_text.find(',') == std::string::npos)
    counts.gpu_type = row.devices_text.substr(4, row.devices_text.find('=') - 4);
  return counts;
}

const Partition* partition_of(const Line& line) { return line.context.tables.partition(line.row.partition); }

std::string alloc_tres(const Line& line) {
  return line.row.started_us ? tres_text(row_counts(line.row), partition_of(line)) : std::string();
}
std::string asked_tres(const Line& line) {
  JobCounts counts = row_counts(line.row);
  counts.memory_mb = line.row.asked_memory_mb;
  return tres_text(counts, partition_of(line));
}

std::string reason_text(const Line& line) { return line.row.reason.empty() ? "None" : line.row.reason; }

void seconds_of(Out out, std::int64_t us) { number(out, us / 1'000'000); }

struct ColumnDef {
  std::string_view name;
  Column write;
};

constexpr std::array kColumns = {
    ColumnDef{"account", [](Out o, const Line& l) { text(o, l.row.account); }},
    ColumnDef{"alloctres", [](Out o, const Line& l) { text(o, alloc_tres(l)); }},
    ColumnDef{"cluster", [](Out o, const Line& l) { text(o, l.context.cluster_name); }},
    ColumnDef{"comment", [](Out o, const Line& l) { text(o, l.row.comment); }},
    ColumnDef{"cputime", [](Out o, const Line& l) { number(o, elapsed_seconds(l) * l.row.cores); }},
    ColumnDef{"derivedexitcode",
              [](Out o, const Line& l) {
                if (!l.is_step())
                  o += format("{}:{}", l.row.derived_code, l.row.derived_signal);
              }},
    ColumnDef{"elapsed", [](Out o, const Line& l) { number(o, elapsed_seconds(l)); }},
    ColumnDef{"eligible", [](Out o, const Line& l) { seconds_of(o, l.row.eligible_us); }},
    ColumnDef{"empty", [](Out, const Line&) {}},
    ColumnDef{"end", [](Out o, const Line& l) { seconds_of(o, l.row.ended_us); }},
    ColumnDef{"exitcode", [](Out o, const Line& l) { o += format("{}:{}", l.row.exit_code, l.row.exit_signal); }},
    ColumnDef{"gid", [](Out o, const Line& l) { l.is_step() ? void() : number(o, l.row.gid); }},
    ColumnDef{"jobid", [](Out o, const Line& l) { text(o, job_text(l)); }},
    ColumnDef{"jobidraw",
              [](Out o, const Line& l) {
                std::string suffix;
                number(o, l.row.ends_array ? l.row.array_job.value : l.row.job.value);
                o += step_suffix(l.row.step, suffix);
              }},
    ColumnDef{"jobname",
              [](Out o, const Line& l) { text(o, l.row.step == kBatchStep ? std::string_view("batch") : l.row.name); }},
    ColumnDef{"ncpus", [](Out o, const Line& l) { number(o, l.row.cores); }},
    ColumnDef{"nnodes", [](Out o, const Line& l) { number(o, l.row.nodes); }},
    ColumnDef{"nodelist",
              [](Out o, const Line& l) { text(o, l.row.node_list.empty() ? "None assigned" : l.row.node_list); }},
    ColumnDef{"ntasks", [](Out o, const Line& l) { l.is_step() ? number(o, l.row.tasks) : void(); }},
    ColumnDef{"partition", [](Out o, const Line& l) { l.is_step() ? void() : text(o, l.row.partition); }},
    ColumnDef{"planned",
              [](Out o, const Line& l) {
                const std::int64_t until = l.row.started_us ? l.row.started_us : now_us(l.context);
                number(o, l.row.eligible_us ? std::max<std::int64_t>(0, until - l.row.eligible_us) / 1'000'000 : 0);
              }},
    ColumnDef{"priority", [](Out o, const Line& l) { l.is_step() ? void() : number(o, l.row.priority); }},
    ColumnDef{"qos",
              [](Out o, const Line& l) {
                if (!l.is_step())
                  text(o, l.row.qos.empty() ? "normal" : l.row.qos);
              }},
    ColumnDef{"reason", [](Out o, const Line& l) { l.is_step() ? void() : text(o, reason_text(l)); }},
    ColumnDef{"reqmem",
              [](Out o, const Line& l) { l.is_step() ? void() : text(o, memory_text(l.row.asked_memory_mb)); }},
    ColumnDef{"reqtres", [](Out o, const Line& l) { l.is_step() ? void() : text(o, asked_tres(l)); }},
    ColumnDef{"restarts", [](Out o, const Line& l) { number(o, l.row.restarts); }},
    ColumnDef{"start", [](Out o, const Line& l) { seconds_of(o, l.row.started_us); }},
    ColumnDef{"state", [](Out o, const Line& l) { text(o, state_text(l)); }},
    ColumnDef{"submit", [](Out o, const Line& l) { seconds_of(o, l.row.submitted_us); }},
    ColumnDef{"submitline", [](Out o, const Line& l) { text(o, l.row.command); }},
    ColumnDef{"suspended", [](Out o, const Line& l) { number(o, suspended_seconds(l)); }},
    ColumnDef{"timelimit",
              [](Out o, const Line& l) {
                if (!l.is_step())
                  number(o, l.row.limit_s == 0 ? kPartitionLimit : l.row.limit_s);
              }},
    ColumnDef{"totalcpu", [](Out o, const Line& l) { text(o, cpu_text(micros(l.row.cpu_us))); }},
    ColumnDef{"uid", [](Out o, const Line& l) { l.is_step() ? void() : number(o, l.row.uid); }},
    ColumnDef{"user", [](Out o, const Line& l) { l.is_step() ? void() : text(o, l.row.user); }},
    ColumnDef{"wckey", [](Out o, const Line& l) { l.is_step() ? void() : text(o, l.row.wckey); }},
    ColumnDef{"workdir", [](Out o, const Line& l) { l.is_step() ? void() : text(o, l.row.work_dir); }},
};
static_assert(std::is_sorted(kColumns.begin(), kColumns.end(),
                             [](const ColumnDef& a, const ColumnDef& b) { return a.name < b.name; }));

// One of the row itself, or one of what it has used.
struct AskedColumn {
  Column write = nullptr;
  const UseColumn* use = nullptr;

  void operator()(Out out, const Line& line) const {
    const JobRow& row = line.row;
    if (write)
      write(out, line);
    else if (row.use.tasks > 0)  // of a step or script that has ended on a node at least
      text(out, use->text({line.context.tables, row.use, row.job, row.step, row.attempt, ran_for(line),
                           row.nodes == 1 ? std::string_view(row.node_list) : std::string_view()}));
  }
};

Result<AskedColumn> find_column(const std::string& name) {
  if (const UseColumn* const use = use_column(name))
    return AskedColumn{nullptr, use};
  const auto it = std::lower_bound(kColumns.begin(), kColumns.end(), name,
                                   [](const ColumnDef& def, const std::string& wanted) { return def.name < wanted; });
  if (it == kColumns.end() || it->name != name)
    return invalid("no such column: " + name);
  return AskedColumn{it->write, nullptr};
}

struct Ask {
  HistoryQuery query;
  std::set<std::string> qos, nodes;
  bool filters_states = false;
  std::vector<std::string> states;                      // upper case, long forms; may be none that a job can have
  std::vector<std::pair<std::uint64_t, StepNo>> steps;  // "12.0": only these rows
};

// "12.batch", "12_3.0": a job and one of its steps.
Result<void> add_job(Ask& ask, std::string_view name, std::size_t& ranges) {
  if (ask.query.jobs.size() == kHistoryNamesMax)
    return invalid(format("at most {} jobs are named in one question about history: name a span of time, a user or an "
                          "account instead",
                          kHistoryNamesMax),
                   "jobs");
  const auto dot = name.find('.');
  const JobName job = TRY(parse_job_name(name.substr(0, dot), ranges));
  ask.query.jobs.push_back(job.target);
  if (dot == std::string_view::npos)
    return {};
  const std::string_view step = name.substr(dot + 1);
  const auto parsed = step == "batch" ? std::optional<std::int64_t>(kBatchStep) : parse_int(step);
  if (!parsed || *parsed < kBatchStep || *parsed > INT32_MAX)
    return invalid(format("Invalid job id: {}", name), "jobs");
  ask.steps.emplace_back(job.target.job.value, static_cast<StepNo>(*parsed));
  return {};
}

// Login names as they are; of uids, and of the caller, the names by which history knows them.
Result<void> add_users(Ask& ask, const ReadContext& context, const PageRequest& request) {
  std::vector<std::string> words = TRY(parse_names(query_of(request, "user"), "user"));
  if (const auto unknown = unknown_user(context.tables, words))
    return invalid("Invalid user id: " + *unknown, "user");
  if (flag_of(request, "me"))
    words.push_back(context.caller ? context.caller->meta.name : "-");  // nobody's name
  for (const UserId id : users_named(context.tables, words)) {
    const std::string& name = context.tables.user(id)->meta.name;
    if (std::find(words.begin(), words.end(), name) == words.end())
      words.push_back(name);
  }
  ask.query.users = std::move(words);
  return {};
}

// Of Slurm's words for states those that history can tell of. It has no jobs in the others, and says so.
Result<JobStates> accounted_states(std::string_view part) {
  constexpr std::string_view kNever[] = {"CONFIGURING",  "CF", "COMPLETING",    "CG", "REQUEUE_FED", "RF",
                                         "REQUEUE_HOLD", "RH", "RESV_DEL_HOLD", "RD", "SIGNALING",   "SI",
                                         "SPECIAL_EXIT", "SE", "STAGE_OUT",     "SO", "STOPPED",     "ST"};
  const std::string word = upper(trim(part));
  auto set = parse_slurm_states(part);
  if (!set)
    return invalid(format("unrecognized job state value '{}'", part), "states");
  if (std::find(std::begin(kNever), std::end(kNever), word) != std::end(kNever))
    return invalid(format("job state {} is not supported / accounted", part), "states");
  return set;
}

Result<Ask> parse(const ReadContext& context, const PageRequest& request) {
  Ask ask;
  std::size_t ranges = kHistoryNamesMax;
  for (const std::string& name : split_job_names(query_of(request, "jobs"))) TRY(add_job(ask, name, ranges));
  const auto list = [&](std::string_view name) { return parse_names(query_of(request, name), name); };
  TRY(add_users(ask, context, request));
  const std::vector<std::string> accounts = TRY(list("account"));
  ask.query.accounts = accounts;
  for (const std::string& name : accounts)
    if (lower(name) != name)
      ask.query.accounts.push_back(lower(name));
  ask.query.partitions = TRY(list("partition"));
  ask.query.names = TRY(list("name"));
  for (const std::string& qos : TRY(list("qos"))) ask.qos.insert({qos, lower(qos)});
  if (const std::string& nodes = query_of(request, "nodes"); !nodes.empty())
    for (std::string& name : TRY(expand_hostlist(nodes, kHostsAskedMax))) ask.nodes.insert(std::move(name));
  for (const std::string& part : TRY(list("states"))) {
    const JobStates set = TRY(accounted_states(part));
    ask.filters_states = true;
    if (const std::string word = upper(trim(part)); word == "REQUEUED" || word == "RQ")
      ask.states.emplace_back("REQUEUED");  // a run is, and no job in the queue
    for (int s = 0; s <= static_cast<int>(JobState::kBootFail); ++s)
      if (set.has(static_cast<JobState>(s)))
        ask.states.emplace_back(slurm_state(static_cast<JobState>(s)));
  }
  const auto from = parse_int(query_of(request, "from")), to = parse_int(query_of(request, "to"));
  constexpr std::int64_t kLatest = INT64_MAX / 1'000'000 - 1;
  ask.query.from_us = std::clamp<std::int64_t>(from.value_or(0), 0, kLatest) * 1'000'000;
  ask.query.to_us = to ? std::clamp<std::int64_t>(*to, 0, kLatest) * 1'000'000 : INT64_MAX;
  ask.query.steps = !flag_of(request, "allocations");
  ask.query.duplicates = flag_of(request, "duplicates");
  return ask;
}

bool wanted(const Ask& ask, const JobRow& row) {
  if (!ask.qos.empty() && !ask.qos.contains(row.qos.empty() ? "normal" : row.qos))
    return false;
  if (ask.filters_states && std::find(ask.states.begin(), ask.states.end(), plain_state(row)) == ask.states.end())
    return false;
  if (!ask.steps.empty() && std::none_of(ask.steps.begin(), ask.steps.end(), [&](const auto& step) {
        return step.second == row.step && (step.first == row.job.value || step.first == row.array_job.value);
      }))
    return false;
  if (ask.nodes.empty())
    return true;
  const auto names = expand_hostlist(row.node_list);
  return names &&
         std::any_of(names->begin(), names->end(), [&](const std::string& n) { return ask.nodes.contains(n); });
}

Result<std::vector<JobRow>> rows_for(const ReadContext& context, const PageRequest& request) {
  const Ask ask = TRY(parse(context, request));
  if (!context.history)
    return Error{Errc::kUnavailable, "there is no accounting store", {}};
  std::vector<JobRow> rows = TRY(context.history(ask.query));
  for (JobRow& row : rows) show_end(context, row);
  std::erase_if(rows, [&](const JobRow& row) { return !wanted(ask, row); });
  return rows;
}

PageReply failure(const Error& error) {
  return refusal(error.code == Errc::kInvalid ? 400 : error.code == Errc::kExhausted ? 413 : 503, error.message);
}

}  // namespace

PageReply sacct_page(const ReadContext& context, const PageRequest& request) {
  const auto names = columns_of(request);
  if (!names)
    return refusal(400, names.error().message);
  std::vector<AskedColumn> columns;
  for (const std::string& name : *names) {
    const auto column = find_column(name);
    if (!column)
      return refusal(400, column.error().message);
    columns.push_back(*column);
  }
  if (columns.empty())
    return refusal(400, "columns are missing");
  auto rows = rows_for(context, request);
  if (!rows)
    return failure(rows.error());
  PageReply reply;
  reply.more = [&context, columns, rows = std::make_shared<const std::vector<JobRow>>(std::move(*rows)),
                at = std::size_t{0}](std::string& body) mutable {
    constexpr std::size_t kAtOnce = 256;
    for (std::size_t n = 0; n < kAtOnce && at < rows->size(); ++n, ++at) {
      const Line line{context, (*rows)[at]};
      for (const AskedColumn& column : columns) {
        column(body, line);
        body += '\t';
      }
      body.back() = '\n';
    }
    return at < rows->size();
  };
  return reply;
}

PageReply sacct_json_page(const ReadContext& context, const PageRequest& request) {
  const auto rows = rows_for(context, request);
  if (!rows)
    return failure(rows.error());
  SlurmJson json;
  json.open('{');
  json.key("jobs").open('[');
  for (std::size_t i = 0; i < rows->size();) {
    const JobRow& job = (*rows)[i];
    const Line line{context, job};
    json.open('{');
    json.key("job_id").number(static_cast<std::int64_t>(job.job.value));
    json.key("name").text(job.name);
    json.key("user").text(job.user);
    json.key("account").text(job.account);
    json.key("partition").text(job.partition);
    json.key("qos").text(job.qos.empty() ? "normal" : job.qos);
    json.key("cluster").text(context.cluster_name);
    json.key("nodes").text(job.node_list.empty() ? "None assigned" : job.node_list);
    json.key("working_directory").text(job.work_dir);
    json.key("submit_line").text(job.command);
    json.key("allocation_nodes").number(job.nodes);
    json.key("restart_cnt").number(job.restarts);
    json.key("comment").open('{').key("job").text(job.comment).close('}');
    json.key("array").open('{').key("job_id").number(static_cast<std::int64_t>(job.array_job.value)).key("task_id");
    json.set_number(job.is_element, job.array_index).close('}');
    json.key("state").open('{').key("current").open('[').text(plain_state(job)).close(']');
    json.key("reason").text(reason_text(line)).close('}');
    json.key("exit_code");
    json.exit_code(job.exit_code, job.exit_signal);
    json.key("derived_exit_code");
    json.exit_code(job.derived_code, job.derived_signal);
    json.key("time").open('{');
    json.key("submission").number(job.submitted_us / 1'000'000).key("eligible").number(job.eligible_us / 1'000'000);
    json.key("start").number(job.started_us / 1'000'000).key("end").number(job.ended_us / 1'000'000);
    json.key("elapsed").number(elapsed_seconds(line)).key("suspended").number(suspended_seconds(line));
    json.key("limit").open('{').key("set").boolean(job.limit_s > 0).key("infinite").boolean(job.limit_s < 0);
    json.key("number").number(std::max<std::int64_t>(0, job.limit_s / 60)).close('}').close('}');
    json.key("required").open('{').key("CPUs").number(job.cores).close('}');
    json.key("tres")
        .open('{')
        .key("allocated")
        .tres(row_counts(job), line.context.tables.partition(job.partition))
        .close('}');
    json.key("steps").open('[');
    for (++i; i < rows->size() && (*rows)[i].step != kNoStep && (*rows)[i].job == job.job; ++i) {
      const JobRow& step = (*rows)[i];
      const Line step_line{context, step};
      json.open('{').key("step").open('{').key("id").text(job_text(step_line));
      json.key("name").text(step.step == kBatchStep ? "batch" : step.name).close('}');
      json.key("state").open('[').text(plain_state(step)).close(']');
      json.key("exit_code");
      json.exit_code(step.exit_code, step.exit_signal);
      json.key("nodes").open('{').key("count").number(step.nodes).key("range").text(step.node_list).close('}');
      json.key("tasks").open('{').key("count").number(step.tasks).close('}');
      json.key("time").open('{').key("start").open('{').key("set").boolean(true).key("number");
      json.number(step.started_us / 1'000'000).close('}');
      json.key("elapsed").number(elapsed_seconds(step_line)).close('}').close('}');
    }
    json.close(']').close('}');
  }
  json.close(']');
  json.tail();
  json.close('}');
  return {200, "application/json", json.take(), {}};
}

}  // namespace lockstep::slurm
