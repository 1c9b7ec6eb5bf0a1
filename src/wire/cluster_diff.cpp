#include "wire/cluster_diff.h"

#include <algorithm>

#include "base/hostlist.h"
#include "base/text.h"
#include "model/kinds.h"
#include "wire/cluster_match.h"

namespace lockstep {

namespace wire {

namespace {

// --- what the core settles by itself, and what is thus no difference ---

std::map<std::string, std::string> default_accounts(const std::vector<Association>& associations) {
  std::map<std::string, std::string> out;  // by user
  for (const Association& one : associations)
    if (one.is_default)
      out.emplace(one.user, one.account);
  return out;
}

// Where the cluster has a default of the user's already, which a part of its accounts does not change by saying
// nothing.
void forget_implied_defaults(ClusterFile& wanted, const ClusterFile& live) {
  const auto now = default_accounts(live.associations);
  for (Association& one : wanted.associations)
    if (wanted.implied_defaults.contains(one.meta.name) && now.contains(one.user))
      one.is_default = false;
}

// A user has one default account; which of its associations there bears the mark says nothing. Where none is marked the
// user keeps the one there is.
void settle_defaults(ClusterFile& wanted, const ClusterFile& live) {
  const auto marked = default_accounts(wanted.associations), now = default_accounts(live.associations);
  const auto there = by_name(live.associations);
  for (Association& one : wanted.associations) {
    const auto wants = marked.find(one.user), has = now.find(one.user);
    if (wants != marked.end() && (has == now.end() || has->second != wants->second))
      continue;
    const Association* known = find_named(there, one.meta.name);
    one.is_default = known && known->is_default;
  }
}

bool by_amount(const Reservation& r) { return r.node_count > 0 || r.tres.cpu > 0 || r.tres.gpus > 0; }

bool asks_alike(const Reservation& a, const Reservation& b) {
  return a.node_count == b.node_count && a.tres == b.tres && a.partition == b.partition && a.features == b.features &&
         a.part_nodes == b.part_nodes;
}

// Nodes that the core chose stay, while as many are asked for in the same way.
void settle_nodes(ClusterFile& wanted, const ClusterFile& live) {
  const auto there = by_name(live.reservations);
  for (Reservation& r : wanted.reservations) {
    const bool chosen = r.nodes.empty() ? by_amount(r) : r.part_nodes && r.nodes.front() == "ALL";
    if (const Reservation* known = find_named(there, r.meta.name); known && chosen && asks_alike(r, *known))
      r.nodes = known->nodes;
  }
}

bool is_over(const Reservation& r, WallTime now) {
  return r.recurrence == Recurrence::kNone && r.duration < kForever && r.start.us + r.duration.us <= now.us;
}

void leave_out_what_is_over(ClusterFile& wanted, WallTime now, std::vector<std::string>& notes) {
  std::erase_if(wanted.reservations, [&](const Reservation& r) {
    const bool over = is_over(r, now);
    if (over)
      notes.push_back(format("reservation {} is over: take it out of the file", r.meta.name));
    return over;
  });
}

}  // namespace

ClusterFile settled(const ClusterFile& wanted, const ClusterFile& live, WallTime now, std::vector<std::string>& notes) {
  ClusterFile out = wanted;
  leave_out_what_is_over(out, now, notes);
  forget_implied_defaults(out, live);
  settle_defaults(out, live);
  settle_nodes(out, live);
  return out;
}

// --- differences ---

namespace {

template <class T>
void add_differences(const ClusterFile& wanted, const ClusterFile& live, ClusterDifference& out) {
  const auto there = by_name(live.*kListOf<T>);
  std::set<std::string_view> named;
  for (const T& record : wanted.*kListOf<T>) {
    named.insert(record.meta.name);
    const T* known = find_named(there, record.meta.name);
    RecordDifference one{known ? RecordDifference::What::kChanged : RecordDifference::What::kNew, kKindOf<T>,
                         record.meta.name, known ? key_differences(*known, record) : said_keys(record)};
    if (!known || !one.keys.empty())
      out.records.push_back(std::move(one));
  }
  if (!wanted.sections.contains(kSectionOf<T>))
    return;
  for (const T& record : live.*kListOf<T>)
    if (!named.contains(record.meta.name))
      out.records.push_back({RecordDifference::What::kAbsent, kKindOf<T>, record.meta.name, {}});
}

template <class T>
void add_single(const std::optional<T>& wanted, const std::optional<T>& live, ClusterDifference& out) {
  if (!wanted)
    return;
  const Kind kind = kKindOf<T>;
  RecordDifference one{RecordDifference::What::kChanged, kind, "", key_differences(live ? *live : T{}, *wanted)};
  if (!live)
    one.what = RecordDifference::What::kNew;
  if (!one.keys.empty() || (!live && kind == Kind::kTopology))
    out.records.push_back(std::move(one));
}

}  // namespace

std::vector<AdministratorChange> administrator_changes(const ClusterFile& wanted, const LiveCluster& live,
                                                       std::vector<std::string>* notes) {
  std::vector<AdministratorChange> out;
  if (!wanted.administrators)
    return out;
  const std::set<std::string> named(wanted.administrators->begin(), wanted.administrators->end());
  std::set<std::string> known;
  for (const User& user : live.users) {
    const bool is_named = named.contains(user.meta.name);
    if (is_named)
      known.insert(user.meta.name);
    if (is_named != user.admin)
      out.push_back({&user, is_named});
  }
  for (const std::string& name : named)
    if (notes && !known.contains(name))
      notes->push_back(format("user {} has not used the cluster yet: nobody to make an administrator", name));
  return out;
}

}  // namespace wire

std::size_t ClusterDifference::count(RecordDifference::What what) const {
  return static_cast<std::size_t>(
      std::count_if(records.begin(), records.end(), [&](const RecordDifference& one) { return one.what == what; }));
}

std::vector<std::string> lines_of(const RecordDifference& difference) {
  const std::string words =
      difference.kind == Kind::kUser ? "user " + difference.name : record_words(difference.kind, difference.name);
  if (difference.what == RecordDifference::What::kAbsent)
    return {words + ": not in the file"};
  std::vector<std::string> out;
  if (difference.what == RecordDifference::What::kChanged) {
    for (const KeyDifference& key : difference.keys)
      out.push_back(format("{}: {} {} → {}", words, key.key, key.before, key.after));
    return out;
  }
  out.push_back(words + ": new");
  for (const KeyDifference& key : difference.keys) out.push_back(format("{}: {} {}", words, key.key, key.after));
  return out;
}

ClusterDifference differences(const ClusterFile& file, const LiveCluster& live, WallTime now) {
  ClusterDifference out;
  const ClusterFile wanted = wire::settled(file, live.file, now, out.notes);
  for (const auto& [user, admin] : wire::administrator_changes(wanted, live, &out.notes))
    out.records.push_back(admin ? RecordDifference{RecordDifference::What::kChanged,
                                                   Kind::kUser,
                                                   user->meta.name,
                                                   {{"administrator", "false", "true"}}}
                                : RecordDifference{RecordDifference::What::kAbsent, Kind::kUser, user->meta.name, {}});
  wire::add_differences<NodeClass>(wanted, live.file, out);
  wire::add_differences<Partition>(wanted, live.file, out);
  wire::add_differences<Qos>(wanted, live.file, out);
  wire::add_differences<Account>(wanted, live.file, out);
  wire::add_differences<Association>(wanted, live.file, out);
  wire::add_differences<Licence>(wanted, live.file, out);
  wire::add_differences<Reservation>(wanted, live.file, out);
  wire::add_differences<HealthCheck>(wanted, live.file, out);
  wire::add_single(wanted.policy, live.file.policy, out);
  wire::add_single(wanted.topology, live.file.topology, out);
  if (!wanted.topology && live.file.topology && wanted.sections.contains(Kind::kTopology))
    out.records.push_back({RecordDifference::What::kAbsent, Kind::kTopology, "", {}});
  return out;
}

std::vector<std::string> class_shortfalls(const ClusterFile& wanted, const LiveCluster& live) {
  std::map<std::string_view, const NodeClass*> class_of;
  for (const auto* file : {&live.file, &wanted})
    for (const NodeClass& one : file->node_classes)
      for (const std::string& name : one.nodes) class_of[name] = &one;
  std::vector<std::string> out;
  for (const Node& node : live.nodes)
    if (const auto at = class_of.find(node.meta.name); at != class_of.end())
      for (const std::string& what : shortfalls(*at->second, node))
        out.push_back(format("node {} {}", node.meta.name, what));
  return out;
}

}  // namespace lockstep
