#include "core/health.h"

#include <algorithm>
#include <tuple>

#include "base/hostlist.h"
#include "base/mutant.h"
#include "base/text.h"
#include "core/directory.h"
#include "core/jobs.h"
#include "core/plan.h"
#include "core/reservations.h"
#include "core/versions.h"
#include "model/command.h"
#include "model/job.h"
#include "model/records.h"
#include "model/ref_map.h"
#include "rules/fit.h"

namespace lockstep {

namespace {

constexpr const char* kShell = "/bin/sh";
constexpr const char* kNowhere = "/dev/null";

Result<void> check_health_name(const std::string& name) {
  if (name.empty() || name.find_first_of(" ,/|\t\n") != name.npos || name.starts_with('-'))
    return invalid(
        format("a health check cannot be named \"{}\": no blanks, commas, slashes, bars or a leading dash", name),
        "name");
  return {};
}

// Root on every node is a right that the cluster does not give: a node's own settings do (docs/hooks.md).
Result<void> check_runs_as_user(const Tables& tables, const HealthCheck& check) {
  const User* user = tables.user_named(check.user);
  if (check.user == "root" || (user && user->uid == 0))
    return invalid(format("health check {} cannot run as root: name an ordinary user, or let the node's own settings "
                          "run it (\"health\" in agent.json)",
                          check.meta.name),
                   "user");
  if (check.user.empty())
    return invalid(format("health check {} does not say as which user it runs", check.meta.name), "user");
  return {};
}

Result<void> check_health_check(const Tables& tables, const HealthCheck& check) {
  const std::string& name = check.meta.name;
  TRY(check_health_name(name));
  TRY(check_runs_as_user(tables, check));
  if (check.script.empty())
    return invalid(format("health check {} has no script", name), "script");
  if (check.nodes.empty())
    return invalid(format("health check {} names no nodes: ALL is every one", name), "nodes");
  for (const std::string& node : check.nodes)
    if (node != "ALL" && !is_node_name(node))
      return invalid(format("health check {}: \"{}\" is no name of a node", name, node), "nodes");
  if (check.every < kHealthEveryLeast)
    return invalid(format("health check {} runs too often: every ten seconds is as often as it may", name), "every");
  if (check.time_limit.us <= 0 || check.time_limit > kHealthLimitMost)
    return invalid(format("health check {} needs a time limit, of a day at most", name), "time_limit");
  if (tables.health_checks.size() >= kHealthChecksMax && !tables.health_checks.contains(name))
    return Error{Errc::kExhausted,
                 format("there are {} health checks, the most there may be: remove one", kHealthChecksMax),
                 {}};
  return {};
}

// All that an administrator says of it.
auto facts_of(const HealthCheck& check) {
  return std::tie(check.user, check.account, check.script, check.every, check.time_limit, check.nodes, check.node_class,
                  check.partition, check.gpus, check.output, check.on_failure);
}

// "#!/bin/bash -e" -> /bin/bash, -e; the text follows behind -c.
std::vector<std::string> command_of(const std::string& script) {
  std::vector<std::string> argv;
  if (script.starts_with("#!"))
    argv = split_words(script.substr(2, script.find('\n') - 2));
  if (argv.empty())
    argv = {kShell};
  argv.insert(argv.end(), {"-c", script});
  return argv;
}

GroupSpec group_of(const HealthCheck& check, const Node& node) {
  GroupSpec group;
  group.launch = Launch::kTasks;
  group.nodes = {1, 1};
  group.sharing = Sharing::kExclusive;
  group.all_memory = true;
  group.all_cores = check.gpus;
  if (!check.gpus)
    group.per_task.cores = node.cores;
  group.only_nodes = {node.meta.name};
  group.argv = command_of(check.script);
  group.env = {{"LOCKSTEP_HEALTH_CHECK", check.meta.name}, {"LOCKSTEP_NODE", node.meta.name}};
  return group;
}

// %N is the node, %x the check, %% one "%".
std::string output_of(const HealthCheck& check, const Node& node) {
  if (check.output.empty())
    return kNowhere;
  std::string out;
  for (std::size_t i = 0; i < check.output.size(); ++i) {
    const char next = check.output[i] == '%' && i + 1 < check.output.size() ? check.output[i + 1] : '\0';
    if (next == 'N' || next == 'x' || next == '%') {
      out += next == 'N' ? node.meta.name : next == 'x' ? check.meta.name : "%";
      ++i;
    } else {
      out += check.output[i];
    }
  }
  return out;
}

JobSpec spec_of_run(const HealthCheck& check, const Node& node, const User& user, const Partition& where) {
  JobSpec spec;
  spec.name = "health:" + check.meta.name;
  spec.user = user.id;
  spec.account = check.account;
  spec.partitions = std::vector<std::string>{where.meta.name};
  spec.groups = std::vector<GroupSpec>{group_of(check, node)};
  spec.time_limit = std::min(check.time_limit, where.time_max);
  spec.requeue = false;
  spec.requeue_set = true;
  spec.kill_wait = {};  // whoever wants the node has it at once
  spec.work_dir = "/";
  spec.std_in = kNowhere;
  spec.std_out = output_of(check, node);
  spec.health_check = check.meta.name;
  return spec;
}

// The partition that the check names, else the default one, else the first that has the node.
const Partition* partition_of_run(const Tables& tables, const HealthCheck& check, const Node& node) {
  const auto takes = [&](const Partition* p) { return p && p->up && partition_has(*p, node); };
  if (!check.partition.empty()) {
    const Partition* named = tables.partition(check.partition);
    return takes(named) ? named : nullptr;
  }
  if (const Partition* usual = tables.default_partition(); takes(usual))
    return usual;
  for (const auto& [name, partition] : tables.partitions)
    if (takes(partition.get()))
      return partition.get();
  return nullptr;
}

HealthFinding& finding_in(Node& node, const std::string& check) {
  const auto at = std::lower_bound(node.health.begin(), node.health.end(), check,
                                   [](const HealthFinding& one, const std::string& name) { return one.check < name; });
  if (at != node.health.end() && at->check == check)
    return *at;
  HealthFinding fresh;
  fresh.check = check;
  return *node.health.insert(at, std::move(fresh));
}

// What nobody asks for any more closes no node. True: that was to be done, and is.
bool follow_record(Txn& txn, const HealthCheck* check, const Node& node, const std::string& name) {
  const HealthFinding* finding = finding_of(node, name);
  if (!finding)
    return false;
  Node next = node;
  if (!check || !checks_node(*check, node))
    std::erase_if(next.health, [&](const HealthFinding& one) { return one.check == name; });
  else if (check->on_failure == OnUnhealthy::kTell && finding->verdict == HealthVerdict::kBad)
    finding_in(next, name).verdict = HealthVerdict::kSuspect, finding_in(next, name).closes = false;
  else
    return false;
  txn.put(std::move(next));
  return true;
}

Result<void> check_may_run(const Txn& txn, const HealthCheck& check, const Node& node) {
  const ClusterState::Inner& inner = txn.inner();
  const std::string& name = check.meta.name;
  if (!checks_node(check, node))
    return conflict(format("health check {} is not meant for node {}", name, node.meta.name));
  if (health_due(check, finding_of(node, name)) > txn.now())
    return conflict(format("health check {} is not due on node {} yet", name, node.meta.name));
  if (!node_checkable(node, name))
    return conflict(format("node {} cannot be used now", node.meta.name));
  if (inner.jobs_on.contains(node.id) || inner.kept_for.contains(node.id))
    return conflict(format("node {} is not idle", node.meta.name));
  if (inner.health_jobs.size() >= health_runs_most(txn.tables().nodes.size()))
    return conflict(format("{} nodes are checked already, as many as may be at once", inner.health_jobs.size()));
  return {};
}

}  // namespace

Result<Answer> put_health_check(Txn& txn, const PutHealthCheck& ask) {
  TRY(need_admin(txn, "change health checks"));
  TRY(check_health_check(txn.tables(), ask.check));
  TRY(expect_version(txn.tables(), ask.check, ask.if_seq, "health check " + ask.check.meta.name));
  HealthCheck check = ask.check;
  std::sort(check.nodes.begin(), check.nodes.end());
  check.nodes.erase(std::unique(check.nodes.begin(), check.nodes.end()), check.nodes.end());
  const HealthCheck* before = find_ref(txn.tables().health_checks, check.meta.name);
  check.changed = before && facts_of(*before) == facts_of(check) ? before->changed : txn.now();
  return Answer{.seq = txn.put(std::move(check))->meta.seq};
}

Result<void> remove_health_check(Txn& txn, const RemoveHealthCheck& ask) {
  TRY(need_admin(txn, "remove health checks"));
  const auto at = txn.tables().health_checks.find(ask.name);
  if (at == txn.tables().health_checks.end())
    return not_found(format("there is no health check {}", ask.name));
  const Ref<HealthCheck> record = at->second;
  txn.remove(record);
  return {};
}

Result<Answer> run_health_check(Txn& txn, const RunHealthCheck& ask) {
  const Ref<Node> node = txn.node(ask.node);
  if (!node)
    return not_found("there is no such node");
  const HealthCheck* check = find_ref(txn.tables().health_checks, ask.check);
  if (follow_record(txn, check, *node, ask.check))
    return Answer{.node = ask.node};
  if (!check)
    return not_found(format("there is no health check {}", ask.check));
  TRY(check_may_run(txn, *check, *node));
  TRY(check_runs_as_user(txn.tables(), *check));
  const User* user = txn.tables().user_named(check->user);
  if (!user)
    return not_found(
        format("health check {}: user {} is not known yet; it is from its first command on", ask.check, check->user));
  const Partition* where = partition_of_run(txn.tables(), *check, *node);
  if (!where)
    return conflict(
        format("health check {}: node {} is in no partition where it could run", ask.check, node->meta.name));

  auto spec = std::make_shared<const JobSpec>(spec_of_run(*check, *node, *user, *where));
  const std::string partition = where->meta.name;
  const Answer made = TRY(submit_run(txn, {.spec = spec, .array = {}, .first_step = {}, .objects = {}}));
  auto grant = choose_grant(*node, NodeLoad{}, txn.job(made.job)->spec->groups.front(), 0, 1, 0);
  if (!grant)
    return conflict(format("health check {} asks for more than node {} has", ask.check, node->meta.name));
  PlannedStart start;
  start.job = made.job;
  start.partition = partition;
  start.grants = {std::move(*grant)};
  if (const Refusal why = start_now(txn, start))
    return conflict(format("health check {} cannot start on node {}: {}{}{}", ask.check, node->meta.name, why.reason,
                           why.detail.empty() ? "" : " ", why.detail));
  Node next = *txn.node(ask.node);
  finding_in(next, ask.check).began = txn.now();
  txn.put(std::move(next));
  return Answer{.job = made.job, .node = ask.node};
}

namespace {

// Whether it has failed on as many nodes as it may close before it has ever passed.
bool is_doubtful(const Tables& tables, const HealthCheck& check, NodeId where) {
  std::size_t closed = 0;
  for (const auto& [id, node] : tables.nodes)
    if (const HealthFinding* finding = finding_of(*node, check.meta.name); finding && finding->began >= check.changed) {
      if (finding->verdict == HealthVerdict::kHealthy)
        return false;
      closed += id != where && finding->verdict == HealthVerdict::kBad;
    }
  return closed >= kUnprovenMost;
}

// What a run that failed says of its node.
HealthVerdict verdict_of_failure(const Tables& tables, const HealthCheck& check, const HealthFinding& finding,
                                 NodeId where) {
  const bool tells = check.on_failure == OnUnhealthy::kTell || finding.exit.not_opened;
  return tells || is_doubtful(tables, check, where) ? HealthVerdict::kSuspect : HealthVerdict::kBad;
}

}  // namespace

void note_health(Txn& txn, const Job& ended, NodeId where) {
  const std::string name = ended.spec->health_check;
  if (name.empty())
    return;
  const bool passed = ended.state == JobState::kCompleted;
  const bool timed_out =
      ended.state == JobState::kTimeout && ended.started && ended.ended - ended.started >= ended.spec->time_limit;
  const bool failed = ended.state == JobState::kFailed && !ended.exit.ok();  // else it did not even start
  const HealthCheck* check = find_ref(txn.tables().health_checks, name);
  const Ref<Node> known = txn.node(where);
  if ((!passed && !failed && !timed_out) || !check || !known || !checks_node(*check, *known))
    return;
  Node node = *known;
  HealthFinding& finding = finding_in(node, name);
  finding.at = ended.ended;
  finding.job = ended.id;
  finding.exit = ended.exit;
  finding.timed_out = timed_out;
  finding.verdict = passed ? HealthVerdict::kHealthy : verdict_of_failure(txn.tables(), *check, finding, where);
  finding.closes = finding.verdict == HealthVerdict::kBad && !mutant(Mutant::kHealthStaysOpen);
  if (passed && mutant(Mutant::kHealthOpensDrained))
    node.drain = false;
  const bool closed = node_usable(*known) && !node_usable(node);
  if (!passed)
    txn.event(Kind::kNode, node.meta, "Unhealthy",
              format("{}: health check {}: {}", node.meta.name, name, evidence_of(finding)));
  else if (!node_usable(*known) && node_usable(node))
    txn.event(Kind::kNode, node.meta, "Healthy", format("{}: health check {} passes again", node.meta.name, name));
  txn.put(std::move(node));
  if (closed)
    replace_reserved(txn, known->meta.name);
}

void forgive_health(Node& node) {
  for (HealthFinding& one : node.health) one.closes = false;
}

}  // namespace lockstep
