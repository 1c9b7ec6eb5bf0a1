// scontrol update, create and delete: Key=Value words become one request.
#include "frontends/slurm/client/scontrol_update.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/hostlist.h"
#include "base/items.h"
#include "base/text.h"
#include "frontends/slurm/client/api.h"
#include "frontends/slurm/client/key_rows.h"
#include "frontends/slurm/client/partition_words.h"
#include "frontends/slurm/client/scontrol_keys.h"
#include "frontends/slurm/client/scontrol_verbs.h"
#include "frontends/slurm/client/values.h"
#include "wire/api.h"

namespace lockstep::slurm {

namespace {

using Pair = KeyAndValue;

Error unsupported(const std::string& key) {
  return {Errc::kUnsupported, format("Update of this parameter is not supported: {}\nRequest aborted", key), {}};
}

Result<std::vector<Pair>> pairs_of(const Words& words) {
  std::vector<Pair> out;
  for (const std::string& word : words) {
    auto pair = key_value(word);
    if (!pair)
      return invalid(format("Invalid input: {}\nRequest aborted", word));
    out.push_back(std::move(*pair));
  }
  return out;
}

Result<std::vector<std::string>> hosts_of(const std::string& text) {
  return text.empty() ? Result<std::vector<std::string>>(std::vector<std::string>{}) : expand_hostlist(text);
}

Result<Partition> stored_partition(Query& query, const std::string& name) {
  const std::string body = TRY(query.get("/v1/partitions", {}));
  for (const Record& record : TRY(decode_records(Kind::kPartition, body)))
    if (const auto* partition = std::get_if<Ref<Partition>>(&record); partition && (*partition)->meta.name == name)
      return **partition;
  return not_found("Invalid partition name specified");
}

Result<std::vector<std::string>> all_nodes(Query& query) {
  const std::string page = TRY(query.get("/slurm/v1/sinfo", {{"columns", "nodelist"}, {"each_node", "1"}}));
  std::vector<std::string> names = split_words(page);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

// A name that is nobody's empties a partition.
Result<void> check_known(Query& query, const std::vector<std::string>& names) {
  const std::vector<std::string> known = TRY(all_nodes(query));
  for (const std::string& list : names)
    for (const std::string& name : TRY(expand_hostlist(list)))
      if (lower(name) != "all" && !std::binary_search(known.begin(), known.end(), name))
        return invalid(format("Invalid node name specified: {}", name), "nodes");
  return {};
}

Result<void> put_partition(Query& query, const std::vector<Pair>& pairs, bool create) {
  Partition partition;
  partition.meta.name = pairs[0].second;
  if (!create)
    partition = TRY(stored_partition(query, pairs[0].second));
  else if (stored_partition(query, pairs[0].second).ok())
    return conflict(format("Partition {} already exists", pairs[0].second));
  const auto before = partition.nodes;
  for (std::size_t i = 1; i < pairs.size(); ++i)
    if (!TRY(set_partition(partition, pairs[i])))
      return unsupported(pairs[i].first);
  if (partition.nodes != before)
    TRY(check_known(query, partition.nodes));
  TRY(query.set("PUT", "/v1/partitions/" + url_escaped(partition.meta.name), encode_partition(partition)));
  return {};
}

// After the node was drained, so that nothing new starts there meanwhile. What has ended by itself is no failure.
Result<void> end_jobs_of(Query& query, const std::string& node) {
  const std::string jobs = TRY(query.get("/slurm/v1/squeue", {{"nodes", node}, {"columns", "jobid"}}));
  for (const std::string& job : split_words(jobs)) {
    const std::string path = "/v1/jobs/" + url_escaped(job);
    if (query.send("POST", path + "/requeue", R"({"hold":false})").ok())
      continue;
    const auto cancelled = query.send("POST", path + "/cancel", "{}");
    if (!cancelled && cancelled.error().code != Errc::kNotFound && cancelled.error().code != Errc::kConflict)
      return cancelled.error();
  }
  return {};
}

Result<void> update_nodes(Query& query, const std::vector<Pair>& pairs) {
  const NodeChange change = TRY(node_change(pairs));
  const bool all = lower(pairs[0].second) == "all";
  for (const std::string& name : TRY(all ? all_nodes(query) : expand_hostlist(pairs[0].second))) {
    UpdateNode update = change.update;
    update.name = name;
    TRY(query.set("POST", "/v1/nodes/" + url_escaped(name), encode(update)));
    if (change.ends_jobs)
      TRY(end_jobs_of(query, name));
  }
  return {};
}

Result<void> update_job(Query& query, const std::vector<Pair>& pairs) {
  const std::string& name = pairs[0].second;
  const auto id = parse_uint(std::string_view(name).substr(0, name.find_first_of("_+")));
  if (!id)
    return not_found("Invalid job id specified");
  JobFactsForUpdate facts;
  facts.now = WallTime{static_cast<std::int64_t>(time(nullptr)) * 1'000'000};
  for (const Pair& pair : pairs)
    if (pair.first == "timelimit" && !pair.second.empty() && (pair.second[0] == '+' || pair.second[0] == '-')) {
      const std::string limit =
          TRY(query.get("/slurm/v1/squeue", {{"jobs", name}, {"states", "all"}, {"columns", "timelimit"}}));
      const auto limit_s = parse_int(trim(limit.substr(0, limit.find('\n'))));
      if (!limit_s || *limit_s < 0)
        return invalid("the job has no time limit to change by an amount", "timelimit");
      facts.time_limit = seconds(*limit_s);
    }
  const UpdateJob update = TRY(job_change(pairs, facts));
  TRY(query.set("POST", format("/v1/jobs/{}/update", url_escaped(name.substr(0, name.find('+')))), encode(update)));
  return {};
}

// What is updated may be named anywhere on the line: that pair comes to the front, and every key is made whole. Gives
// its key; "": nothing is named. A job has a partition too, and a partition nodes.
Result<std::string> put_entity_first(std::vector<Pair>& pairs) {
  struct Entity {
    std::string_view key;
    std::size_t shortest;
    ScontrolEntity entity;
  };
  constexpr Entity kEntities[] = {{"jobid", 3, ScontrolEntity::kJob},
                                  {"nodename", 4, ScontrolEntity::kNode},
                                  {"partitionname", 9, ScontrolEntity::kPartition}};
  for (const Entity& known : kEntities)
    for (Pair& pair : pairs)
      if (abbreviates(pair.first, known.key, known.shortest)) {
        pair.first = known.key;
        std::swap(pairs[0], pair);
        TRY(complete_keys(known.entity, pairs));
        return std::string(known.key);
      }
  return std::string();
}

// What "" stands for is nobody's, and not everybody's.
Result<void> check_not_empty(const Pair& entity) {
  const bool is_empty = std::all_of(entity.second.begin(), entity.second.end(), [](char c) { return c == ','; });
  if (!is_empty)
    return {};
  return invalid(entity.first == "nodename" ? "Invalid node name specified"
                 : entity.first == "jobid"  ? "Invalid job id specified"
                                            : "Invalid partition name specified",
                 entity.first);
}

int finish(const ScontrolSession& session, const Result<void>& done) {
  if (done)
    return 0;
  const Error& error = done.error();
  if (say_unreached(session.voice, "slurm_update error", error))
    return 1;
  if (error.code == Errc::kUnsupported)
    write_all(STDERR_FILENO, error.message + "\n");
  else
    write_all(STDERR_FILENO,
              format("slurm_update error: {}\n", error.code == Errc::kDenied ? slurm_sentence(error) : error.message));
  return 1;
}

struct NodeEdit {
  UpdateNode update;
  std::string state, reason;
};

Result<void> set_node_state(NodeEdit& edit, const Pair& pair) {
  edit.state = lower(pair.second);
  return {};
}

Result<void> set_reason(NodeEdit& edit, const Pair& pair) {
  edit.reason = pair.second;
  return {};
}

Result<void> set_weight(NodeEdit& edit, const Pair& pair) {
  edit.update.weight = TRY(needed(parse_count(pair.second), pair));
  return {};
}

Result<void> set_features(NodeEdit& edit, const Pair& pair) {
  edit.update.features = items_of(pair.second);
  return {};
}

constexpr KeyRow<NodeEdit, Pair> kNodeKeys[] = {{"state", set_node_state},
                                                {"reason", set_reason},
                                                {"weight", set_weight},
                                                {"features availablefeatures activefeatures", set_features}};

// A node that is to fail, or is said to be down, takes no new work, as one that is drained: it is shown as that.
Result<void> enter_state(UpdateNode& update, const std::string& state, const std::string& reason) {
  if (is_among("drain fail down", state)) {
    if (reason.empty())
      return invalid(format("You must specify a reason when {} a node. Request denied", state == "drain"  ? "DRAINING"
                                                                                        : state == "fail" ? "FAILING"
                                                                                                          : "DOWNING"),
                     "reason");
    update.drain = true;
    return {};
  }
  if (!is_among("resume idle undrain", state))
    return Error{Errc::kUnsupported,
                 format("State={} cannot be set: use DRAIN, FAIL, DOWN or RESUME\nRequest aborted", state),
                 {}};
  update.drain = false;
  update.reason = "";
  return {};
}

}  // namespace

Result<NodeChange> node_change(const std::vector<Pair>& pairs) {
  NodeEdit edit;
  for (std::size_t i = 1; i < pairs.size(); ++i)
    if (!TRY(set_by_key(kNodeKeys, edit, pairs[i].first, pairs[i])))
      return unsupported(pairs[i].first);
  if (!edit.state.empty())
    TRY(enter_state(edit.update, edit.state, edit.reason));
  if (!edit.reason.empty())
    edit.update.reason = edit.reason;
  return NodeChange{std::move(edit.update), edit.state == "down"};
}

namespace {

struct JobEdit {
  const JobFactsForUpdate& facts;
  UpdateJob update;
};

template <std::optional<std::string> UpdateJob::*kText>
Result<void> set_text(JobEdit& edit, const Pair& pair) {
  edit.update.*kText = pair.second;
  return {};
}

Result<void> set_partitions(JobEdit& edit, const Pair& pair) {
  edit.update.partitions = items_of(pair.second);
  return {};
}

template <std::optional<std::vector<std::string>> UpdateJob::*kNodes>
Result<void> set_hosts(JobEdit& edit, const Pair& pair) {
  edit.update.*kNodes = TRY(hosts_of(pair.second));
  return {};
}

bool is_relative(std::string_view limit) { return limit.starts_with('+') || limit.starts_with('-'); }

Result<void> set_time_limit(JobEdit& edit, const Pair& pair) {
  const std::string& value = pair.second;
  const bool relative = is_relative(value);
  const Duration by =
      whole_minutes(TRY(needed(parse_time_limit(std::string_view(value).substr(relative ? 1 : 0)), pair)));
  const Duration limit = !relative ? by : value[0] == '+' ? edit.facts.time_limit + by : edit.facts.time_limit - by;
  if (limit.us <= 0)
    return bad_value(pair);
  edit.update.time_limit = limit;
  return {};
}

template <std::optional<WallTime> UpdateJob::*kTime>
Result<void> set_moment(JobEdit& edit, const Pair& pair) {
  edit.update.*kTime = TRY(needed(parse_wall_time(pair.second, edit.facts.now), pair));
  return {};
}

Result<void> set_nice(JobEdit& edit, const Pair& pair) {
  const std::int64_t nice = pair.second.empty() ? 100 : TRY(needed(parse_int(pair.second), pair));
  if (nice < -2147483645 || nice > 2147483645)
    return bad_value(pair);
  edit.update.nice = static_cast<std::int32_t>(nice);
  return {};
}

Result<void> set_priority(JobEdit& edit, const Pair& pair) {
  const std::uint64_t priority = TRY(needed(parse_uint(pair.second), pair));
  if (priority > UINT32_MAX)
    return bad_value(pair);
  edit.update.priority = static_cast<std::uint32_t>(priority);
  return {};
}

Result<void> set_throttle(JobEdit& edit, const Pair& pair) {
  edit.update.throttle = TRY(needed(parse_count(pair.second), pair));
  return {};
}

Result<void> set_node_count(JobEdit& edit, const Pair& pair) {
  edit.update.nodes = TRY(needed(parse_node_range(pair.second), pair));
  return {};
}

Result<void> set_tasks(JobEdit& edit, const Pair& pair) {
  const std::uint32_t tasks = TRY(needed(parse_count(pair.second), pair));
  if (tasks == 0)
    return bad_value(pair);
  edit.update.tasks = CountRange{tasks, tasks};
  return {};
}

Result<void> set_dependencies(JobEdit& edit, const Pair& pair) {
  edit.update.dependencies = pair.second.empty() ? std::vector<Dependency>{} : TRY(parse_dependencies(pair.second)).all;
  return {};
}

Result<void> set_requeue(JobEdit& edit, const Pair& pair) {
  if (pair.second != "0" && pair.second != "1")
    return bad_value(pair);
  edit.update.requeue = pair.second == "1";
  return {};
}

constexpr KeyRow<JobEdit, Pair> kJobKeys[] = {{"jobname name", set_text<&UpdateJob::name>},
                                              {"account", set_text<&UpdateJob::account>},
                                              {"qos", set_text<&UpdateJob::qos>},
                                              {"comment", set_text<&UpdateJob::comment>},
                                              {"reservation reservationname", set_text<&UpdateJob::reservation>},
                                              {"features", set_text<&UpdateJob::constraint>},
                                              {"partition", set_partitions},
                                              {"reqnodelist nodelist", set_hosts<&UpdateJob::only_nodes>},
                                              {"excnodelist", set_hosts<&UpdateJob::exclude_nodes>},
                                              {"timelimit", set_time_limit},
                                              {"starttime", set_moment<&UpdateJob::begin>},
                                              {"deadline", set_moment<&UpdateJob::deadline>},
                                              {"nice", set_nice},
                                              {"priority", set_priority},
                                              {"arraytaskthrottle", set_throttle},
                                              {"numnodes", set_node_count},
                                              {"numtasks", set_tasks},
                                              {"dependency", set_dependencies},
                                              {"requeue", set_requeue}};

}  // namespace

Result<UpdateJob> job_change(const std::vector<Pair>& pairs, const JobFactsForUpdate& facts) {
  JobEdit edit{facts, {}};
  for (std::size_t i = 1; i < pairs.size(); ++i)
    if (!TRY(set_by_key(kJobKeys, edit, pairs[i].first, pairs[i])))
      return unsupported(pairs[i].first);
  return std::move(edit.update);
}

int scontrol_update(const ScontrolSession& session, const Words& words) {
  const auto run = [&]() -> Result<void> {
    std::vector<Pair> pairs = TRY(pairs_of(words));
    Query query(session.context);
    const std::string what = TRY(put_entity_first(pairs));
    if (!what.empty())
      TRY(check_not_empty(pairs[0]));
    if (what == "jobid") {
      for (const std::string& name : items_of(pairs[0].second)) {
        std::vector<Pair> one = pairs;
        one[0].second = name;
        TRY(update_job(query, one));
      }
      return {};
    }
    if (what == "nodename")
      return update_nodes(query, pairs);
    if (what == "partitionname")
      return put_partition(query, pairs, false);
    return Error{
        Errc::kUnsupported,
        "No valid entity in update command\nInput line must include \"NodeName\", \"PartitionName\" or \"JobId\"",
        {}};
  };
  return finish(session, run());
}

int scontrol_create(const ScontrolSession& session, const Words& words) {
  const auto run = [&]() -> Result<void> {
    std::vector<Pair> pairs = TRY(pairs_of(words));
    TRY(complete_keys(ScontrolEntity::kPartition, pairs));
    if (pairs.empty() || pairs[0].first != "partitionname" || pairs[0].second.empty())
      return Error{Errc::kUnsupported, "only partitions can be created: create PartitionName=NAME ...", {}};
    Query query(session.context);
    return put_partition(query, pairs, true);
  };
  return finish(session, run());
}

int scontrol_delete(const ScontrolSession& session, const Words& words) {
  const auto run = [&]() -> Result<void> {
    std::vector<Pair> pairs = TRY(pairs_of(words));
    const std::string what = TRY(put_entity_first(pairs));
    if (pairs.size() != 1 || (what != "partitionname" && what != "nodename"))
      return Error{Errc::kUnsupported, "only partitions and nodes can be deleted: delete PartitionName=NAME", {}};
    TRY(check_not_empty(pairs[0]));
    Query query(session.context);
    TRY(query.send("DELETE",
                   (pairs[0].first == "nodename" ? "/v1/nodes/" : "/v1/partitions/") + url_escaped(pairs[0].second),
                   {}));
    return {};
  };
  return finish(session, run());
}

}  // namespace lockstep::slurm
