#include "frontends/slurm/server/job_filter.h"

#include <algorithm>

#include "base/text.h"

namespace lockstep {

namespace {

using Words = JobSelector::Words;

// Nothing when no word is given.
std::optional<Words> words_of(const PageRequest& request, std::string_view name) {
  Words words;
  for (const std::string& part : split(query_of(request, name), ','))
    if (!part.empty())
      words.insert(part);
  return words.empty() ? std::nullopt : std::optional(std::move(words));
}

Result<std::set<UserId>> parse_users(const Tables& tables, const Words& words) {
  std::set<UserId> users;
  for (const std::string& word : words) {
    const auto uid = parse_uint(word);
    const User* user = tables.user_named(word);
    if (!user && uid && *uid <= UINT32_MAX)
      user = tables.user("local", static_cast<std::uint32_t>(*uid));
    if (user)
      users.insert(user->id);
    else if (!uid)
      return invalid("Invalid user: " + word, "user");
  }
  return users;
}

}  // namespace

const std::string& query_of(const PageRequest& request, std::string_view name) {
  static const std::string kNone;
  const auto it = request.query.find(name);
  return it == request.query.end() ? kNone : it->second;
}

PageReply refusal(int status, std::string message) { return {status, "text/plain; charset=utf-8", std::move(message)}; }

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
  if (!part.empty())
    parts.push_back(std::move(part));
  return parts;
}

Result<JobName> parse_job_name(std::string_view text) {
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
  auto elements = IntervalSet::parse(rest.substr(0, rest.find('%')));
  if (!elements)
    return bad();
  name.target.elements = std::move(*elements);
  return name;
}

Result<JobFilter> JobFilter::parse(const ReadContext& context, const PageRequest& request) {
  JobFilter filter;
  JobSelector& selector = filter.selector_;
  const Tables& tables = context.tables;
  for (const std::string& part : split_job_names(query_of(request, "jobs")))
    filter.names_.push_back(TRY(parse_job_name(part)));
  if (filter.names_.size() == 1 && !tables.job(filter.names_[0].target.job))
    return not_found("Invalid job id specified");
  if (!filter.names_.empty()) {
    selector.targets.emplace();
    for (const JobName& name : filter.names_) selector.targets->push_back(name.target);
  }
  if (const auto users = words_of(request, "user"))
    selector.users = TRY(parse_users(tables, *users));
  if (!query_of(request, "me").empty())
    selector.users = context.caller ? std::set<UserId>{context.caller->id} : std::set<UserId>{};
  selector.accounts = words_of(request, "account");
  selector.partitions = words_of(request, "partition");
  selector.qos = words_of(request, "qos");
  if (selector.qos && selector.qos->contains("normal"))
    selector.qos->insert("");  // what is shown for jobs that named none
  selector.names = words_of(request, "name");
  selector.reservations = words_of(request, "reservation");
  selector.licenses = words_of(request, "licenses");
  filter.split_arrays_ = !query_of(request, "array").empty();
  if (const std::string& nodes = query_of(request, "nodes"); !nodes.empty()) {
    auto found = nodes_named(tables, nodes);
    if (!found)
      return invalid(found.error().message, "nodes");
    selector.nodes = std::move(*found);
  }
  const std::string& states = query_of(request, "states");
  selector.states = states.empty() ? JobStates::unfinished() : TRY(parse_slurm_states(states));
  return filter;
}

std::vector<JobLine> JobFilter::lines_of(const ReadContext& context, const Job& job) const {
  std::vector<JobLine> lines;
  const JobLine line = job_line(context, job);
  // An array's record stands for its waiting elements; once there are none, for nothing that could be listed, unless
  // they were all cancelled before any had a record.
  if (job.array && job.array->waiting.empty() && job.state != JobState::kCancelled)
    return lines;
  if (job.array && !is_final(job.state)) {
    // Named elements, or all of them when asked to: one line each. Else one line for the waiting rest.
    const bool named =
        std::any_of(names_.begin(), names_.end(), [](const JobName& n) { return n.target.elements.has_value(); });
    if (!split_arrays_ && !named) {
      lines.push_back(line);
      return lines;
    }
    for (const Interval& part : job.array->waiting.intervals())
      for (std::uint64_t index = part.low; index <= part.high; ++index) {
        const auto i = static_cast<std::uint32_t>(index);
        const bool asked = !named || std::any_of(names_.begin(), names_.end(), [&](const JobName& n) {
          return n.target.job == job.id && (!n.target.elements || n.target.elements->contains(i));
        });
        if (!asked)
          continue;
        lines.push_back(line);
        lines.back().one_waiting = true;
        lines.back().waiting_index = i;
      }
    return lines;
  }
  for (std::size_t g = 0; g < job.spec->groups.size(); ++g) {
    const bool asked =
        names_.empty() || std::any_of(names_.begin(), names_.end(), [&](const JobName& n) {
          return (n.target.job == job.id || n.target.job == job.array_job) && (!n.group || *n.group == g);
        });
    if (!asked)
      continue;
    lines.push_back(line);
    lines.back().group = static_cast<std::uint16_t>(g);
  }
  return lines;
}

}  // namespace lockstep
