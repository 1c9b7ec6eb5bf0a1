// The API's questions and requests about the cluster itself: nodes, partitions, users, watches, history.
#include <unistd.h>

#include "base/text.h"
#include "controller/api.h"
#include "views/job_names.h"
#include "views/selectors.h"
#include "views/summary.h"
#include "wire/codec.h"
#include "wire/local_files.h"

namespace lockstep {

namespace {

std::string node_word(const Node& node, const NodeFacts& facts) {
  if (node.link == NodeLink::kUnknown)
    return "unknown";
  if (node.link == NodeLink::kLost)
    return "down";
  if (node.drain)
    return facts.busy == NodeBusy::kIdle ? "drained" : "draining";
  switch (facts.busy) {
    case NodeBusy::kIdle: return "idle";
    case NodeBusy::kMixed: return "mixed";
    case NodeBusy::kFull: return "allocated";
  }
  return "idle";
}

}  // namespace

void Api::ping(Visit visit) {
  visit.answer(encode(Ping{settings_.cluster_name, LOCKSTEP_VERSION, world_.view.tables().seq, read_only_,
                           static_cast<std::int32_t>(getpid())}));
}

void Api::status(Visit visit) {
  const Tables& tables = world_.view.tables();
  ClusterStatus status;
  status.cluster = settings_.cluster_name;
  status.version = LOCKSTEP_VERSION;
  status.controller_pid = getpid();
  status.controller_state = read_only_ ? "read-only" : "up";
  status.seq = tables.seq;
  const StateCounts counts = count_jobs(tables);
  for (std::size_t i = 0; i < kJobStates; ++i)
    if (counts.by_state[i] > 0)
      status.jobs[std::string(text_of(static_cast<JobState>(i)))] = counts.by_state[i];
  for (const auto& [id, node] : tables.nodes) {
    const NodeFacts facts = node_facts(*node, world_.view.use(id));
    NodeStatus one;
    one.name = node->meta.name;
    one.state = node_word(*node, facts);
    one.address = node->address;
    one.version = node->version;
    one.reason = node->reason;
    one.cores = facts.cores;
    one.cores_used = facts.cores_used;
    one.devices = facts.devices;
    one.devices_used = facts.devices_used;
    one.memory_mb = facts.memory_mb;
    one.memory_used_mb = facts.memory_used_mb;
    if (!node->devices.empty())
      one.device_type = node->devices.front().type;
    status.nodes.push_back(std::move(one));
  }
  visit.answer(encode(status));
}

void Api::metrics(Visit visit) {
  const Tables& tables = world_.view.tables();
  const StateCounts counts = count_jobs(tables);
  const ClusterFacts facts = cluster_facts(tables);
  std::string out = "# TYPE lockstep_jobs gauge\n";
  for (std::size_t i = 0; i < kJobStates; ++i)
    out += format("lockstep_jobs{{state=\"{}\"}} {}\n", text_of(static_cast<JobState>(i)), counts.by_state[i]);
  const auto gauge = [&out](std::string_view name, auto value) {
    out += format("# TYPE lockstep_{0} gauge\nlockstep_{0} {1}\n", name, value);
  };
  gauge("nodes", facts.nodes);
  gauge("nodes_usable", facts.nodes_usable);
  gauge("cores", facts.cores);
  gauge("cores_used", facts.cores_used);
  gauge("devices", facts.devices);
  gauge("devices_used", facts.devices_used);
  gauge("memory_mb", facts.memory_mb);
  gauge("memory_used_mb", facts.memory_used_mb);
  gauge("agent_links", world_.links.size());
  gauge("long_polls", world_.waiters.waiting());
  gauge("step_streams", world_.step_io.sessions());
  gauge("read_only", read_only_ ? 1 : 0);
  out += format("# TYPE lockstep_seq counter\nlockstep_seq {}\n", tables.seq);
  out += format("# TYPE lockstep_http_requests counter\nlockstep_http_requests {}\n", requests_);
  visit.exchange->respond({200, "text/plain; version=0.0.4", std::move(out), {}});
}

void Api::list_nodes(Visit visit) { visit.answer(encode_all(Kind::kNode, world_.view.tables().nodes)); }

void Api::get_node(Visit visit) {
  const Node* node = world_.view.tables().node(visit.names[0]);
  if (!node)
    return visit.refuse(not_found(format("there is no node {}", visit.names[0])));
  visit.answer(encode_record(world_.view.tables().nodes.at(node->id)));
}

void Api::update_node(Visit visit) {
  auto body = decode_update_node(visit.http().body);
  if (!body.ok())
    return visit.refuse(body.error());
  body->name = visit.names[0];
  command(std::move(visit), std::move(*body));
}

void Api::remove_node(Visit visit) { remove_record<RemoveNode>(std::move(visit)); }

void Api::list_partitions(Visit visit) { visit.answer(encode_all(Kind::kPartition, world_.view.tables().partitions)); }

void Api::put_partition(Visit visit) { put_record<PutPartition>(std::move(visit), decode_partition); }

void Api::remove_partition(Visit visit) { remove_record<RemovePartition>(std::move(visit)); }

void Api::get_topology(Visit visit) {
  if (!world_.view.tables().topology)
    return visit.refuse(not_found("the cluster has no topology: all nodes are equally near"));
  visit.answer(encode_record(world_.view.tables().topology));
}

void Api::put_topology(Visit visit) {
  auto body = decode_topology(visit.http().body);
  if (!body.ok())
    return visit.refuse(body.error());
  if (body->leaves.empty())
    return visit.refuse(invalid("a topology without nodes; DELETE forgets it", "leaves"));
  command(std::move(visit), PutTopology{std::move(*body)});
}

void Api::remove_topology(Visit visit) { command(std::move(visit), PutTopology{}); }

void Api::list_users(Visit visit) { visit.answer(encode_all(Kind::kUser, world_.view.tables().users)); }

void Api::put_user(Visit visit) { put_record<PutUser>(std::move(visit), decode_user); }

void Api::plan_notes(Visit visit) {
  std::vector<PlanNote> notes;
  notes.reserve(world_.view.notes().size());
  world_.view.notes().for_each(
      [&](JobId job, const PlanNote&, Instant) { notes.push_back(*world_.view.notes().whole(job)); });
  visit.answer(encode(notes));
}

void Api::watch(Visit visit) {
  const auto lines = [](const std::vector<Change>& changes) {
    std::string out;
    for (const auto& change : changes) (out += encode(change)) += '\n';
    return HttpResponse{200, "application/x-ndjson", std::move(out), {}};
  };
  const auto from = parse_uint(visit.query("from"));
  if (!from || *from == 0)  // everything as it is now; the highest seq says where to go on
    return visit.exchange->respond(lines(world_.view.tables().snapshot()));
  const auto ready = [this, seen = *from, lines]() -> std::optional<HttpResponse> {
    std::vector<Change> changes;
    if (!world_.view.changes_after(seen, changes)) {
      const Error gone{Errc::kUnavailable,
                       format("changes after {} are not kept any more: begin again without from", seen), "from"};
      return HttpResponse{410, "application/json", encode_error(gone), {}};
    }
    if (changes.empty())
      return std::nullopt;
    return lines(changes);
  };
  world_.waiters.add(JobId{}, visit.exchange, ready, poll_time(visit));
}

void Api::history(Visit visit) {
  HistoryQuery query;
  const auto list = [&](std::string_view name) {
    auto out = split(visit.query(name), ',');
    std::erase_if(out, [](const std::string& word) { return word.empty(); });
    return out;
  };
  if (const auto text = visit.query("id"); !text.empty()) {
    auto names = parse_work_names(text);
    if (!names.ok())
      return visit.refuse(names.error());
    for (auto& name : *names) query.jobs.push_back(std::move(name.target));
  }
  query.users = list("user");
  query.accounts = list("account");
  query.partitions = list("partition");
  query.names = list("name");
  query.states = list("state");
  query.from_us = parse_int(visit.query("from_us")).value_or(0);
  query.to_us = parse_int(visit.query("to_us")).value_or(INT64_MAX);
  query.steps = visit.query("steps") != "0";
  query.duplicates = visit.query("duplicates") == "1";
  if (const auto limit = parse_uint(visit.query("limit")))
    query.limit = std::min<std::size_t>(query.limit, *limit);
  world_.history.ask([this, visit = std::move(visit), query = std::move(query)](HistoryStore& store, const Tables&) {
    auto rows = std::make_shared<Result<std::vector<JobRow>>>(store.query(query));
    world_.loop.post([visit, rows] {
      if (rows->ok())
        visit.answer(encode(**rows));
      else
        visit.refuse(rows->error());
    });
  });
}

}  // namespace lockstep
