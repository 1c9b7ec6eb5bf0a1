// scontrol update, create and delete: Key=Value words become one request.
#include "frontends/slurm/client/scontrol_update.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/hostlist.h"
#include "base/text.h"
#include "frontends/slurm/client/api.h"
#include "frontends/slurm/client/scontrol_keys.h"
#include "frontends/slurm/client/scontrol_verbs.h"
#include "frontends/slurm/client/values.h"
#include "wire/api.h"

namespace lockstep::slurm {

namespace {

using Pair = std::pair<std::string, std::string>;

Error unsupported(const std::string& key) {
  return {Errc::kUnsupported, format("Update of this parameter is not supported: {}\nRequest aborted", key), {}};
}
Error bad_value(const Pair& pair) {
  return invalid(format("Invalid value for {}: {}", pair.first, pair.second), pair.first);
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

// "CPU=1.0,Mem=0.25G,GRES/gpu=2.0": memory by the GB.
Result<std::vector<TresWeight>> billing_weights(const std::string& text) {
  std::vector<TresWeight> out;
  for (const std::string& part : split(text, ',')) {
    const auto equals = part.find('=');
    char* end = nullptr;
    const double weight = equals == std::string::npos ? -1 : std::strtod(part.c_str() + equals + 1, &end);
    const std::string unit = end ? lower(end) : "";
    const double scale = unit.empty() || unit == "g" ? 1 : unit == "m" ? 1024 : unit == "t" ? 1.0 / 1024 : 0;
    if (!(weight >= 0) || weight > 1e9 || scale == 0)
      return bad_value({"tresbillingweights", text});
    out.push_back({lower(part.substr(0, equals)), std::llround(weight * scale * 1000)});
  }
  return out;
}

Result<void> set_partition_key(Partition& partition, const Pair& pair) {
  const auto& [key, value] = pair;
  const std::string word = lower(value);
  if (key == "nodes") {
    partition.nodes = word == "all" ? std::vector<std::string>{"ALL"} : TRY(hosts_of(value));
  } else if (key == "state") {
    if (word != "up" && word != "down")
      return bad_value(pair);
    partition.up = word == "up";
  } else if (key == "default") {
    const auto yes = parse_yes_no(value);
    if (!yes)
      return bad_value(pair);
    partition.is_default = *yes;
  } else if (key == "maxtime" || key == "defaulttime") {
    const auto limit = parse_time_limit(value);
    if (!limit && word != "none")
      return bad_value(pair);
    (key == "maxtime" ? partition.time_max : partition.time_default) = limit.value_or(Duration{});
  } else if (key == "maxnodes") {
    const auto count = word == "unlimited" ? std::optional<std::uint32_t>(0) : parse_count(value);
    if (!count)
      return bad_value(pair);
    partition.nodes_max = *count;
  } else if (key == "prioritytier" || key == "priorityjobfactor" || key == "priority") {
    const auto count = parse_count(value);
    if (!count)
      return bad_value(pair);
    (key == "priorityjobfactor" ? partition.priority : partition.tier) = *count;
  } else if (key == "defmempercpu") {
    const auto memory = parse_memory_mb(value);
    if (!memory)
      return bad_value(pair);
    partition.memory_per_core_mb = *memory;
  } else if (key == "allowaccounts") {
    partition.allow_accounts = word == "all" ? std::vector<std::string>{} : split(value, ',');
  } else if (key == "denyaccounts") {
    partition.deny_accounts = split(value, ',');
  } else if (key == "allowqos") {
    partition.allow_qos = word == "all" ? std::vector<std::string>{} : split(value, ',');
  } else if (key == "denyqos") {
    partition.deny_qos = split(value, ',');
  } else if (key == "qos") {
    partition.qos = word == "n/a" ? "" : value;
  } else if (key == "preemptmode") {
    const auto mode = parse_preempt_mode(value);
    if (!mode)
      return bad_value(pair);
    partition.preempt_mode = *mode;
  } else if (key == "gracetime") {
    const auto span = parse_count(value);
    if (!span)
      return bad_value(pair);
    partition.grace = seconds(*span);
  } else if (key == "tresbillingweights") {
    partition.billing = TRY(billing_weights(value));
  } else {
    return unsupported(key);
  }
  return {};
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
  for (std::size_t i = 1; i < pairs.size(); ++i) TRY(set_partition_key(partition, pairs[i]));
  if (partition.nodes != before)
    TRY(check_known(query, partition.nodes));
  TRY(query.set("PUT", "/v1/partitions/" + url_escaped(partition.meta.name), encode_partition(partition)));
  return {};
}

Result<void> update_nodes(Query& query, const std::vector<Pair>& pairs) {
  const NodeChange change = TRY(node_change(pairs));
  const bool all = lower(pairs[0].second) == "all";
  for (const std::string& name : TRY(all ? all_nodes(query) : expand_hostlist(pairs[0].second))) {
    UpdateNode update = change.update;
    update.name = name;
    TRY(query.set("POST", "/v1/nodes/" + url_escaped(name), encode(update)));
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

int finish(const Result<void>& done) {
  if (done)
    return 0;
  const Error& error = done.error();
  if (error.code == Errc::kUnsupported)
    write_all(STDERR_FILENO, error.message + "\n");
  else
    write_all(STDERR_FILENO, format("slurm_update error: {}\n",
                                    error.code == Errc::kDenied ? "Access/permission denied" : error.message));
  return 1;
}

}  // namespace

Result<NodeChange> node_change(const std::vector<Pair>& pairs) {
  NodeChange change;
  std::string state, reason;
  for (std::size_t i = 1; i < pairs.size(); ++i) {
    const auto& [key, value] = pairs[i];
    if (key == "state") {
      state = lower(value);
    } else if (key == "reason") {
      reason = value;
    } else if (key == "weight") {
      change.update.weight = parse_count(value);
      if (!change.update.weight)
        return bad_value(pairs[i]);
    } else if (key == "features" || key == "availablefeatures" || key == "activefeatures") {
      change.update.features = split(value, ',');
    } else {
      return unsupported(key);
    }
  }
  if (state == "drain") {
    if (reason.empty())
      return invalid("You must specify a reason when DRAINING a node. Request denied", "reason");
    change.update.drain = true;
  } else if (state == "resume" || state == "idle" || state == "undrain") {
    change.update.drain = false;
    change.update.reason = "";
  } else if (!state.empty()) {
    return Error{Errc::kUnsupported, format("State={} cannot be set: use DRAIN or RESUME\nRequest aborted", state), {}};
  }
  if (!reason.empty())
    change.update.reason = reason;
  return change;
}

Result<UpdateJob> job_change(const std::vector<Pair>& pairs, const JobFactsForUpdate& facts) {
  UpdateJob update;
  for (std::size_t i = 1; i < pairs.size(); ++i) {
    const auto& [key, value] = pairs[i];
    const auto text = [&, &value = value](std::optional<std::string>& field) { field = value; };
    if (key == "jobname" || key == "name") {
      text(update.name);
    } else if (key == "account") {
      text(update.account);
    } else if (key == "qos") {
      text(update.qos);
    } else if (key == "comment") {
      text(update.comment);
    } else if (key == "reservation" || key == "reservationname") {
      text(update.reservation);
    } else if (key == "features") {
      text(update.constraint);
    } else if (key == "partition") {
      update.partitions = split(value, ',');
    } else if (key == "reqnodelist" || key == "nodelist") {
      update.only_nodes = TRY(hosts_of(value));
    } else if (key == "excnodelist") {
      update.exclude_nodes = TRY(hosts_of(value));
    } else if (key == "timelimit") {
      const bool relative = !value.empty() && (value[0] == '+' || value[0] == '-');
      const auto limit = parse_time_limit(std::string_view(value).substr(relative ? 1 : 0));
      if (!limit)
        return bad_value(pairs[i]);
      const Duration by = whole_minutes(*limit);
      update.time_limit = !relative ? by : value[0] == '+' ? facts.time_limit + by : facts.time_limit - by;
      if (update.time_limit->us <= 0)
        return bad_value(pairs[i]);
    } else if (key == "starttime" || key == "deadline") {
      const auto when = parse_wall_time(value, facts.now);
      if (!when)
        return bad_value(pairs[i]);
      (key == "starttime" ? update.begin : update.deadline) = *when;
    } else if (key == "nice") {
      const auto nice = value.empty() ? std::optional<std::int64_t>(100) : parse_int(value);
      if (!nice || *nice < -2147483645 || *nice > 2147483645)
        return bad_value(pairs[i]);
      update.nice = static_cast<std::int32_t>(*nice);
    } else if (key == "priority") {
      const auto priority = parse_uint(value);
      if (!priority || *priority > UINT32_MAX)
        return bad_value(pairs[i]);
      update.priority = static_cast<std::uint32_t>(*priority);
    } else if (key == "arraytaskthrottle") {
      update.throttle = parse_count(value);
      if (!update.throttle)
        return bad_value(pairs[i]);
    } else if (key == "numnodes") {
      update.nodes = parse_node_range(value);
      if (!update.nodes)
        return bad_value(pairs[i]);
    } else if (key == "numtasks") {
      const auto tasks = parse_count(value);
      if (!tasks || *tasks == 0)
        return bad_value(pairs[i]);
      update.tasks = CountRange{*tasks, *tasks};
    } else if (key == "dependency") {
      update.dependencies = value.empty() ? std::vector<Dependency>{} : TRY(parse_dependencies(value)).all;
    } else if (key == "requeue") {
      if (value != "0" && value != "1")
        return bad_value(pairs[i]);
      update.requeue = value == "1";
    } else {
      return unsupported(key);
    }
  }
  return update;
}

int scontrol_update(const ScontrolSession& session, const Words& words) {
  const auto run = [&]() -> Result<void> {
    std::vector<Pair> pairs = TRY(pairs_of(words));
    Query query(session.context);
    const std::string what = TRY(put_entity_first(pairs));
    if (what == "jobid") {
      for (const std::string& name : split(pairs[0].second, ',')) {
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
  return finish(run());
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
  return finish(run());
}

int scontrol_delete(const ScontrolSession& session, const Words& words) {
  const auto run = [&]() -> Result<void> {
    std::vector<Pair> pairs = TRY(pairs_of(words));
    const std::string what = TRY(put_entity_first(pairs));
    if (pairs.size() != 1 || (what != "partitionname" && what != "nodename"))
      return Error{Errc::kUnsupported, "only partitions and nodes can be deleted: delete PartitionName=NAME", {}};
    Query query(session.context);
    TRY(query.send("DELETE",
                   (pairs[0].first == "nodename" ? "/v1/nodes/" : "/v1/partitions/") + url_escaped(pairs[0].second),
                   {}));
    return {};
  };
  return finish(run());
}

}  // namespace lockstep::slurm
