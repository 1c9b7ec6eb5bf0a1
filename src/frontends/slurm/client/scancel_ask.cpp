#include "frontends/slurm/client/scancel_ask.h"

#include "base/text.h"
#include "frontends/slurm/client/values.h"
#include "model/job.h"
#include "model/placement.h"

namespace lockstep::slurm {

namespace {

bool among(const std::vector<std::string>& wanted, const std::string& value) {
  return wanted.empty() || std::find(wanted.begin(), wanted.end(), value) != wanted.end();
}

// Commas inside of brackets belong to the index list.
std::vector<std::string> split_ids(std::string_view text) {
  std::vector<std::string> out{""};
  int depth = 0;
  for (const char c : text) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c == ',' && depth == 0)
      out.emplace_back();
    else
      out.back() += c;
  }
  return out;
}

}  // namespace

Result<std::vector<ScancelTarget>> parse_scancel_targets(std::string_view text) {
  std::vector<ScancelTarget> out;
  for (const auto& item : split_ids(text)) {
    const auto bad = [&] { return invalid(format("Invalid job id {}", item), "job"); };
    ScancelTarget target;
    std::string_view rest = item;
    if (const auto dot = rest.find('.'); dot != std::string_view::npos) {
      target.step_text = std::string(rest.substr(dot + 1));
      if (target.step_text == "batch") {
        target.step = kBatchStep;
      } else {
        const auto number = parse_count(target.step_text);
        if (!number)
          return bad();
        target.step = static_cast<StepNo>(*number);
      }
      rest = rest.substr(0, dot);
    }
    if (const auto plus = rest.find('+'); plus != std::string_view::npos) {
      const auto component = parse_count(rest.substr(plus + 1));
      if (!component)
        return bad();
      if (*component != 0)
        return Error{Errc::kUnsupported,
                     format("{}: the components of a heterogeneous job end together; cancel the job", item), "job"};
      rest = rest.substr(0, plus);
    }
    const auto underscore = rest.find('_');
    const auto id = parse_uint(rest.substr(0, underscore));
    if (!id || *id == 0)
      return bad();
    target.job = format("{}", *id);
    if (underscore != std::string_view::npos) {
      const auto indices = parse_array(rest.substr(underscore + 1));
      if (!indices || indices->throttle || (target.step && indices->indices.size() != 1))
        return bad();
      const bool one = indices->indices.size() == 1;
      target.job += one ? format("_{}", indices->indices.front()) : format("_[{}]", indices->indices.text());
    }
    out.push_back(std::move(target));
  }
  return out;
}

void ScancelAsk::read_environment(const std::function<const char*(const char*)>& get_variable) {
  const auto list = [&](const char* name, std::vector<std::string>& into) {
    if (const char* value = get_variable(name))
      into = split(value, ',');
  };
  const auto flag = [&](const char* name, bool& into) {
    if (const char* value = get_variable(name))
      into = *value == 0 || parse_yes_no(value).value_or(true);
  };
  list("SCANCEL_ACCOUNT", accounts);
  list("SCANCEL_NAME", names);
  list("SCANCEL_PARTITION", partitions);
  list("SCANCEL_QOS", qos);
  list("SCANCEL_USER", users);
  list("SCANCEL_WCKEY", wckeys);
  flag("SCANCEL_BATCH", batch);
  flag("SCANCEL_FULL", full);
  flag("SCANCEL_INTERACTIVE", interactive);
  flag("SCANCEL_VERBOSE", verbose);
  if (const char* value = get_variable("SCANCEL_STATE"))
    if (const auto set = set_states(value); !set)
      states.clear();
}

Result<void> ScancelAsk::set_states(std::string_view text) {
  states.clear();
  for (const auto& item : split(text, ',')) {
    const std::string word = lower(item);
    if (word == "pending" || word == "pd")
      states.push_back(JobState::kPending);
    else if (word == "running" || word == "r")
      states.insert(states.end(), {JobState::kStarting, JobState::kRunning});
    else if (word == "suspended" || word == "s")
      states.push_back(JobState::kSuspended);
    else if (word == "configuring" || word == "cf")
      states.push_back(JobState::kStarting);
    else
      return invalid(format("Invalid job state specified: {}. Use PENDING, RUNNING or SUSPENDED.", item), "state");
  }
  return {};
}

Result<void> ScancelAsk::settle_signal() {
  if (batch && full)
    return invalid("--batch and --full cannot be given together");
  if (batch && signal == 0)
    signal = 9;
  if (!batch && signal == 9)
    signal = 0;
  return {};
}

Result<void> ScancelAsk::choose_users(const std::vector<KnownUser>& known, std::uint32_t own_uid) {
  for (const auto& wanted : users) {
    const auto number = parse_uint(wanted);
    bool found = false;
    for (const auto& user : known) {
      if (user.name == wanted || (number && *number == user.uid)) {
        user_ids.push_back(user.id);
        found = true;
      }
    }
    if (!found && !number)
      return invalid("Invalid user name: " + wanted, "users");
    if (!found)
      user_ids.push_back(UserId{});  // a user without any job here: matches nothing
  }
  if (me) {
    for (const auto& user : known)
      if (user.uid == own_uid)
        user_ids.push_back(user.id);
    if (user_ids.empty())
      user_ids.push_back(UserId{});
  }
  return {};
}

bool ScancelAsk::has_filter() const {
  return !(accounts.empty() && names.empty() && partitions.empty() && qos.empty() && reservations.empty() &&
           users.empty() && !me && wckeys.empty() && nodes.empty() && states.empty());
}

SignalReach ScancelAsk::reach() const {
  using enum SignalReach;
  return full ? kEverything : batch ? kScript : kSteps;
}

CancelMany ScancelAsk::request(const std::vector<ScancelTarget>& targets, std::uint32_t own_uid) const {
  CancelMany out;
  for (const auto& target : targets) out.targets.push_back(target.job);
  out.users = users;
  if (me)
    out.users.push_back(format("{}", own_uid));
  for (const JobState state : states) out.states.emplace_back(text_of(state));
  out.partitions = partitions;
  out.names = names;
  out.accounts = accounts;
  out.qos = qos;
  if (std::find(qos.begin(), qos.end(), "normal") != qos.end())
    out.qos.emplace_back();  // what is shown for jobs that named none
  out.reservations = reservations;
  out.wckeys = wckeys;
  out.nodes = join(nodes, ",");
  out.signal = signal;
  out.reach = reach();
  return out;
}

bool ScancelAsk::matches(const Job& job, const std::vector<NodeId>& on_nodes) const {
  const JobSpec& spec = *job.spec;
  if (is_final(job.state) || !among(accounts, spec.account) || !among(names, spec.name) || !among(qos, spec.qos) ||
      !among(reservations, spec.reservation) || !among(wckeys, spec.wckey))
    return false;
  if (!user_ids.empty() && std::find(user_ids.begin(), user_ids.end(), spec.user) == user_ids.end())
    return false;
  if (!states.empty() && std::find(states.begin(), states.end(), job.state) == states.end())
    return false;
  if (!partitions.empty()) {
    bool inside = job.allocation && among(partitions, job.allocation->partition);
    if (!job.allocation)
      for (const auto& name : spec.partitions) inside |= among(partitions, name);
    if (!inside)
      return false;
  }
  if (!nodes.empty()) {
    bool there = false;
    if (job.allocation)
      for (const auto& grant : job.allocation->grants)
        there |= std::find(on_nodes.begin(), on_nodes.end(), grant.node) != on_nodes.end();
    if (!there)
      return false;
  }
  return true;
}

std::vector<ScancelTarget> ScancelAsk::choose(const std::vector<Ref<Job>>& jobs,
                                              const std::vector<ScancelTarget>& targets,
                                              const std::vector<NodeId>& on_nodes) const {
  std::vector<ScancelTarget> out;
  if (targets.empty()) {
    for (const auto& job : jobs)
      if (matches(*job, on_nodes))
        out.push_back({format("{}", job->id.value), std::nullopt, "", job});
    return out;
  }
  for (const auto& target : targets) {
    // "12" names job 12 and every element of array 12; "12_3" that element, or the array it still waits in.
    const auto underscore = target.job.find('_');
    const JobId id(parse_uint(std::string_view(target.job).substr(0, underscore)).value_or(0));
    std::optional<IntervalSet> indices;
    if (underscore != std::string::npos)
      if (const auto parsed = parse_array(std::string_view(target.job).substr(underscore + 1)))
        indices = parsed->indices;
    for (const auto& job : jobs) {
      const bool itself = job->id == id, element = job->array_job == id;
      if ((!itself && !element) || (element && indices && !indices->contains(job->array_index)))
        continue;
      if (!matches(*job, on_nodes))
        continue;
      ScancelTarget found = target;
      found.record = job;
      if (element && !itself)
        found.job = format("{}", job->id.value);
      out.push_back(std::move(found));
    }
  }
  return out;
}

}  // namespace lockstep::slurm
