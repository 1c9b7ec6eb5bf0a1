// The order of changes: whatever a record refers to is there before it, and gone only behind it.
#include <algorithm>

#include "base/hostlist.h"
#include "base/nearest.h"
#include "base/text.h"
#include "model/kinds.h"
#include "wire/cluster_diff.h"
#include "wire/cluster_match.h"

namespace lockstep {

namespace wire {

// --- references ---

namespace {

using NameSet = std::set<std::string, std::less<>>;

bool is_among(const std::string& name, const std::vector<std::string>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

class References {
 public:
  References(const ClusterFile& wanted, const LiveCluster& live, bool prune) : wanted_(wanted) {
    const auto keeps = [&](Kind section) { return !prune || !wanted.sections.contains(section); };
    collect(wanted.qos, live.file.qos, keeps(Kind::kQos), qos_);
    collect(wanted.accounts, live.file.accounts, keeps(Kind::kAccount), accounts_);
    collect(wanted.partitions, live.file.partitions, keeps(Kind::kPartition), partitions_);
    collect(wanted.licences, live.file.licences, keeps(Kind::kLicence), licences_);
    collect(wanted.node_classes, live.file.node_classes, keeps(Kind::kNodeClass), classes_);
  }

  Result<void> run() const {
    for (const Qos& q : wanted_.qos) TRY(all(Kind::kQos, q.meta.name, "preempts", q.preempts, qos_, "QOS"));
    for (const Account& a : wanted_.accounts) {
      TRY(one(Kind::kAccount, a.meta.name, "parent", a.parent, accounts_, "account"));
      TRY(qos_of(Kind::kAccount, a));
    }
    for (const Association& a : wanted_.associations) {
      TRY(one(Kind::kAssociation, a.meta.name, "", a.partition, partitions_, "partition"));
      TRY(qos_of(Kind::kAssociation, a));
    }
    for (const Partition& p : wanted_.partitions) TRY(of_partition(p));
    for (const Reservation& r : wanted_.reservations) TRY(of_reservation(r));
    for (const HealthCheck& check : wanted_.health_checks) TRY(of_health_check(check));
    return {};
  }

 private:
  template <class T>
  static void collect(const std::vector<T>& wanted, const std::vector<T>& live, bool keeps, NameSet& out) {
    for (const T& record : wanted) out.insert(record.meta.name);
    if (keeps)
      for (const T& record : live) out.insert(record.meta.name);
  }

  template <class T>
  Result<void> qos_of(Kind kind, const T& record) const {
    TRY(one(kind, record.meta.name, "default_qos", record.default_qos, qos_, "QOS"));
    if (!record.default_qos.empty() && !record.qos.empty() && !is_among(record.default_qos, record.qos)) {
      const std::string words = record_words(kind, record.meta.name);
      return invalid(format("{}{}: default_qos: {} is not among those allowed: {}", place_of(wanted_, words), words,
                            record.default_qos, join(record.qos, ", ")));
    }
    return all(kind, record.meta.name, "qos", record.qos, qos_, "QOS");
  }

  Result<void> of_partition(const Partition& p) const {
    TRY(one(Kind::kPartition, p.meta.name, "qos", p.qos, qos_, "QOS"));
    TRY(all(Kind::kPartition, p.meta.name, "allow_qos", p.allow_qos, qos_, "QOS"));
    TRY(all(Kind::kPartition, p.meta.name, "deny_qos", p.deny_qos, qos_, "QOS"));
    TRY(all(Kind::kPartition, p.meta.name, "allow_accounts", p.allow_accounts, accounts_, "account"));
    return all(Kind::kPartition, p.meta.name, "deny_accounts", p.deny_accounts, accounts_, "account");
  }

  Result<void> of_reservation(const Reservation& r) const {
    TRY(one(Kind::kReservation, r.meta.name, "partition", r.partition, partitions_, "partition"));
    TRY(all(Kind::kReservation, r.meta.name, "accounts", r.accounts, accounts_, "account"));
    TRY(all(Kind::kReservation, r.meta.name, "qos", r.qos, qos_, "QOS"));
    for (const NamedCount& licence : r.licenses)
      TRY(one(Kind::kReservation, r.meta.name, "licences", licence.name, licences_, "licence"));
    return {};
  }

  Result<void> of_health_check(const HealthCheck& check) const {
    TRY(one(Kind::kHealthCheck, check.meta.name, "partition", check.partition, partitions_, "partition"));
    TRY(one(Kind::kHealthCheck, check.meta.name, "class", check.node_class, classes_, "class of nodes"));
    return one(Kind::kHealthCheck, check.meta.name, "account", check.account, accounts_, "account");
  }

  Result<void> all(Kind kind, const std::string& name, std::string_view key, const std::vector<std::string>& names,
                   const NameSet& known, std::string_view what) const {
    for (const std::string& other : names)
      TRY(one(kind, name, key, other.starts_with('-') ? other.substr(1) : other, known, what));
    return {};
  }

  Result<void> one(Kind kind, const std::string& name, std::string_view key, const std::string& other,
                   const NameSet& known, std::string_view what) const {
    if (other.empty() || known.contains(other))
      return {};
    const std::vector<std::string_view> words(known.begin(), known.end());
    const std::string_view near = nearest(other, words);
    const std::string record = record_words(kind, name);
    return not_found(format("{}{}: {}{}there is no {} {}, neither in the file nor in the cluster{}",
                            place_of(wanted_, record), record, key, key.empty() ? "" : ": ", what, other,
                            near.empty() ? "" : format("; did you mean \"{}\"?", near)));
  }

  const ClusterFile& wanted_;
  NameSet qos_, accounts_, partitions_, licences_, classes_;
};

// --- changes in their order ---

class ChangePlan {
 public:
  ChangePlan(const ClusterFile& wanted, const LiveCluster& live, bool prune)
      : wanted_(wanted),
        live_(live),
        prune_(prune),
        wanted_qos_(by_name(wanted.qos)),
        live_records_(by_name(live.file.node_classes), by_name(live.file.partitions), by_name(live.file.qos),
                      by_name(live.file.accounts), by_name(live.file.associations), by_name(live.file.licences),
                      by_name(live.file.reservations), by_name(live.file.health_checks)) {
    for (const Node& node : live.nodes) nodes_.insert(node.meta.name);
  }

  std::vector<PlannedChange> run() {
    classes();
    qos();
    accounts();
    partitions();
    associations();
    for (const Licence& licence : wanted_.licences) put(licence, &RecordChange::licence);
    single(wanted_.policy, live_.file.policy, &RecordChange::policy);
    single(wanted_.topology, live_.file.topology, &RecordChange::topology);
    for (const Reservation& r : wanted_.reservations) put(r, &RecordChange::reservation);
    for (const HealthCheck& check : wanted_.health_checks) put(check, &RecordChange::health_check);
    administrators();
    if (prune_)
      removals();
    return std::move(out_);
  }

 private:
  template <class T>
  using Names = std::map<std::string_view, const T*>;

  template <class T>
  const T* live_of(const std::string& name) const {
    return find_named(std::get<Names<T>>(live_records_), name);
  }
  std::size_t nodes_known(const std::vector<std::string>& names) const {
    return static_cast<std::size_t>(
        std::count_if(names.begin(), names.end(), [&](const std::string& name) { return nodes_.contains(name); }));
  }
  std::size_t weight_of(const NodeClass& one) const { return 1 + nodes_known(one.nodes); }
  std::size_t weight_of(const Topology& topology) const {
    std::size_t weight = 1;
    for (const TopologyLeaf& leaf : topology.leaves) weight += nodes_known(leaf.nodes);
    return weight;
  }
  template <class T>
  std::size_t weight_of(const T&) const {
    return 1;
  }

  template <class T>
  void push(T record, std::optional<T> RecordChange::*member, const T* known) {
    PlannedChange one;
    one.words = kKindOf<T> == Kind::kUser ? "user " + record.meta.name : record_words(kKindOf<T>, record.meta.name);
    one.weight = weight_of(record);
    one.change.if_seq = known ? known->meta.seq : 0;
    one.change.is_new = !known;
    one.change.*member = std::move(record);
    out_.push_back(std::move(one));
  }

  template <class T>
  bool differs(const T& record, const T* known) const {
    return !known || !key_differences(*known, record).empty();
  }

  template <class T>
  void put(const T& record, std::optional<T> RecordChange::*member) {
    const T* known = live_of<T>(record.meta.name);
    if (differs(record, known))
      push(desired(record, known), member, known);
  }

  template <class T>
  void single(const std::optional<T>& wanted, const std::optional<T>& known, std::optional<T> RecordChange::*member) {
    if (!wanted || (known && key_differences(*known, *wanted).empty()))
      return;
    const T* const there = known ? &*known : nullptr;
    push(desired(*wanted, there), member, there);
  }

  void remove(Kind kind, const std::string& name) {
    PlannedChange one;
    one.words = "removal of " + record_words(kind, name);
    one.change.remove = row_of(kind).word;
    one.change.name = name;
    out_.push_back(std::move(one));
  }

  template <class T>
  std::vector<const T*> absent() const {
    std::vector<const T*> out;
    const auto named = by_name(wanted_.*kListOf<T>);
    if (wanted_.sections.contains(kSectionOf<T>))
      for (const T& record : live_.file.*kListOf<T>)
        if (!named.contains(record.meta.name))
          out.push_back(&record);
    return out;
  }

  // A node goes from one class to another in two steps: no class may take what another still names.
  void classes() {
    if (prune_)
      for (const NodeClass* one : absent<NodeClass>()) remove(Kind::kNodeClass, one->meta.name);
    const Names<NodeClass> named = by_name(wanted_.node_classes);
    std::map<std::string_view, std::string_view> class_of;
    for (const NodeClass& one : wanted_.node_classes)
      for (const std::string& node : one.nodes) class_of[node] = one.meta.name;
    std::set<std::string> reduced;
    for (const NodeClass& known : live_.file.node_classes) {
      const auto moves = [&](const std::string& node) {
        const auto at = class_of.find(node);
        return at != class_of.end() && at->second != known.meta.name;
      };
      if (!named.contains(known.meta.name) || std::none_of(known.nodes.begin(), known.nodes.end(), moves))
        continue;
      NodeClass less = known;
      std::erase_if(less.nodes, moves);
      reduced.insert(known.meta.name);
      push(std::move(less), &RecordChange::node_class, &known);
      out_.back().weight = weight_of(known);
    }
    for (const NodeClass& one : wanted_.node_classes)
      put_again(one, &RecordChange::node_class, reduced.contains(one.meta.name));
  }

  // A record that an earlier step of this plan has changed has no version that is known.
  template <class T>
  void put_again(const T& record, std::optional<T> RecordChange::*member, bool changed_before) {
    const std::size_t before = out_.size();
    put(record, member);
    if (changed_before && out_.size() > before)
      out_.back().change.if_seq = 0;
  }

  // First no QOS stops more than before, then each when those that it may stop are there: never a circle on the way.
  void qos() {
    std::set<std::string_view> done;
    std::set<std::string> reduced;
    for (const Qos& one : wanted_.qos) {
      const Qos* known = live_of<Qos>(one.meta.name);
      const auto goes = [&](const std::string& other) { return !is_among(other, one.preempts); };
      const auto comes = [&](const std::string& other) { return !is_among(other, known->preempts); };
      if (!known || std::none_of(known->preempts.begin(), known->preempts.end(), goes))
        continue;
      if (std::none_of(one.preempts.begin(), one.preempts.end(), comes)) {
        put(one, &RecordChange::qos);
        done.insert(one.meta.name);
        continue;
      }
      Qos less = *known;
      std::erase_if(less.preempts, goes);
      push(std::move(less), &RecordChange::qos, known);
      reduced.insert(one.meta.name);
    }
    const auto put_with_stopped = [&](const auto& self, const Qos& one) -> void {
      if (!done.insert(one.meta.name).second)
        return;
      for (const std::string& other : one.preempts)
        if (const Qos* stopped = find_named(wanted_qos_, other))
          self(self, *stopped);
      put_again(one, &RecordChange::qos, reduced.contains(one.meta.name));
    };
    for (const Qos& one : wanted_.qos) put_with_stopped(put_with_stopped, one);
  }

  // From the top down, each below one that lies where it is to lie.
  void accounts() {
    const auto wanted = by_name(wanted_.accounts);
    std::set<std::string_view> done;
    const auto put_below = [&](const auto& self, const Account& account) -> void {
      if (!done.insert(account.meta.name).second)
        return;
      if (const Account* above = find_named(wanted, account.parent))
        self(self, *above);
      put(account, &RecordChange::account);
    };
    for (const Account& account : wanted_.accounts) put_below(put_below, account);
  }

  // The default comes last: that another one is it no more is a change of the other one.
  template <class T>
  void put_default_last(const std::vector<T>& records, std::optional<T> RecordChange::*member) {
    for (const bool last : {false, true})
      for (const T& record : records)
        if (record.is_default == last)
          put(record, member);
  }
  void partitions() { put_default_last(wanted_.partitions, &RecordChange::partition); }
  void associations() { put_default_last(wanted_.associations, &RecordChange::association); }

  void administrators() {
    for (const auto& [user, admin] : administrator_changes(wanted_, live_, nullptr)) {
      if (!admin && !prune_)
        continue;
      User next = *user;
      next.admin = admin;
      push(std::move(next), &RecordChange::user, user);
    }
  }

  template <class T>
  void remove_absent() {
    for (const T* record : absent<T>()) remove(kKindOf<T>, record->meta.name);
  }

  void removals() {
    remove_absent<HealthCheck>();
    remove_absent<Reservation>();
    const auto gone = absent<Account>();
    std::set<std::string_view> gone_accounts;
    for (const Account* account : gone) gone_accounts.insert(account->meta.name);
    for (const Association* one : absent<Association>())
      if (!gone_accounts.contains(one->account))
        remove(Kind::kAssociation, one->meta.name);
    remove_behind(gone, [](const Account& other, const std::string& name) { return other.parent == name; });
    remove_absent<Partition>();
    remove_behind(absent<Qos>(),
                  [](const Qos& other, const std::string& name) { return is_among(name, other.preempts); });
    remove_absent<Licence>();
    if (!wanted_.topology && live_.file.topology && wanted_.sections.contains(Kind::kTopology))
      remove(Kind::kTopology, "");
  }

  // Of those that go, each behind the others that name it. With an account go its associations.
  template <class T, class Names>
  void remove_behind(const std::vector<const T*>& gone, const Names& names) {
    std::set<std::string_view> done;
    const auto remove_last = [&](const auto& self, const T& record) -> void {
      if (!done.insert(record.meta.name).second)
        return;
      for (const T* other : gone)
        if (names(*other, record.meta.name))
          self(self, *other);
      remove(kKindOf<T>, record.meta.name);
    };
    for (const T* record : gone) remove_last(remove_last, *record);
  }

  const ClusterFile& wanted_;
  const LiveCluster& live_;
  const bool prune_;
  const Names<Qos> wanted_qos_;
  const std::tuple<Names<NodeClass>, Names<Partition>, Names<Qos>, Names<Account>, Names<Association>, Names<Licence>,
                   Names<Reservation>, Names<HealthCheck>>
      live_records_;
  std::set<std::string, std::less<>> nodes_;
  std::vector<PlannedChange> out_;
};

constexpr std::size_t kGroupWeightMax = 200;     // the core makes some 400 changes at once
constexpr std::size_t kGroupBytesMax = 2 << 20;  // a body holds 4 MiB

}  // namespace

}  // namespace wire

Result<void> check_references(const ClusterFile& wanted, const LiveCluster& live, bool prune) {
  return wire::References(wanted, live, prune).run();
}

std::vector<PlannedChange> planned_changes(const ClusterFile& file, const LiveCluster& live, WallTime now, bool prune) {
  std::vector<std::string> notes;
  const ClusterFile wanted = wire::settled(file, live.file, now, notes);
  return wire::ChangePlan(wanted, live, prune).run();
}

std::vector<std::vector<PlannedChange>> in_groups(std::vector<PlannedChange> changes) {
  std::vector<std::vector<PlannedChange>> out;
  std::size_t weight = 0, bytes = 0;
  for (PlannedChange& change : changes) {
    const std::size_t size = encode(RecordChanges{{change.change}}).size();
    const bool fits = weight + change.weight <= wire::kGroupWeightMax && bytes + size <= wire::kGroupBytesMax;
    if (out.empty() || !fits) {
      out.emplace_back();
      weight = bytes = 0;
    }
    weight += change.weight;
    bytes += size;
    out.back().push_back(std::move(change));
  }
  return out;
}

}  // namespace lockstep
