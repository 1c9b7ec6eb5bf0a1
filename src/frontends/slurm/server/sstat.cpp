#include "frontends/slurm/server/sstat.h"

#include <algorithm>
#include <array>

#include "base/hostlist.h"
#include "base/text.h"
#include "frontends/slurm/server/job_filter.h"
#include "frontends/slurm/server/row_text.h"
#include "frontends/slurm/server/use_columns.h"
#include "model/job.h"
#include "model/step.h"
#include "views/job_names.h"
#include "views/selectors.h"

namespace lockstep::slurm {

namespace {

constexpr std::size_t kStatNamesMax = 1000;

// A step, or a job's script.
struct RunningPart {
  const ReadContext& context;
  const Job& job;
  const Step* step = nullptr;  // null: the script

  StepNo number() const { return step ? step->number : kBatchStep; }
  WorkPart part() const { return step ? WorkPart(StepPart{step->number}) : WorkPart(ScriptPart{}); }
  std::vector<std::string> nodes() const {
    std::vector<std::string> names;
    const auto add = [&](NodeId id) {
      if (const Node* node = context.tables.node(id))
        names.push_back(node->meta.name);
    };
    if (!step)
      add(job.allocation->grants.front().node);
    else
      for (const StepPlace& place : step->places) add(place.node);
    sort_hosts(names);
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
  }
  std::size_t tasks() const {
    std::size_t count = step ? 0 : 1;
    if (step)
      for (const StepPlace& place : step->places) count += place.ranks.size();
    return count;
  }
};

using PartText = std::string (*)(const RunningPart&);
struct PartColumn {
  std::string_view name;
  PartText text;
};
constexpr PartColumn kPartColumns[] = {
    {"empty", [](const RunningPart&) { return std::string(); }},
    {"jobid", [](const RunningPart& p) { return format("{}.{}", p.job.id.value, step_text(p.number())); }},
    {"nodelist", [](const RunningPart& p) { return compress_hostlist(p.nodes()); }},
    {"ntasks", [](const RunningPart& p) { return std::to_string(p.tasks()); }},
};

struct AskedPartColumn {
  PartText text = nullptr;
  const UseColumn* use = nullptr;
};

Result<std::vector<AskedPartColumn>> asked_columns(const PageRequest& request) {
  std::vector<AskedPartColumn> columns;
  for (const std::string& name : TRY(columns_of(request))) {
    const auto own = std::find_if(std::begin(kPartColumns), std::end(kPartColumns),
                                  [&](const PartColumn& one) { return one.name == name; });
    const UseColumn* const use = use_column(name);
    if (own == std::end(kPartColumns) && !use)
      return invalid("no such column: " + name, "columns");
    columns.push_back({use ? nullptr : own->text, use});
  }
  if (columns.empty())
    return invalid("columns are missing", "columns");
  return columns;
}

void write_part(std::string& out, const RunningPart& part, const std::vector<AskedPartColumn>& columns) {
  const WorkUse use = part.context.live ? part.context.live->work(part.job, part.part()) : WorkUse{};
  const auto nodes = part.nodes();
  const Instant since = part.step ? part.step->started : part.job.started;
  const UseLine line{part.context.tables,
                     use,
                     part.job.id,
                     part.number(),
                     part.job.attempt,
                     since ? part.context.now - since : Duration{},
                     nodes.size() == 1 ? std::string_view(nodes.front()) : std::string_view()};
  for (const AskedPartColumn& column : columns) {
    if (column.text)
      append_field_text(out, column.text(part));
    else if (use.tasks > 0)  // it has been measured
      append_field_text(out, column.use->text(line));
    out += '\t';
  }
  out.back() = '\n';
}

bool runs_now(const Job& job) {
  return job.allocation && (job.state == JobState::kRunning || job.state == JobState::kSuspended ||
                            job.state == JobState::kCompleting || job.state == JobState::kStarting);
}

// What is asked for, one after the other: a job may have very many steps.
class PartCursor {
 public:
  PartCursor(const ReadContext& context, std::vector<AskedPartColumn> columns, bool all)
      : context_(context), columns_(std::move(columns)), all_(all) {}

  void add(const std::vector<WorkName>& names) {
    std::vector<JobTarget> targets;
    for (const WorkName& name : names) targets.push_back(name.target);
    JobSelector selector;
    selector.targets = TargetList(std::move(targets));
    for_each_job(context_.tables, selector, [&](const Ref<Job>& job) {
      if (!context_.viewer().owns(*job) || !runs_now(*job))
        return;
      for (const WorkName& name : names)
        if (is_target(name.target, *job))
          asked_.push_back({job->id, name.step});
    });
  }

  // False: that was the last piece.
  bool next(std::string& body) {
    constexpr std::size_t kAtOnce = 128;
    for (std::size_t looked = 0; at_ < asked_.size() && looked < kAtOnce; ++looked) look(body);
    return at_ < asked_.size();
  }

 private:
  struct AskedPart {
    JobId job;
    std::optional<StepNo> step;
  };

  void look(std::string& body) {
    const AskedPart& asked = asked_[at_];
    const Job* job = context_.tables.job(asked.job);
    if (!job || !runs_now(*job))
      return go_on();
    const bool has_script = job->spec->groups.front().launch == Launch::kScript && !job->script_use;
    const bool wants_script = asked.step ? *asked.step == kBatchStep : all_;
    if (next_ == INT32_MIN && wants_script && has_script)
      write_part(body, {context_, *job, nullptr}, columns_);
    if (asked.step == kBatchStep)
      return go_on();
    next_ = std::max(next_, asked.step.value_or(0));
    const auto at = context_.tables.steps.lower_bound({asked.job, next_});
    if (at == context_.tables.steps.end() || at->first.first != asked.job ||
        (asked.step && at->first.second != *asked.step))
      return go_on();
    const Step& step = *at->second;
    next_ = step.number + 1;
    if (step.state != StepState::kRunning || step.attempt != job->attempt)
      return asked.step ? go_on() : void();
    write_part(body, {context_, *job, &step}, columns_);
    if (!all_ || asked.step)
      go_on();
  }
  void go_on() {
    ++at_;
    next_ = INT32_MIN;
  }

  const ReadContext& context_;
  std::vector<AskedPartColumn> columns_;
  bool all_;
  std::vector<AskedPart> asked_;
  std::size_t at_ = 0;
  StepNo next_ = INT32_MIN;  // of that job: what is below has been looked at
};

}  // namespace

PageReply sstat_page(const ReadContext& context, const PageRequest& request) {
  auto columns = asked_columns(request);
  if (!columns)
    return refusal(400, columns.error().message);
  const auto names = parse_work_names(query_of(request, "jobs"));
  if (!names)
    return refusal(400, names.error().message);
  if (names->empty())
    return refusal(400, "no jobs are named");
  if (names->size() > kStatNamesMax)
    return refusal(400, format("at most {} jobs and steps are named at once", kStatNamesMax));
  const auto cursor = std::make_shared<PartCursor>(context, std::move(*columns), flag_of(request, "allsteps"));
  cursor->add(*names);
  PageReply reply;
  reply.more = [cursor](std::string& body) { return cursor->next(body); };
  return reply;
}

}  // namespace lockstep::slurm
