#include "core/reservations.h"

#include <algorithm>

#include "base/text.h"
#include "core/directory.h"
#include "core/versions.h"
#include "model/job.h"
#include "rules/awaited.h"
#include "rules/fit.h"
#include "rules/reservation.h"
#include "rules/tres.h"

namespace lockstep {

namespace {

bool uses(const JobSpec& spec, const std::string& reservation) {
  std::string_view rest = std::string_view(spec.reservation);
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    if (rest.substr(0, comma) == reservation)
      return true;
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  }
  return false;
}

// When the last of what runs on the node must be over, but for the reservation's own jobs; 0 = nothing runs there.
Instant busy_until(const Txn& txn, NodeId node, const Reservation& r) {
  Instant latest;
  const auto on = txn.inner().jobs_on.find(node);
  if (on == txn.inner().jobs_on.end())
    return latest;
  for (JobId id : on->second) {
    const Ref<Job> job = txn.job(id);
    if (uses(*job->spec, r.meta.name))
      continue;
    const Allocation& allocation = *job->allocation;
    const Instant end = job->limit_end                 ? job->limit_end
                        : allocation.limit >= kForever ? kNever
                                                       : allocation.granted + allocation.limit;
    latest = std::max(latest, end);
  }
  return latest;
}

// Another reservation that wants the node at the same time and does not allow it.
const Reservation* rival(const Txn& txn, const Reservation& r, const std::string& node) {
  for (const auto& [name, other] : txn.tables().reservations)
    if (name != r.meta.name && !other->overlap && !other->maint && keeps_node(*other, node) && overlap(*other, r))
      return other.get();
  return nullptr;
}

bool tolerates(const Reservation& r) { return r.overlap || r.maint; }

class Choice {
 public:
  Choice(const Txn& txn, const Reservation& r) : txn_(txn), r_(r) {
    const auto window = window_after(r, txn.inner().wall_at(txn.now()));
    begins_ = window ? txn.inner().of_wall(window->start) : txn.now();
  }

  // Why the node cannot be part of it; "" = it can.
  std::string objection(const Node& node) const {
    if (!tolerates(r_))
      if (const Reservation* other = rival(txn_, r_, node.meta.name))
        return format("node {} is in reservation {} then", node.meta.name, other->meta.name);
    if (!r_.ignore_jobs && busy_until(txn_, node.id, r_) > begins_)
      return format("node {} is busy then", node.meta.name);
    return "";
  }

  // Nodes that take work and could be part of it: those where its jobs run, those it has, then free ones.
  std::vector<const Node*> candidates(const Partition& partition) const {
    const Reservation* known = txn_.tables().reservation(r_.meta.name);
    std::vector<const Node*> own, had, free, busy;
    for (const Node* node : nodes_of(txn_.tables(), partition)) {
      if (!node_expected(*node) || !objection(*node).empty())
        continue;
      if (!r_.features.empty() && !constraint_holds(r_.features, node->features))
        continue;
      (known && keeps_node(*known, node->meta.name) ? (runs_on(*node) ? own : had)
       : txn_.inner().jobs_on.contains(node->id)    ? busy
                                                    : free)
          .push_back(node);
    }
    for (const auto* more : {&had, &free, &busy}) own.insert(own.end(), more->begin(), more->end());
    return own;
  }

 private:
  // A job of the reservation.
  bool runs_on(const Node& node) const {
    const auto on = txn_.inner().jobs_on.find(node.id);
    return on != txn_.inner().jobs_on.end() && std::any_of(on->second.begin(), on->second.end(), [&](JobId id) {
             return uses(*txn_.tables().job(id)->spec, r_.meta.name);
           });
  }

  const Txn& txn_;
  const Reservation& r_;
  Instant begins_;
};

std::int64_t gpus_of(const Node& node) {
  return std::count_if(node.devices.begin(), node.devices.end(),
                       [](const Device& d) { return d.kind == "gpu" && d.healthy; });
}

Result<const Partition*> partition_of(const Txn& txn, const Reservation& r) {
  const Partition* partition =
      r.partition.empty() ? txn.tables().default_partition() : txn.tables().partition(r.partition);
  if (!partition)
    return invalid(format("Invalid partition name specified: {}", r.partition.empty() ? "(no default)" : r.partition),
                   "partition");
  return partition;
}

// Nodes for a number, or for amounts of cores and GPUs.
Result<void> choose_nodes(const Txn& txn, Reservation& r) {
  const Partition* partition = TRY(partition_of(txn, r));
  const Choice choice(txn, r);
  const auto candidates = choice.candidates(*partition);
  std::int64_t cpu = 0, gpus = 0;
  std::vector<std::string> names;
  for (const Node* node : candidates) {
    const bool enough = names.size() >= r.node_count && cpu >= r.tres.cpu && gpus >= r.tres.gpus;
    if (enough)
      break;
    if (r.node_count == 0 && r.tres.gpus > 0 && gpus_of(*node) == 0)
      continue;
    names.push_back(node->meta.name);
    cpu += node->cores;
    gpus += gpus_of(*node);
  }
  if (names.size() < r.node_count || cpu < r.tres.cpu || gpus < r.tres.gpus)
    return Error{Errc::kConflict,
                 format("Requested nodes are busy: {} nodes of partition {} with {} cores and {} GPUs are free then",
                        candidates.size(), partition->meta.name, cpu, gpus),
                 "node_count"};
  std::sort(names.begin(), names.end());
  r.nodes = std::move(names);
  return {};
}

Result<void> check_nodes(const Txn& txn, Reservation& r) {
  std::sort(r.nodes.begin(), r.nodes.end());
  r.nodes.erase(std::unique(r.nodes.begin(), r.nodes.end()), r.nodes.end());
  const bool all = std::find(r.nodes.begin(), r.nodes.end(), "ALL") != r.nodes.end();
  if (all && r.part_nodes) {
    const Partition* partition = TRY(partition_of(txn, r));
    r.nodes.clear();
    for (const Node* node : nodes_of(txn.tables(), *partition)) r.nodes.push_back(node->meta.name);
    std::sort(r.nodes.begin(), r.nodes.end());
  } else if (all) {
    r.nodes = {"ALL"};
  }
  const Choice choice(txn, r);
  for (const auto& [id, node] : txn.tables().nodes) {
    if (!keeps_node(r, node->meta.name))
      continue;
    if (const std::string objection = choice.objection(*node); !objection.empty())
      return conflict("Requested nodes are busy: " + objection);
  }
  if (all)
    return {};
  std::int64_t cores = 0;
  for (const std::string& name : r.nodes) {
    const Node* node = txn.tables().node(name);
    if (!node)
      return invalid(format("Invalid node name specified: {}", name), "nodes");
    cores += node->cores;
  }
  if (r.spec_nodes && r.tres.cpu > cores)
    return conflict(
        format("Requested nodes are busy: {} cores are asked for, the nodes named have {}", r.tres.cpu, cores));
  return {};
}

// When the reservation is to be removed; kNever.
Instant due(const ClusterState::Inner& inner, const Reservation& r) {
  Instant at = kNever;
  if (r.recurrence == Recurrence::kNone)
    at = inner.of_wall({r.start.us + r.duration.us});
  if (r.purge_comp && r.unused_since)
    at = std::min(at, std::max(r.unused_since, inner.of_wall(r.start)) + r.purge_after);
  return at;
}

constexpr std::size_t kLetGoMost = 256;  // jobs in one command

// Before it goes. Jobs that wait for it wait on until somebody releases them or names another, unless it lets them run
// elsewhere. False: there are more than one command takes.
bool let_jobs_go(Txn& txn, const Reservation& r) {
  if (!r.no_hold_jobs_after)
    return true;
  std::vector<JobId> waiting;
  for (const JobId id : txn.inner().named.in_reservation(r.meta.name).waiting) {
    if (waiting.size() == kLetGoMost)
      break;
    waiting.push_back(id);
  }
  for (JobId id : waiting) forget_reservation(txn, id, r.meta.name);
  return waiting.size() < kLetGoMost;
}

// "name", or "-name" for everybody else.
std::string without_minus(const std::string& name) { return name.starts_with('-') ? name.substr(1) : name; }

Result<void> check_names_known(const Tables& tables, const Reservation& r) {
  for (const std::string& name : r.accounts)
    if (!tables.account(without_minus(name)))
      return not_found(format("there is no account {}", name));
  for (const std::string& name : r.qos)
    if (!tables.qos_named(without_minus(name)))
      return not_found(format("there is no QOS {}", name));
  for (const NamedCount& licence : r.licenses) {
    const Licence* record = tables.licence(licence.name);
    if (!record || licence.count > record->total)
      return invalid(format("Invalid license specification: {} of {}", record ? record->total : 0, licence.name),
                     "licenses");
  }
  return {};
}

}  // namespace

void forget_reservation(Txn& txn, JobId id, const std::string& name) {
  Job job = *txn.job(id);
  auto names = split(job.spec->reservation, ',');
  std::erase(names, name);
  auto spec = std::make_shared<JobSpec>(*job.spec);
  spec->reservation = join(names, ",");
  job.spec = std::move(spec);
  txn.put(std::move(job));
}

Instant reservation_end(const ClusterState::Inner& inner, const Job& job) {
  if (job.spec->reservation.empty())
    return kNever;
  Instant latest;
  for (const std::string& name : split(job.spec->reservation, ',')) {
    const Reservation* r = inner.tables.reservation(name);
    if (!r)
      continue;
    if (r->flex)
      return kNever;
    const auto window = window_after(*r, inner.wall_at(job.started));
    latest = std::max(latest, inner.of_wall(window ? window->end : WallTime{r->start.us + r->duration.us}));
  }
  return latest ? latest : kNever;
}

Result<Answer> put_reservation(Txn& txn, const PutReservation& ask) {
  TRY(need_admin(txn, "change reservations"));
  Reservation r = ask.reservation;
  const Reservation* known = txn.tables().reservation(r.meta.name);
  TRY(expect_version(txn.tables(), r, ask.if_seq, "reservation " + r.meta.name));
  if (!r.start)
    r.start = txn.inner().wall_at(txn.now());
  if (r.recurrence == Recurrence::kNone && r.start.us + r.duration.us <= txn.inner().wall_at(txn.now()).us &&
      r.duration.us > 0)
    return invalid(format("reservation {} would be over already", r.meta.name), "start_us");
  TRY(check_names_known(txn.tables(), r));
  if (!r.partition.empty())
    TRY(partition_of(txn, r));
  if (!r.features.empty())
    TRY(check_constraint(r.features));
  const bool by_number = r.node_count > 0 || r.tres.cpu > 0 || r.tres.gpus > 0;
  if (!r.nodes.empty())
    TRY(check_nodes(txn, r));
  else if (by_number)
    TRY(choose_nodes(txn, r));
  TRY(check_reservation(r));
  r.unused_since = known ? known->unused_since : txn.now();
  return Answer{.seq = txn.put(std::move(r))->meta.seq};
}

Result<void> remove_reservation(Txn& txn, const RemoveReservation& ask) {
  TRY(need_admin(txn, "remove reservations"));
  const auto it = txn.tables().reservations.find(ask.name);
  if (it == txn.tables().reservations.end())
    return not_found(format("Requested reservation is invalid: there is no reservation {}", ask.name));
  if (!txn.inner().named.in_reservation(ask.name).running.empty())
    return conflict(format("Requested reservation is in use: jobs run in {}", ask.name));
  const Ref<Reservation> record = it->second;
  if (let_jobs_go(txn, *record))
    txn.remove(record);
  else
    txn.cut({0, true});
  return {};
}

void end_reservations(Txn& txn) {
  std::vector<Ref<Reservation>> over;
  for (const auto& [name, r] : txn.tables().reservations)
    if (due(txn.inner(), *r) <= txn.now())
      over.push_back(r);
  for (const Ref<Reservation>& r : over) {
    if (txn.tired() || !let_jobs_go(txn, *r))
      return;  // it is still due
    txn.event(Kind::kReservation, r->meta, "ReservationEnded", r->meta.name);
    txn.remove(r);
  }
}

void note_unused(Txn& txn, const Job& job) {
  if (job.spec->reservation.empty())
    return;
  for (const std::string& name : split(job.spec->reservation, ',')) {
    const Reservation* r = txn.tables().reservation(name);
    if (!r || !r->purge_comp)
      continue;
    Reservation next = *r;
    next.unused_since = txn.inner().named.in_reservation(name) == Named::Reserved{} ? txn.now() : Instant{};
    if (next.unused_since != r->unused_since)
      txn.put(std::move(next));
  }
}

void replace_reserved(Txn& txn, const std::string& node) {
  std::vector<Ref<Reservation>> touched;
  for (const auto& [name, r] : txn.tables().reservations)
    if (!r->static_alloc && (r->replace || r->replace_down) &&
        std::binary_search(r->nodes.begin(), r->nodes.end(), node))
      touched.push_back(r);
  for (const Ref<Reservation>& r : touched) {
    const auto partition = partition_of(txn, *r);
    if (!partition.ok())
      continue;
    const Choice choice(txn, *r);
    for (const Node* other : choice.candidates(**partition)) {
      if (std::binary_search(r->nodes.begin(), r->nodes.end(), other->meta.name))
        continue;
      Reservation next = *r;
      std::replace(next.nodes.begin(), next.nodes.end(), node, other->meta.name);
      std::sort(next.nodes.begin(), next.nodes.end());
      txn.event(Kind::kReservation, r->meta, "NodeReplaced", format("{} by {}", node, other->meta.name));
      txn.put(std::move(next));
      break;
    }
  }
}

Instant reservations_due(const ClusterState::Inner& inner) {
  Instant at = kNever;
  for (const auto& [name, r] : inner.tables.reservations) at = std::min(at, due(inner, *r));
  return at;
}

}  // namespace lockstep
