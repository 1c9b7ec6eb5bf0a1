#include "frontends/slurm/server/job_filter.h"

#include <algorithm>

#include "base/items.h"
#include "base/text.h"
#include "model/job.h"
#include "model/spec.h"
#include "views/job_names.h"
#include "views/shown_text.h"

namespace lockstep::slurm {

namespace {

using Words = JobSelector::Words;

// Nothing when no word is given.
std::optional<Words> words_of(const PageRequest& request, std::string_view name) {
  const auto items = items_of(query_of(request, name));
  Words words(items.begin(), items.end());
  return words.empty() ? std::nullopt : std::optional(std::move(words));
}

// Accounts and QOS have no capitals in Slurm, which folds those that are asked for.
std::optional<Words> names_of(const PageRequest& request, std::string_view key) {
  auto names = words_of(request, key);
  if (names)
    for (const std::string& part : items_of(query_of(request, key))) names->insert(lower(part));
  return names;
}

Result<std::set<UserId>> parse_users(const Tables& tables, const Words& words) {
  const std::vector<std::string> named(words.begin(), words.end());
  std::vector<std::string> unknown;
  for (const std::string& word : named)
    if (unknown_user(tables, {word}))
      unknown.push_back(word);
  if (!unknown.empty())  // all of them, so that who leaves them out asks once more
    return invalid("Invalid user: " + join(unknown, ","), "user");
  return users_named(tables, named);
}

// The waiting elements from `first` on, as a label shows them.
std::string rest_text(const IntervalSet& waiting, const IntervalSet* named, std::uint32_t first) {
  IntervalSet rest;
  for (std::optional<std::uint32_t> at = first; at && rest.intervals().size() < kIndicesShown;) {
    const auto end_in = [&](const IntervalSet& set) {
      return std::lower_bound(set.intervals().begin(), set.intervals().end(), *at,
                              [](const Interval& part, std::uint32_t value) { return part.high < value; })
          ->high;
    };
    const std::uint32_t last = named ? std::min(end_in(waiting), end_in(*named)) : end_in(waiting);
    rest.insert(*at, last);
    at = next_in(waiting, named, std::uint64_t{last} + 1);
  }
  return indices_text(rest);
}

}  // namespace

const std::string& query_of(const PageRequest& request, std::string_view name) {
  static const std::string kNone;
  const auto it = request.query.find(name);
  return it == request.query.end() ? kNone : it->second;
}

bool is_given(const PageRequest& request, std::string_view name) { return request.query.contains(name); }

bool flag_of(const PageRequest& request, std::string_view name) { return query_of(request, name) == "1"; }

Result<std::vector<std::string>> columns_of(const PageRequest& request) {
  std::vector<std::string> names = items_of(query_of(request, "columns"));
  std::set<std::string_view> seen;
  for (const std::string& name : names)
    if (!seen.insert(name).second)
      return invalid(format("column {} is asked for twice: ask for each once", name.substr(0, 60)), "columns");
  return names;
}

PageReply refusal(int status, std::string message) { return {status, "text/plain; charset=utf-8", shown(message), {}}; }

std::vector<std::string> split_job_names(std::string_view text) {
  std::vector<std::string> parts;
  std::string part;
  int depth = 0;
  for (const char c : text) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c == ',' && depth == 0)
      parts.push_back(std::move(part)), part.clear();
    else
      part += c;
  }
  parts.push_back(std::move(part));
  std::erase(parts, "");
  return parts;
}

Result<JobName> parse_job_name(std::string_view text, std::size_t& ranges) {
  JobName name;
  const auto bad = [&] { return invalid(format("Invalid job id: {}", text), "jobs"); };
  const auto at = text.find_first_of("_+");
  const auto id = parse_uint(text.substr(0, at));
  if (!id || *id == 0)
    return bad();
  name.target.job = JobId(*id);
  if (at == std::string_view::npos)
    return name;
  std::string_view rest = text.substr(at + 1);
  if (text[at] == '+') {
    const auto group = parse_uint(rest);
    if (!group || *group > UINT16_MAX)
      return bad();
    name.group = static_cast<std::uint16_t>(*group);
    return name;
  }
  if (rest.starts_with('[') && rest.ends_with(']'))
    rest = rest.substr(1, rest.size() - 2);
  auto elements = parse_indices(rest.substr(0, rest.find('%')), ranges);
  if (!elements)
    return elements.error().message.starts_with("at most") ? elements.error() : bad();
  name.target.elements = std::move(*elements);
  return name;
}

Result<std::vector<JobName>> parse_job_names(std::string_view text) {
  std::vector<JobName> names;
  std::size_t ranges = kIndexRangesMax;
  for (const std::string& part : split_job_names(text)) {
    if (names.size() == kJobNamesMax)
      return invalid(format("at most {} jobs are named in one request", kJobNamesMax), "jobs");
    names.push_back(TRY(parse_job_name(part, ranges)));
  }
  return names;
}

Result<JobFilter> JobFilter::parse(const ReadContext& context, const PageRequest& request) {
  JobFilter filter;
  JobSelector& selector = filter.selector_;
  const Tables& tables = context.tables;
  std::vector<JobName> names = TRY(parse_job_names(query_of(request, "jobs")));
  if (names.size() == 1 && !tables.job(names[0].target.job))
    return not_found("Invalid job id specified");
  std::vector<JobTarget> targets;
  for (JobName& name : names) {
    filter.groups_named_[name.target.job].insert(name.group);
    filter.names_elements_ |= name.target.elements.has_value();
    targets.push_back(std::move(name.target));
  }
  if (!targets.empty())
    selector.targets = TargetList(std::move(targets));
  if (const auto users = words_of(request, "user"))
    selector.users = TRY(parse_users(tables, *users));
  if (flag_of(request, "me"))
    selector.users = context.caller ? std::set<UserId>{context.caller->id} : std::set<UserId>{};
  selector.accounts = names_of(request, "account");
  selector.partitions = words_of(request, "partition");
  if (!selector.partitions && is_given(request, "partition"))
    selector.partitions = Words();
  selector.qos = names_of(request, "qos");
  if (selector.qos && selector.qos->contains("normal"))
    selector.qos->insert("");  // what is shown for jobs that named none
  selector.names = words_of(request, "name");
  selector.reservations = words_of(request, "reservation");
  selector.licenses = words_of(request, "licenses");
  filter.split_arrays_ = flag_of(request, "array");
  if (const std::string& nodes = query_of(request, "nodes"); !nodes.empty()) {
    auto found = nodes_named(tables, nodes);
    if (!found)
      return invalid(found.error().message, "nodes");
    selector.nodes = std::move(*found);
  }
  selector.states =
      is_given(request, "states") ? TRY(parse_slurm_states(query_of(request, "states"))) : JobStates::unfinished();
  return filter;
}

JobFilter::Elements JobFilter::elements_of(const Job& array) const {
  Elements out;
  out.each = split_arrays_ || names_elements_;
  if (!selector_.targets)
    return out;
  const JobTarget* target = selector_.targets->of(array.id);
  out.named = target ? target->elements : IntervalSet();
  return out;
}

void JobFilter::add_groups(const JobLine& line, std::vector<JobLine>& out) const {
  const Job& job = *line.job;
  const auto names = [&](JobId id, std::size_t group) {
    const auto named = groups_named_.find(id);
    return named != groups_named_.end() &&
           (named->second.contains(std::nullopt) || named->second.contains(static_cast<std::uint16_t>(group)));
  };
  for (std::size_t g = 0; g < job.spec->groups.size(); ++g) {
    if (!groups_named_.empty() && !names(job.id, g) && !(job.array_job && names(job.array_job, g)))
      continue;
    out.push_back(line);
    out.back().group = static_cast<std::uint16_t>(g);
  }
}

JobCursor::JobCursor(const ReadContext& context, JobFilter filter) : context_(&context), filter_(std::move(filter)) {
  const auto& jobs = context.tables.jobs;
  const auto among = context.index ? context.index->candidates(filter_.selector_) : std::nullopt;
  jobs_.reserve(among ? among->size() : jobs.size());
  if (!among) {
    for (const auto& [id, job] : jobs) jobs_.push_back(job);
    return;
  }
  for (const JobId id : *among)
    if (const Ref<Job>* job = jobs.get(id))
      jobs_.push_back(*job);
}

std::size_t lines_of_work(const JobLine& line) {
  // About a line each. A dependency is written as several words, the others as a part of one.
  constexpr std::size_t kEntries = 64, kDependencies = 8, kBytes = 16 << 10;
  const JobSpec& spec = line.spec();
  const GroupSpec& group = line.group_spec();
  const std::size_t entries = (line.job->allocation ? line.job->allocation->grants.size() : 0) +
                              group.only_nodes.size() + group.exclude_nodes.size() + spec.options.size() +
                              (line.job->array ? line.job->array->waiting.intervals().size() : 0);
  return 1 + entries / kEntries + spec.dependencies.size() / kDependencies +
         (spec.comment.size() + line.job->ran_on.size()) / kBytes;
}

// What the planner says of a job may have been said anew since the line was made.
JobLine JobCursor::as_of_now(const JobLine& line) const {
  const JobLine now = job_line(*context_, *line.job);
  JobLine out = line;
  out.note = now.note;
  out.expected_start = now.expected_start;
  out.asker = now.asker;
  return out;
}

bool JobCursor::take_lines(const Job& job) {
  if (job.array && !array_tells(job))
    return true;
  if (job.array && !is_final(job.state))
    return take_elements(job);
  filter_.add_groups(job_line(*context_, job), lines_);
  return true;
}

bool JobCursor::take_elements(const Job& array) {
  constexpr std::size_t kAtOnce = 256;
  const IntervalSet& waiting = array.array->waiting;
  if (next_element_ == 0) {
    elements_ = filter_.elements_of(array);
    next_element_ = 1;
  }
  JobLine line = job_line(*context_, array);
  if (!elements_.each) {
    lines_.push_back(line);
    next_element_ = 0;
    return true;
  }
  const IntervalSet* named = elements_.named ? &*elements_.named : nullptr;
  std::uint64_t& listed = elements_listed_[array.spec->user];
  auto index = next_in(waiting, named, next_element_ - 1);
  for (; index && lines_.size() < kAtOnce && listed < kElementLines; ++listed) {
    lines_.push_back(line);
    lines_.back().one_waiting = true;
    lines_.back().waiting_index = *index;
    next_element_ = std::uint64_t{*index} + 2;
    index = next_in(waiting, named, next_element_ - 1);
  }
  if (index && listed < kElementLines)
    return false;
  if (index) {
    rest_ = rest_text(waiting, named, *index);
    line.waiting_rest = rest_;
    lines_.push_back(line);
  }
  next_element_ = 0;
  return true;
}

}  // namespace lockstep::slurm
