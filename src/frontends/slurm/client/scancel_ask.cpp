#include "frontends/slurm/client/scancel_ask.h"

#include "base/items.h"
#include "base/text.h"
#include "frontends/slurm/client/values.h"
#include "model/job.h"
#include "model/placement.h"

namespace lockstep::slurm {

namespace {

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

Error bad_id(std::string_view item) { return invalid(format("Invalid job id {}", item), "job"); }

// ".0" or ".batch" behind a job's id, which it is cut from.
Result<void> take_step(std::string_view& id, ScancelTarget& target, std::string_view item) {
  const auto dot = id.find('.');
  if (dot == std::string_view::npos)
    return {};
  target.step_text = std::string(id.substr(dot + 1));
  const auto number = parse_count(target.step_text);
  if (target.step_text != "batch" && !number)
    return bad_id(item);
  target.step = number ? static_cast<StepNo>(*number) : kBatchStep;
  id = id.substr(0, dot);
  return {};
}

// "+0" behind a het job's id: the first component stands for all.
Result<void> take_component(std::string_view& id, std::string_view item) {
  const auto plus = id.find('+');
  if (plus == std::string_view::npos)
    return {};
  const auto component = parse_count(id.substr(plus + 1));
  if (!component)
    return bad_id(item);
  if (*component != 0)
    return Error{Errc::kUnsupported,
                 format("{}: the components of a heterogeneous job end together; cancel the job", item), "job"};
  id = id.substr(0, plus);
  return {};
}

Result<ScancelTarget> one_target(const std::string& item) {
  ScancelTarget target;
  std::string_view rest = item;
  TRY(take_step(rest, target, item));
  TRY(take_component(rest, item));
  const auto underscore = rest.find('_');
  const auto id = parse_uint(rest.substr(0, underscore));
  if (!id || *id == 0)
    return bad_id(item);
  target.job = format("{}", *id);
  if (underscore == std::string_view::npos)
    return target;
  const auto indices = parse_array(rest.substr(underscore + 1));
  if (!indices || indices->throttle || (target.step && indices->indices.size() != 1))
    return bad_id(item);
  const bool one = indices->indices.size() == 1;
  target.job += one ? format("_{}", indices->indices.front()) : format("_[{}]", indices->indices.text());
  return target;
}

}  // namespace

Result<std::vector<ScancelTarget>> parse_scancel_targets(std::string_view text) {
  std::vector<ScancelTarget> out;
  for (const auto& item : split_ids(text))
    if (!item.empty())
      out.push_back(TRY(one_target(item)));
  if (out.empty())
    return bad_id(text);
  return out;
}

std::vector<std::string> scancel_names(std::string_view text) {
  std::vector<std::string> names = items_of(text);
  return names.empty() ? std::vector<std::string>{""} : names;
}

Result<void> ScancelAsk::read_environment(const std::function<const char*(const char*)>& get_variable) {
  const auto list = [&](const char* name, std::vector<std::string>& into) {
    if (const char* value = get_variable(name))
      into = scancel_names(value);
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
    TRY(set_states(value));
  return {};
}

Result<void> ScancelAsk::set_states(std::string_view text) {
  states.clear();
  if (items_of(text).empty())
    return invalid("Invalid job state specified: ", "state");
  for (const auto& item : items_of(text)) {
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

Result<void> ScancelAsk::settle() {
  if (users == std::vector<std::string>{""})
    return invalid("Invalid user name: ", "users");
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

bool ScancelAsk::excludes_all() const {
  const std::initializer_list<const std::vector<std::string>*> lists = {&accounts, &names,        &partitions,
                                                                        &qos,      &reservations, &wckeys};
  return std::any_of(lists.begin(), lists.end(),
                     [](const auto* list) { return *list == std::vector<std::string>{""}; });
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

namespace {

bool among(const std::vector<std::string>& wanted, const std::string& value) {
  return wanted.empty() || std::find(wanted.begin(), wanted.end(), value) != wanted.end();
}

template <class T>
bool is_one_of(const std::vector<T>& wanted, const T& value) {
  return wanted.empty() || std::find(wanted.begin(), wanted.end(), value) != wanted.end();
}

// Where it runs, or where it may.
bool is_in(const std::vector<std::string>& partitions, const Job& job) {
  if (job.allocation)
    return among(partitions, job.allocation->partition);
  const auto& own = job.spec->partitions;
  return partitions.empty() ||
         std::any_of(own.begin(), own.end(), [&](const auto& name) { return among(partitions, name); });
}

bool is_on(const std::vector<NodeId>& nodes, const Job& job) {
  if (!job.allocation)
    return false;
  const auto& grants = job.allocation->grants;
  return std::any_of(grants.begin(), grants.end(), [&](const auto& grant) {
    return std::find(nodes.begin(), nodes.end(), grant.node) != nodes.end();
  });
}

// "12" names job 12 and every element of array 12; "12_3" that element, or the array it still waits in.
class NamedJobs {
 public:
  explicit NamedJobs(const ScancelTarget& target) {
    const auto underscore = target.job.find('_');
    id_ = JobId(parse_uint(std::string_view(target.job).substr(0, underscore)).value_or(0));
    if (underscore == std::string::npos)
      return;
    if (const auto parsed = parse_array(std::string_view(target.job).substr(underscore + 1)))
      indices_ = parsed->indices;
  }
  bool hold(const Job& job) const {
    if (job.array_job == id_)
      return !indices_ || indices_->contains(job.array_index);
    return job.id == id_;
  }
  // An element with a record of its own, which has another id.
  bool hold_apart(const Job& job) const { return job.array_job == id_ && job.id != id_; }

 private:
  JobId id_;
  std::optional<IntervalSet> indices_;
};

}  // namespace

bool ScancelAsk::matches(const Job& job, const std::vector<NodeId>& on_nodes) const {
  const JobSpec& spec = *job.spec;
  const bool is_named = among(accounts, spec.account) && among(names, spec.name) && among(qos, spec.qos) &&
                        among(reservations, spec.reservation) && among(wckeys, spec.wckey);
  return !excludes_all() && !is_final(job.state) && is_named && is_one_of(user_ids, spec.user) &&
         is_one_of(states, job.state) && is_in(partitions, job) && (nodes.empty() || is_on(on_nodes, job));
}

std::vector<ScancelTarget> ScancelAsk::choose(const std::vector<Ref<Job>>& jobs,
                                              const std::vector<ScancelTarget>& targets,
                                              const std::vector<NodeId>& on_nodes) const {
  std::vector<ScancelTarget> out;
  for (const auto& job : jobs)
    if (targets.empty() && matches(*job, on_nodes))
      out.push_back({format("{}", job->id.value), std::nullopt, "", job});
  for (const auto& target : targets) {
    const NamedJobs named(target);
    for (const auto& job : jobs) {
      if (!named.hold(*job) || !matches(*job, on_nodes))
        continue;
      ScancelTarget& found = out.emplace_back(target);
      found.record = job;
      if (named.hold_apart(*job))
        found.job = format("{}", job->id.value);
    }
  }
  return out;
}

}  // namespace lockstep::slurm
