// Parses filters once per request, then looks at each job without allocating.
#include "frontends/slurm/server/job_filter.h"

#include <algorithm>

#include "base/hostlist.h"
#include "base/text.h"

namespace lockstep {

namespace {

using Words = std::set<std::string, std::less<>>;

Words words_of(const PageRequest& request, std::string_view name) {
  Words words;
  for (const std::string& part : split(query_of(request, name), ','))
    if (!part.empty())
      words.insert(part);
  return words;
}

bool wanted(const Words& words, std::string_view text) { return words.empty() || words.contains(text); }

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
  name.job = JobId(*id);
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
  name.elements = std::move(*elements);
  return name;
}

Result<JobFilter> JobFilter::parse(const ReadContext& context, const PageRequest& request) {
  JobFilter filter;
  const Tables& tables = context.tables;
  filter.tables_ = &tables;
  for (const std::string& part : split_job_names(query_of(request, "jobs")))
    filter.names_.push_back(TRY(parse_job_name(part)));
  filter.direct_ = !filter.names_.empty();
  bool any_known = false;
  for (const JobName& name : filter.names_) {
    const Job* job = tables.job(name.job);
    any_known |= job != nullptr;
    filter.direct_ &= job && !job->array && !job->array_job;
  }
  if (filter.names_.size() == 1 && !any_known)
    return not_found("Invalid job id specified");
  std::sort(filter.names_.begin(), filter.names_.end(),
            [](const JobName& a, const JobName& b) { return a.job < b.job; });
  if (filter.direct_) {
    const auto last = std::unique(filter.names_.begin(), filter.names_.end(), [](const JobName& a, const JobName& b) {
      return a.job == b.job && a.group == b.group;
    });
    filter.names_.erase(last, filter.names_.end());
  }
  if (const Words users = words_of(request, "user"); !users.empty())
    filter.users_ = TRY(parse_users(tables, users));
  if (!query_of(request, "me").empty())
    filter.users_ = context.caller ? std::set<UserId>{context.caller->id} : std::set<UserId>{};
  filter.accounts_ = words_of(request, "account");
  filter.partitions_ = words_of(request, "partition");
  filter.qos_ = words_of(request, "qos");
  filter.job_names_ = words_of(request, "name");
  filter.reservations_ = words_of(request, "reservation");
  filter.licenses_ = words_of(request, "licenses");
  filter.split_arrays_ = !query_of(request, "array").empty();
  if (const std::string& nodes = query_of(request, "nodes"); !nodes.empty()) {
    filter.by_node_ = true;
    for (const std::string& name : TRY(expand_hostlist(nodes))) {
      const Node* node = tables.node(name);
      if (!node)
        return invalid(format("Invalid node name {}", name), "nodes");
      filter.nodes_.insert(node->id);
    }
  }
  if (const std::string& states = query_of(request, "states"); !states.empty())
    filter.states_ = TRY(StateSet::parse(states));
  return filter;
}

bool JobFilter::runs_on(const Job& job) const {
  return job.allocation && std::any_of(job.allocation->grants.begin(), job.allocation->grants.end(),
                                       [&](const Grant& grant) { return nodes_.contains(grant.node); });
}

bool JobFilter::matches(const Job& job) const {
  // An array's record stands for its waiting elements; once there are none, for nothing that could be listed, unless
  // they were all cancelled before any had a record.
  const bool spent_array = job.array && job.array->waiting.empty();
  if (!states_.has(job.state) || (spent_array && job.state != JobState::kCancelled))
    return false;
  if (users_ && !users_->contains(job.spec->user))
    return false;
  const JobSpec& spec = *job.spec;
  if (!wanted(job_names_, spec.name) || !wanted(qos_, spec.qos.empty() ? "normal" : spec.qos) ||
      !wanted(reservations_, spec.reservation) || !wanted(licenses_, spec.licenses))
    return false;
  if (!accounts_.empty()) {
    const User* user = tables_->user(spec.user);
    if (!accounts_.contains(spec.account.empty() && user ? user->account : spec.account))
      return false;
  }
  if (!partitions_.empty()) {
    const Partition* fallback = tables_->default_partition();
    const auto in = [&](const std::string& name) { return partitions_.contains(name); };
    const bool match = job.allocation            ? in(job.allocation->partition)
                       : spec.partitions.empty() ? fallback && in(fallback->meta.name)
                                                 : std::any_of(spec.partitions.begin(), spec.partitions.end(), in);
    if (!match)
      return false;
  }
  if (by_node_ && !runs_on(job))
    return false;
  if (names_.empty() || direct_)
    return true;
  return std::any_of(names_.begin(), names_.end(), [&](const JobName& name) {
    if (name.elements.empty())
      return name.job == job.id || name.job == job.array_job;
    if (job.array_job == name.job)
      return name.elements.contains(job.array_index);
    return job.id == name.job && job.array != nullptr;
  });
}

std::vector<JobLine> JobFilter::lines_of(const ReadContext& context, const Job& job) const {
  std::vector<JobLine> lines;
  const JobLine line = job_line(context, job);
  if (job.array && !is_final(job.state)) {
    // Named elements, or all of them when asked to: one line each. Else one line for the waiting rest.
    const bool named = std::any_of(names_.begin(), names_.end(), [](const JobName& n) { return !n.elements.empty(); });
    if (!split_arrays_ && !named) {
      lines.push_back(line);
      return lines;
    }
    for (const Interval& part : job.array->waiting.intervals())
      for (std::uint64_t index = part.low; index <= part.high; ++index) {
        const auto i = static_cast<std::uint32_t>(index);
        const bool asked = !named || std::any_of(names_.begin(), names_.end(), [&](const JobName& n) {
          return n.job == job.id && (n.elements.empty() || n.elements.contains(i));
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
    const bool asked = names_.empty() || std::any_of(names_.begin(), names_.end(), [&](const JobName& n) {
                         return (n.job == job.id || n.job == job.array_job) && (!n.group || *n.group == g);
                       });
    if (!asked)
      continue;
    lines.push_back(line);
    lines.back().group = static_cast<std::uint16_t>(g);
  }
  return lines;
}

}  // namespace lockstep
