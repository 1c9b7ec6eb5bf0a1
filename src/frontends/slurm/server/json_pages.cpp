// The fields that client tools read, under Slurm's names (data_parser v0.0.40 and later).
#include "frontends/slurm/server/json_pages.h"

#include <algorithm>

#include "base/hostlist.h"
#include "base/text.h"
#include "frontends/slurm/server/job_filter.h"
#include "frontends/slurm/server/node_facts.h"
#include "frontends/slurm/server/show_text.h"
#include "frontends/slurm/server/sinfo.h"
#include "frontends/slurm/server/slurm_json.h"
#include "frontends/slurm/server/states.h"
#include "rules/fit.h"

namespace lockstep::slurm {

namespace {

void job_resources(SlurmJson& json, const JobLine& line) {
  if (!line.job->allocation) {
    json.null();
    return;
  }
  const std::vector<std::string> names = node_names(line);
  const JobCounts counts = job_counts(line);
  json.open('{').key("cpus").number(counts.cpus).key("nodes").open('{');
  json.key("count").number(counts.nodes).key("list").text(compress_hostlist(names)).key("allocation").open('[');
  const auto each_grant = [&](auto&& f) {
    for (const Grant& grant : line.job->allocation->grants)
      if (grant.group == line.group && occupies(grant))
        if (const Node* node = line.context->tables.node(grant.node))
          f(grant, *node);
  };
  each_grant([&](const Grant& grant, const Node& node) {
    json.open('{').key("name").text(node.meta.name).key("cpus").open('{');
    json.key("count").number(grant.cores.count()).key("used").number(grant.cores.count()).close('}');
    json.key("memory").open('{').key("used").number(0).key("allocated").number(grant.memory_mb).close('}').close('}');
  });
  json.close(']').close('}');
  // Before 24.11 the same stood here.
  json.key("allocated_nodes").open('[');
  each_grant([&](const Grant& grant, const Node& node) {
    json.open('{').key("nodename").text(node.meta.name).key("cpus_used").number(grant.cores.count());
    json.key("memory_allocated").number(grant.memory_mb).close('}');
  });
  json.close(']').close('}');
}

void job_object(SlurmJson& json, const JobLine& line) {
  const ReadContext& context = *line.context;
  const Job& job = *line.job;
  const JobSpec& spec = line.spec();
  const JobCounts counts = job_counts(line);
  const User* user = context.tables.user(spec.user);
  const std::int64_t limit = limit_seconds(line);
  const bool het = spec.groups.size() > 1;
  const std::string scheduled = expected_node_list(line);
  json.open('{');
  json.key("job_id").number(static_cast<std::int64_t>(job.id.value)).key("name").text(spec.name);
  json.key("user_name").text(user ? user->meta.name : "nobody").key("user_id").number(user ? user->uid : 65534);
  json.key("group_id").number(user ? user->gid : 65534).key("group_name").text(user ? user->meta.name : "nobody");
  json.key("account").text(account_of(line)).key("partition").text(partition_text(line));
  json.key("qos").text(spec.qos.empty() ? "normal" : spec.qos).key("cluster").text(context.cluster_name);
  json.key("job_state").open('[').text(slurm_state(job)).close(']');
  json.key("state_reason").text(slurm_reason(job, line.note)).key("state_description").text("");
  json.key("command").text(spec.command).key("comment").text(spec.comment);
  json.key("current_working_directory").text(spec.work_dir);
  json.key("array_job_id")
      .set_number(true, job.array_job ? static_cast<std::int64_t>(job.array_job.value)
                        : job.array   ? static_cast<std::int64_t>(job.id.value)
                                      : 0);
  json.key("array_task_id")
      .set_number(static_cast<bool>(job.array_job) || line.one_waiting,
                  line.one_waiting ? line.waiting_index : job.array_index);
  json.key("array_task_string").text(job.array && !line.one_waiting ? indices_text(job.array->waiting) : std::string());
  json.key("het_job_id").set_number(true, het ? static_cast<std::int64_t>(job.id.value) : 0);
  json.key("het_job_offset").set_number(true, line.group);
  json.key("cpus").set_number(true, counts.cpus).key("node_count").set_number(true, counts.nodes);
  json.key("tasks").set_number(true, counts.tasks);
  json.key("cpus_per_task").set_number(true, std::max(1u, line.group_spec().per_task.cores));
  json.key("memory_per_node")
      .set_number(line.group_spec().per_node.memory_mb > 0, line.group_spec().per_node.memory_mb);
  json.key("memory_per_cpu").set_number(line.group_spec().memory_per_core_mb > 0, line.group_spec().memory_per_core_mb);
  json.key("nodes").text(node_list(line)).key("scheduled_nodes").text(scheduled);
  json.key("required_nodes").text(compress_hostlist(line.group_spec().only_nodes));
  json.key("excluded_nodes").text(compress_hostlist(line.group_spec().exclude_nodes));
  const std::vector<std::string> names = node_names(line);
  json.key("batch_host")
      .text(names.empty() ? std::string() : names[0])
      .key("features")
      .text(line.group_spec().constraint);
  json.key("dependency").text(dependency_text(job)).key("licenses").text(spec.licenses);
  json.key("wckey").text(spec.wckey).key("reservation").text(spec.reservation);
  json.key("priority").set_number(true, static_cast<std::int64_t>(shown_priority(job))).key("nice").number(spec.nice);
  json.key("restart_cnt").number(restarts_of(job)).key("requeue").boolean(spec.requeue);
  json.key("submit_time").set_number(true, wall_seconds(context, job.submitted));
  json.key("eligible_time").set_number(true, eligible_seconds(line));
  json.key("start_time").set_number(start_seconds(line) > 0, start_seconds(line));
  json.key("end_time").set_number(end_seconds(line) > 0, end_seconds(line));
  json.key("time_limit").open('{').key("set").boolean(limit >= 0).key("infinite").boolean(limit == kUnlimited);
  json.key("number").number(std::max<std::int64_t>(0, limit) / 60).close('}');
  json.key("exit_code").exit_code(job.exit.code, job.exit.signal);
  json.key("derived_exit_code").exit_code(job.derived_exit.code, job.derived_exit.signal);
  const auto told = [&](SharedText JobSpec::*file) {
    return line.tells(file) ? std::string_view((spec.*file).get()) : std::string_view();
  };
  json.key("standard_output").text(told(&JobSpec::std_out)).key("standard_error").text(told(&JobSpec::std_err));
  json.key("standard_input").text(told(&JobSpec::std_in).empty() ? "/dev/null" : told(&JobSpec::std_in));
  json.key("tres_per_node")
      .text(tres_per_node(spec))
      .key("tres_req_str")
      .text(tres_text(asked_counts(line.spec(), line.group_spec()), partition_of(line)));
  json.key("tres_alloc_str").text(job.allocation ? tres_text(counts, partition_of(line)) : std::string());
  if (const PlaceInTree place = place_in_tree(line); !place.level.empty()) {
    json.key("topology").open('{').key("level").text(place.level).key("best_level").text(place.best);
    json.key("leaves").number(static_cast<std::int64_t>(place.leaves)).close('}');
  }
  json.key("required_switches").number(line.group_spec().switches_max);
  json.key("job_resources");
  job_resources(json, line);
  json.close('}');
}

void node_object(SlurmJson& json, const ReadContext& context, const Node& node, const NodeHolding& holding,
                 const std::vector<std::string>& partitions) {
  const CpuCounts cpus = cpu_counts(node, holding);
  const auto names = [&](std::string_view key, const std::vector<std::string>& list) {
    json.key(key).open('[');
    for (const std::string& name : list) json.text(name);
    json.close(']');
  };
  json.open('{').key("name").text(node.meta.name).key("hostname").text(node.hostname).key("address").text(node.address);
  names("state", slurm_node_state_list(node, holding));
  names("partitions", partitions);
  names("features", node.features);
  names("active_features", node.features);
  json.key("architecture").text("x86_64").key("cpus").number(node.cores).key("effective_cpus").number(node.cores);
  json.key("sockets").number(node.sockets).key("cores").number(node.cores / std::max(1u, node.sockets));
  json.key("threads").number(node.threads_per_core);
  json.key("alloc_cpus").number(cpus.allocated).key("alloc_idle_cpus").number(cpus.idle);
  json.key("idle_cpus").number(cpus.idle).key("real_memory").number(node.memory_mb);
  const NodeMeasures* measures = context.live ? context.live->node(node.id) : nullptr;
  json.key("alloc_memory").number(holding.memory_mb).key("free_mem");
  json.set_number(measures != nullptr, measures ? measures->memory_free_mb : 0);
  json.key("cpu_load");  // of one processor in hundredths, as Slurm has it
  json.set_number(measures != nullptr, measures ? measures->load_percent : 0);
  json.key("temporary_disk").number(node.tmp_disk_mb).key("weight").number(node.weight);
  json.key("gres").text(node.devices.empty() ? std::string() : gres_text(node));
  json.key("gres_used").text(node.devices.empty() ? std::string() : gres_used_text(node, holding));
  json.key("tres").text(node_tres(node)).key("tres_used").text(alloc_tres(node, holding));
  const NodeReason reason = reason_of(node);
  json.key("reason").text(reason.words);
  json.key("reason_set_by_user").text(reason.by ? user_name(context, reason.by) : "");
  json.key("reason_changed_at").set_number(true, wall_seconds(context, reason.at));
  json.key("boot_time").set_number(true, wall_seconds(context, node.boot_at)).key("version").text(node.version);
  json.close('}');
}

// The shape of 23.02 and later: one entry per partition and node, with sums a single node has too.
void sinfo_object(SlurmJson& json, const Partition& partition, const Node& node, const NodeHolding& holding) {
  const CpuCounts cpus = cpu_counts(node, holding);
  const bool busy = holding.running + holding.completing > 0, usable = node_usable(node);
  json.open('{').key("node").open('{').key("state").open('[');
  for (const std::string& state : slurm_node_state_list(node, holding)) json.text(state);
  json.close(']').close('}');
  json.key("nodes").open('{').key("allocated").number(busy).key("idle").number(!busy && usable);
  json.key("other").number(!busy && !usable).key("total").number(1);
  json.key("hostnames")
      .open('[')
      .text(node.hostname)
      .close(']')
      .key("addresses")
      .open('[')
      .text(node.address)
      .close(']');
  json.key("nodes").open('[').text(node.meta.name).close(']').close('}');
  json.key("cpus").open('{').key("allocated").number(cpus.allocated).key("idle").number(cpus.idle);
  json.key("other").number(cpus.other).key("total").number(cpus.total);
  json.key("minimum").number(node.cores).key("maximum").number(node.cores).close('}');
  json.key("memory").open('{').key("minimum").number(node.memory_mb).key("maximum").number(node.memory_mb);
  json.key("allocated").number(holding.memory_mb).close('}');
  json.key("gres").open('{').key("total").text(node.devices.empty() ? std::string() : gres_text(node));
  json.key("used").text(node.devices.empty() ? std::string() : gres_used_text(node, holding)).close('}');
  json.key("weight").open('{').key("minimum").number(node.weight).key("maximum").number(node.weight).close('}');
  json.key("reason").open('{').key("description").text(reason_of(node).words).close('}');
  json.key("partition").open('{').key("name").text(partition.meta.name);
  json.key("partition").open('{').key("state").open('[').text(partition_state(partition)).close(']').close('}');
  json.close('}').close('}');
}

// What follows the last list: `"meta":…}`.
std::string tail_text() {
  SlurmJson json;
  json.open('{').tail().close('}');
  return json.take().substr(1);
}

}  // namespace

PageReply squeue_json_page(const ReadContext& context, const PageRequest& request) {
  PageRequest wider = request;
  // Slurm's JSON ignores the default filter: it shows ended jobs too as long as they are known.
  if (!is_given(request, "states"))
    wider.query["states"] = "all";
  auto filter = JobFilter::parse(context, wider);
  if (!filter)
    return refusal(filter.error().code == Errc::kNotFound ? 404 : 400, filter.error().message);
  PageReply reply{200, "application/json", "{\"jobs\":[", {}};
  reply.more = [cursor = std::make_shared<JobCursor>(context, std::move(*filter)),
                first = true](std::string& body) mutable {
    constexpr std::size_t kAtOnce = 8;  // each has some hundred fields
    const bool more = cursor->next(
        [&](const JobLine& line) {
          SlurmJson json;
          job_object(json, line);
          body += first ? "" : ",";
          body += json.take();
          first = false;
        },
        kAtOnce);
    if (!more)
      body += "]," + tail_text();
    return more;
  };
  return reply;
}

namespace {

// Nodes, then partitions with theirs, some at a time.
class SinfoJson {
 public:
  SinfoJson(const ReadContext& context, NodeStateSet states, std::vector<std::string> nodes,
            const std::vector<std::string>& partitions)
      : context_(context),
        states_(std::move(states)),
        wanted_nodes_(nodes.begin(), nodes.end()),
        wanted_partitions_(partitions.begin(), partitions.end()),
        holdings_(node_holdings(context)),
        partitions_by_node_(context.tables),
        partitions_(refs_of<Partition>(context.tables.partitions)),
        nodes_(refs_of<Node>(context.tables.nodes)) {
    std::erase_if(partitions_, [&](const Ref<Partition>& p) { return !wants(p->meta.name); });
  }

  // False: that was the last piece.
  bool next(std::string& body) {
    constexpr std::size_t kAtOnce = 64;
    for (std::size_t n = 0; n < kAtOnce && at_ < nodes_.size(); ++n) one(body, *nodes_[at_++]);
    if (at_ < nodes_.size())
      return true;
    // On to the next list: that of the partition.
    if (partition_ == 0)
      body += "],\"sinfo\":[", first_ = true;
    if (partition_ == partitions_.size()) {
      body += "]," + tail_text();
      return false;
    }
    nodes_ = partition_nodes(context_.tables, *partitions_[partition_++]);
    at_ = 0;
    return true;
  }

 private:
  bool wants(const std::string& partition) const {
    return wanted_partitions_.empty() || wanted_partitions_.contains(partition);
  }

  void one(std::string& body, const Node& node) {
    static const NodeHolding kNothing;
    const auto held = holdings_.find(node.id);
    const NodeHolding& holding = held == holdings_.end() ? kNothing : held->second;
    const bool wanted = (wanted_nodes_.empty() || wanted_nodes_.contains(node.meta.name)) &&
                        (states_.empty() || states_.has(node, holding));
    const std::vector<std::string> partitions = partitions_by_node_.names(node);
    const bool is_in = wanted_partitions_.empty() ||
                       std::any_of(partitions.begin(), partitions.end(), [&](const auto& name) { return wants(name); });
    if (!wanted || !is_in)
      return;
    SlurmJson json;
    if (partition_ == 0)
      node_object(json, context_, node, holding, partitions);
    else
      sinfo_object(json, *partitions_[partition_ - 1], node, holding);
    body += first_ ? "" : ",";
    body += json.take();
    first_ = false;
  }

  const ReadContext& context_;
  NodeStateSet states_;
  std::set<std::string> wanted_nodes_, wanted_partitions_;
  std::map<NodeId, NodeHolding> holdings_;
  PartitionsByNode partitions_by_node_;
  std::vector<Ref<Partition>> partitions_;
  std::vector<Ref<Node>> nodes_;  // of the list that is being written
  std::size_t at_ = 0;
  std::size_t partition_ = 0;  // 0: the list of all nodes; else that of the partition before it
  bool first_ = true;
};

}  // namespace

PageReply sinfo_json_page(const ReadContext& context, const PageRequest& request) {
  auto states = NodeStateSet::asked(request);
  if (!states)
    return refusal(400, states.error().message);
  std::vector<std::string> nodes;
  if (const std::string& list = query_of(request, "nodes"); !list.empty()) {
    auto names = expand_hostlist(list);
    if (!names)
      return refusal(400, names.error().message);
    nodes = std::move(*names);
  }
  PageReply reply{200, "application/json", "{\"nodes\":[", {}};
  reply.more = [work = std::make_shared<SinfoJson>(context, std::move(*states), std::move(nodes),
                                                   partitions_asked(request))](std::string& body) {
    return work->next(body);
  };
  return reply;
}

}  // namespace lockstep::slurm
