// One small function per column. They append to the reply directly: at 50,000 jobs every temporary would show.
#include "frontends/slurm/server/squeue.h"

#include <algorithm>
#include <array>

#include "base/hostlist.h"
#include "base/text.h"
#include "frontends/slurm/server/environment.h"
#include "frontends/slurm/server/job_filter.h"
#include "frontends/slurm/server/patterns.h"
#include "frontends/slurm/server/row_text.h"

namespace lockstep::slurm {

namespace {

using Out = std::string&;
using Line = const JobLine&;
using Column = void (*)(Out, Line);

void text(Out out, std::string_view value) { append_field_text(out, value); }
void text_or(Out out, std::string_view value, std::string_view otherwise) {
  text(out, value.empty() ? otherwise : value);
}
template <class Int>
void number(Out out, Int value) {
  append_field_number(out, value);
}

void reason_or_nodes(Out out, Line line) {
  if (line.job->state == JobState::kPending || (is_final(line.job->state) && !line.job->exit.ok())) {
    const Reason reason = slurm_reason_parts(*line.job, line.note);
    out += '(';
    text(out, reason.word);
    if (!reason.detail.empty())
      text(out += ", ", reason.detail);
    out += ')';
  } else {
    text(out, node_list(line));
  }
}

void job_label_column(Out out, Line line) {
  // The common case without a temporary string.
  if (!line.job->array && !line.job->array_job && line.spec().groups.size() == 1)
    number(out, line.job->id.value);
  else
    text(out, job_label(line));
}

void partition_column(Out out, Line line) {
  if (line.job->allocation)
    text(out, line.job->allocation->partition);
  else if (line.spec().partitions.size() == 1)
    text(out, line.spec().partitions.front());
  else
    text(out, partition_text(line));
}

void user_column(Out out, Line line) {
  const User* user = line.context->tables.user(line.spec().user);
  text(out, user ? std::string_view(user->meta.name) : std::string_view("nobody"));
}

void std_file(Out out, Line line, const std::string& pattern, std::string_view otherwise) {
  if (!line.tells(&JobSpec::std_out))
    return text(out, "(null)");
  PatternFacts facts;
  const Job& job = *line.job;
  facts.job = job.id;
  facts.array_job = job.array_job;
  facts.array_index = job.array_index;
  facts.user = user_name(*line.context, line.spec().user);
  facts.job_name = line.spec().name;
  facts.node = first_node(line);
  facts.node.resize(std::min(facts.node.size(), facts.node.find('.')));
  text(out, expand_path(pattern.empty() ? otherwise : std::string_view(pattern), facts, line.spec().work_dir));
}
void std_out_column(Out out, Line line) { std_file(out, line, line.spec().std_out, default_output_pattern(*line.job)); }
void std_err_column(Out out, Line line) {
  std_file(out, line, line.spec().std_err.empty() ? line.spec().std_out : line.spec().std_err,
           default_output_pattern(*line.job));
}

std::string option_text(Line line, std::string_view name) {
  const std::string* value = size_option(line.spec(), name);
  return value ? *value : std::string();
}

template <class Get>
void option_column(Out out, Line line, std::string_view name, Get otherwise) {
  const std::string value = option_text(line, name);
  text_or(out, value, otherwise);
}

std::int64_t min_memory_mb(Line line) {
  const GroupSpec& group = line.group_spec();
  if (group.memory_per_core_mb > 0)
    return group.memory_per_core_mb;
  return group.per_node.memory_mb;
}

void time_left(Out out, Line line) {
  const std::int64_t limit = limit_seconds(line);
  number(out, limit < 0 ? limit : std::max<std::int64_t>(0, limit - used_seconds(line)));
}

struct ColumnDef {
  std::string_view name;
  Column write;
};

// Sorted by name. The names are squeue's own (--Format), without dashes and underscores.
constexpr std::array kColumns = {
    ColumnDef{"account", [](Out o, Line l) { text_or(o, account_of(l), "(null)"); }},
    ColumnDef{"accruetime", [](Out o, Line l) { number(o, wall_seconds(*l.context, l.job->eligible)); }},
    ColumnDef{"arrayjobid",
              [](Out o, Line l) { number(o, l.job->array_job ? l.job->array_job.value : l.job->id.value); }},
    ColumnDef{"arraytaskid", [](Out o, Line l) { text(o, array_indices(l)); }},
    ColumnDef{"batchflag", [](Out o, Line l) { number(o, l.group_spec().launch == Launch::kScript ? 1 : 0); }},
    ColumnDef{"batchhost",
              [](Out o, Line l) {
                text_or(o, first_node(l), "n/a");
              }},
    ColumnDef{"cluster", [](Out o, Line l) { text(o, l.context->cluster_name); }},
    ColumnDef{"command", [](Out o, Line l) { text_or(o, l.spec().command, "(null)"); }},
    ColumnDef{"comment", [](Out o, Line l) { text_or(o, l.spec().comment, "(null)"); }},
    ColumnDef{"contiguous", [](Out o, Line) { o += '0'; }},
    ColumnDef{"cores", [](Out o, Line) { o += '*'; }},
    ColumnDef{"corespec", [](Out o, Line) { text(o, "N/A"); }},
    ColumnDef{"cpuspertask", [](Out o, Line l) { number(o, std::max(1u, l.group_spec().per_task.cores)); }},
    ColumnDef{"deadline", [](Out o, Line l) { number(o, l.spec().deadline.seconds()); }},
    ColumnDef{"dependency", [](Out o, Line l) { text_or(o, dependency_text(*l.job), "(null)"); }},
    ColumnDef{"derivedec",
              [](Out o, Line l) {
                number(o, l.job->derived_exit.code), o += ':', number(o, l.job->derived_exit.signal);
              }},
    ColumnDef{"eligibletime", [](Out o, Line l) { number(o, eligible_seconds(l)); }},
    ColumnDef{"endtime", [](Out o, Line l) { number(o, end_seconds(l)); }},
    ColumnDef{"excnodes", [](Out o, Line l) { text(o, compress_hostlist(l.group_spec().exclude_nodes)); }},
    ColumnDef{"exitcode",
              [](Out o, Line l) { number(o, l.job->exit.code), o += ':', number(o, l.job->exit.signal); }},
    ColumnDef{"feature", [](Out o, Line l) { text_or(o, l.group_spec().constraint, "(null)"); }},
    ColumnDef{"groupid",
              [](Out o, Line l) {
                const User* user = l.context->tables.user(l.spec().user);
                number(o, user ? user->gid : 0);
              }},
    ColumnDef{"hetjobid", [](Out o, Line l) { l.spec().groups.size() > 1 ? number(o, l.job->id.value) : text(o, "N/A"); }},
    ColumnDef{"hetjoboffset", [](Out o, Line l) { l.spec().groups.size() > 1 ? number(o, l.group) : text(o, "N/A"); }},
    ColumnDef{"idorder",  // by which squeue sorts ids: an array's elements stay together
              [](Out o, Line l) {
                const Job& j = *l.job;
                o += format("{:020}{:010}", j.array_job ? j.array_job.value : j.id.value,
                            j.array_job        ? j.array_index
                            : l.one_waiting    ? l.waiting_index
                            : j.array && !j.array->waiting.empty() ? j.array->waiting.front()
                                                                   : l.group);
              }},
    ColumnDef{"jobarrayid", job_label_column},
    ColumnDef{"jobid", [](Out o, Line l) { number(o, l.job->id.value); }},
    ColumnDef{"licenses", [](Out o, Line l) { text_or(o, l.spec().licenses, "(null)"); }},
    ColumnDef{"maxcpus", [](Out o, Line) { o += '0'; }},
    ColumnDef{"maxnodes", [](Out o, Line l) { number(o, l.group_spec().nodes.max); }},
    ColumnDef{"mcslabel", [](Out o, Line) { text(o, "N/A"); }},
    ColumnDef{"mincpus",
              [](Out o, Line l) { number(o, min_cores_on_node(l.group_spec())); }},
    ColumnDef{"minmemory", [](Out o, Line l) { text(o, memory_text(min_memory_mb(l))); }},
    ColumnDef{"mintime", [](Out o, Line l) { number(o, l.spec().time_min.us ? l.spec().time_min.seconds() : -2); }},
    ColumnDef{"mintmpdisk", [](Out o, Line l) { number(o, l.group_spec().tmp_disk_mb); }},
    ColumnDef{"name", [](Out o, Line l) { text(o, l.spec().name); }},
    ColumnDef{"nice", [](Out o, Line l) { number(o, l.spec().nice); }},
    ColumnDef{"nodelist", [](Out o, Line l) { text(o, node_list(l)); }},
    ColumnDef{"ntpernode", [](Out o, Line l) { option_column(o, l, "ntasks-per-node", "N/A"); }},
    ColumnDef{"numcpus", [](Out o, Line l) { number(o, job_counts(l).cpus); }},
    ColumnDef{"numnodes", [](Out o, Line l) { number(o, job_counts(l).nodes); }},
    ColumnDef{"numtasks", [](Out o, Line l) { number(o, job_counts(l).tasks); }},
    ColumnDef{"oversubscribe",
              [](Out o, Line l) {
                switch (l.group_spec().sharing) {
                  case Sharing::kShared: text(o, "OK"); break;
                  case Sharing::kExclusive: text(o, "NO"); break;
                  case Sharing::kExclusiveUser: text(o, "USER"); break;
                }
              }},
    ColumnDef{"partition", partition_column},
    ColumnDef{"priority",
              [](Out o, Line l) { o += format("{:.14f}", static_cast<double>(shown_priority(*l.job)) / 4294967296.0); }},
    ColumnDef{"prioritylong", [](Out o, Line l) { number(o, shown_priority(*l.job)); }},
    ColumnDef{"qos", [](Out o, Line l) { text_or(o, l.spec().qos, "normal"); }},
    ColumnDef{"reason", [](Out o, Line l) { text(o, slurm_reason(*l.job, l.note)); }},
    ColumnDef{"reasonlist", reason_or_nodes},
    ColumnDef{"reboot", [](Out o, Line) { o += '0'; }},
    ColumnDef{"reqnodes", [](Out o, Line l) { text(o, compress_hostlist(l.group_spec().only_nodes)); }},
    ColumnDef{"reqswitch", [](Out o, Line l) { number(o, l.group_spec().switches_max); }},
    ColumnDef{"requeue", [](Out o, Line l) { o += l.spec().requeue ? '1' : '0'; }},
    ColumnDef{"reservation", [](Out o, Line l) { text_or(o, l.spec().reservation, "(null)"); }},
    ColumnDef{"restartcnt", [](Out o, Line l) { number(o, restarts_of(*l.job)); }},
    ColumnDef{"schednodes", [](Out o, Line l) { text_or(o, expected_node_list(l), "(null)"); }},
    ColumnDef{"sct", [](Out o, Line) { text(o, "*:*:*"); }},
    ColumnDef{"sockets", [](Out o, Line) { o += '*'; }},
    ColumnDef{"starttime", [](Out o, Line l) { number(o, start_seconds(l)); }},
    ColumnDef{"state", [](Out o, Line l) { text(o, slurm_state(*l.job)); }},
    ColumnDef{"statecompact", [](Out o, Line l) { text(o, slurm_state_compact(*l.job)); }},
    ColumnDef{"stateorder", [](Out o, Line l) { number(o, slurm_state_order(l.job->state)); }},
    ColumnDef{"stderr", std_err_column},
    ColumnDef{"stdin", [](Out o, Line l) { std_file(o, l, l.spec().std_in, "/dev/null"); }},
    ColumnDef{"stdout", std_out_column},
    ColumnDef{"submittime", [](Out o, Line l) { number(o, wall_seconds(*l.context, l.job->submitted)); }},
    ColumnDef{"threads", [](Out o, Line) { o += '*'; }},
    ColumnDef{"timeleft", time_left},
    ColumnDef{"timelimit", [](Out o, Line l) { number(o, limit_seconds(l)); }},
    ColumnDef{"timeused", [](Out o, Line l) { number(o, used_seconds(l)); }},
    ColumnDef{"tresalloc", [](Out o, Line l) { text(o, tres_text(job_counts(l), partition_of(l))); }},
    ColumnDef{"trespernode", [](Out o, Line l) { text_or(o, tres_per_node(l.spec()), "N/A"); }},
    ColumnDef{"userid",
              [](Out o, Line l) {
                const User* user = l.context->tables.user(l.spec().user);
                number(o, user ? user->uid : 65534);
              }},
    ColumnDef{"username", user_column},
    ColumnDef{"wckey", [](Out o, Line l) { text_or(o, l.spec().wckey, "(null)"); }},
    ColumnDef{"workdir", [](Out o, Line l) { text(o, l.spec().work_dir); }},
};
static_assert(std::is_sorted(kColumns.begin(), kColumns.end(),
                             [](const ColumnDef& a, const ColumnDef& b) { return a.name < b.name; }));

using StepColumn = void (*)(Out, const ReadContext&, const Job&, const Step&);
struct StepColumnDef {
  std::string_view name;
  StepColumn write;
};

std::string step_nodes(const ReadContext& context, const Step& step) {
  std::vector<std::string> names;
  for (const StepPlace& place : step.places)
    if (const Node* node = context.tables.node(place.node))
      names.push_back(node->meta.name);
  return compress_hostlist(names);
}

constexpr std::array kStepColumns = {
    StepColumnDef{"arrayjobid", [](Out o, const ReadContext&, const Job& j,
                                   const Step&) { number(o, j.array_job ? j.array_job.value : j.id.value); }},
    StepColumnDef{"idorder", [](Out o, const ReadContext&, const Job& j,
                                const Step& s) { o += format("{:020}{:010}", j.id.value, s.number); }},
    StepColumnDef{"name", [](Out o, const ReadContext&, const Job&, const Step& s) { text(o, s.spec->name); }},
    StepColumnDef{"nodelist",
                  [](Out o, const ReadContext& c, const Job&, const Step& s) { text(o, step_nodes(c, s)); }},
    StepColumnDef{"numtasks",
                  [](Out o, const ReadContext&, const Job&, const Step& s) {
                    std::size_t tasks = 0;
                    for (const StepPlace& place : s.places) tasks += place.ranks.size();
                    number(o, tasks);
                  }},
    StepColumnDef{"partition", [](Out o, const ReadContext& c, const Job& j,
                                  const Step&) { text(o, partition_text(job_line(c, j))); }},
    StepColumnDef{"starttime", [](Out o, const ReadContext& c, const Job&,
                                  const Step& s) { number(o, wall_seconds(c, s.started)); }},
    StepColumnDef{"stepid",
                  [](Out o, const ReadContext&, const Job& j, const Step& s) {
                    if (j.array_job)
                      o += format("{}_{}.{}", j.array_job.value, j.array_index, s.number);
                    else
                      o += format("{}.{}", j.id.value, s.number);
                  }},
    StepColumnDef{"timeused",
                  [](Out o, const ReadContext& c, const Job&, const Step& s) {
                    number(o, s.started ? std::max<std::int64_t>(0, (c.now - s.started).seconds()) : 0);
                  }},
    StepColumnDef{"userid",
                  [](Out o, const ReadContext& c, const Job&, const Step& s) {
                    const User* user = c.tables.user(s.user);
                    number(o, user ? user->uid : 65534);
                  }},
    StepColumnDef{"username",
                  [](Out o, const ReadContext& c, const Job&, const Step& s) { text(o, user_name(c, s.user)); }},
};

template <class Table>
auto find_columns(const Table& table, const PageRequest& request) -> Result<std::vector<decltype(table[0].write)>> {
  std::vector<decltype(table[0].write)> columns;
  for (const std::string& name : TRY(columns_of(request))) {
    const auto it = std::lower_bound(table.begin(), table.end(), name,
                                     [](const auto& def, const std::string& wanted) { return def.name < wanted; });
    if (it == table.end() || it->name != name)
      return invalid("no such column: " + name, "columns");
    columns.push_back(it->write);
  }
  if (columns.empty())
    return invalid("columns are missing", "columns");
  return columns;
}

}  // namespace

PageReply squeue_page(const ReadContext& context, const PageRequest& request) {
  auto columns = find_columns(kColumns, request);
  if (!columns)
    return refusal(400, columns.error().message);
  auto filter = JobFilter::parse(context, request);
  if (!filter)
    return refusal(filter.error().code == Errc::kNotFound ? 404 : 400, filter.error().message);
  const auto cursor = std::make_shared<JobCursor>(context, std::move(*filter));
  PageReply reply;
  reply.body.reserve(std::min<std::size_t>(cursor->jobs(), 100'000) * 96);
  // The columns of a request may be many, and the same one may come again and again.
  constexpr std::size_t kColumnsAtOnce = 64 * 16;
  const std::size_t at_once = std::clamp<std::size_t>(kColumnsAtOnce / columns->size(), 1, 64);
  reply.more = [columns = std::move(*columns), cursor, at_once](std::string& body) {
    return cursor->next(
        [&](const JobLine& line) {
          for (const Column column : columns) {
            column(body, line);
            body += '\t';
          }
          body.back() = '\n';
        },
        at_once);
  };
  return reply;
}

namespace {

// The steps of the jobs that a filter selects, some at a time: one job may have very many.
class StepCursor {
 public:
  StepCursor(const ReadContext& context, JobFilter filter) : context_(context), jobs_(context, std::move(filter)) {}

  // Calls f(const Job&, const Step&) for steps that have not ended.
  template <class F>
  bool next(F&& f) {
    constexpr std::size_t kAtOnce = 256, kPlaces = 64;  // so many parts are as much work as a short line
    const auto& steps = context_.tables.steps;
    for (std::size_t looked = 0; at_ < ids_.size() && looked < kAtOnce; ++looked) {
      const auto step = steps.lower_bound({ids_[at_], next_});
      const bool found = step != steps.end() && step->first.first == ids_[at_];
      at_ += !found;
      next_ = found ? step->first.second + 1 : INT32_MIN;
      const Job* job = found ? context_.tables.job(step->first.first) : nullptr;
      if (!job || step->second->state == StepState::kEnded)
        continue;
      looked += step->second->places.size() / kPlaces;
      f(*job, *step->second);
    }
    if (at_ < ids_.size())
      return true;
    ids_.clear();
    at_ = 0;
    return jobs_.next([&](const JobLine& line) {
      if (line.group == 0 && !line.one_waiting)
        ids_.push_back(line.job->id);
    }) || !ids_.empty();
  }

 private:
  const ReadContext& context_;
  JobCursor jobs_;
  std::vector<JobId> ids_;
  std::size_t at_ = 0;
  StepNo next_ = INT32_MIN;  // of that job: the steps below have been listed
};

}  // namespace

PageReply steps_page(const ReadContext& context, const PageRequest& request) {
  auto columns = find_columns(kStepColumns, request);
  if (!columns)
    return refusal(400, columns.error().message);
  auto filter = JobFilter::parse(context, request);
  if (!filter)
    return refusal(filter.error().code == Errc::kNotFound ? 404 : 400, filter.error().message);
  PageReply reply;
  reply.more = [&context, columns = std::move(*columns),
                cursor = std::make_shared<StepCursor>(context, std::move(*filter))](std::string& body) {
    return cursor->next([&](const Job& job, const Step& step) {
      for (const StepColumn column : columns) {
        column(body, context, job, step);
        body += '\t';
      }
      body.back() = '\n';
    });
  };
  return reply;
}

}  // namespace lockstep::slurm
