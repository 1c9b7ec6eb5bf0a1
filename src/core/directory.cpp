#include "core/directory.h"

#include <algorithm>
#include <unordered_set>

#include "base/mutant.h"
#include "base/text.h"
#include "core/dependencies.h"
#include "core/versions.h"
#include "rules/user_words.h"

namespace lockstep {

Result<void> need_admin(const Txn& txn, const char* what) {
  if (txn.caller().admin)
    return {};
  return denied(
      format("user {} may not {}: that takes an administrator", user_words(txn.tables(), txn.caller().user), what));
}

std::vector<const Node*> nodes_of(const Tables& tables, const Partition& partition) {
  return first_nodes_of(tables, partition, SIZE_MAX, [](const Node&) { return true; });
}

std::vector<const Node*> first_nodes_of(const Tables& tables, const Partition& partition, std::size_t most,
                                        const std::function<bool(const Node&)>& suits) {
  const std::unordered_set<std::string_view> names(partition.nodes.begin(), partition.nodes.end());
  const bool all = names.contains("ALL");
  std::vector<const Node*> out;
  for (const auto& [id, node] : tables.nodes) {
    if (out.size() >= most)
      break;
    if ((all || names.contains(node->meta.name)) && suits(*node))
      out.push_back(node.get());
  }
  return out;
}

namespace {

// Whoever was up has to answer anew before anything starts there: the machine may have been started again, too.
void await_nodes(Txn& txn) {
  std::vector<Ref<Node>> up;
  for (const auto& [id, node] : txn.tables().nodes)
    if (node->link == NodeLink::kUp || node->link == NodeLink::kAway)
      up.push_back(node);
  for (const Ref<Node>& known : up) {
    Node node = *known;
    node.link = NodeLink::kUnknown;
    node.seen_at = txn.now();
    txn.put(std::move(node));
  }
}

}  // namespace

Result<Answer> start_epoch(Txn& txn, const StartEpoch& ask) {
  TRY(need_admin(txn, "start the cluster"));
  Cluster& cluster = txn.edit_cluster();
  if (cluster.name.empty())
    cluster.name = ask.cluster_name;
  ++cluster.epoch;
  // An epoch begins at the time of the log's last entry; how long nobody heard is seen with what comes next.
  cluster.away_since = txn.now();
  cluster.back_at = cluster.epoch == 1 ? txn.now() : Instant{};
  if (!mutant(Mutant::kEpochIgnored))
    await_nodes(txn);
  txn.note_epoch();
  if (txn.tables().partitions.empty()) {
    Partition partition;
    partition.meta.name = "main";
    partition.nodes = {"ALL"};
    partition.is_default = true;
    txn.put(std::move(partition));
  }
  if (txn.tables().qos.empty()) {
    Qos qos;
    qos.meta.name = "normal";
    qos.description = "Normal QOS default";
    txn.put(std::move(qos));
  }
  return Answer{};
}

namespace {

std::string made_up_name(const User& user) { return format("uid{}", user.uid); }

const User* bearer(const Tables& tables, const std::string& realm, const std::string& name) {
  for (const auto& [id, user] : tables.users)
    if (user->meta.name == name && user->realm == realm)
      return user.get();
  return nullptr;
}

// The name belongs to another uid now. What the old one had runs on under its uid, without any of its rights.
void retire(Txn& txn, const User& old) {
  User user = old;
  user.meta.name = made_up_name(old);
  while (bearer(txn.tables(), user.realm, user.meta.name)) user.meta.name += "-old";
  user.groups.clear();
  user.admin = false;
  user.account.clear();
  txn.event(Kind::kUser, user.meta, "Retired", format("{} is uid {}'s name no more", old.meta.name, old.uid));
  txn.put(std::move(user));
}

// What is kept of a user whose record the system's database gives: rights stay with the person, not with the uid.
void keep_rights(User& user, const User* known) {
  const std::string name = user.meta.name;
  const bool same_person = known && (known->meta.name == name || known->meta.name == made_up_name(*known));
  user.meta = known ? known->meta : Meta{};
  user.meta.name = name;
  user.admin = same_person && known->admin;
  user.account = same_person ? known->account : "";
}

Result<void> check_qos_names(const Tables& tables, const Partition& partition) {
  for (const auto* list : {&partition.allow_qos, &partition.deny_qos})
    for (const std::string& name : *list)
      if (!tables.qos_named(name))
        return not_found(format("there is no QOS {}", name));
  if (!partition.qos.empty() && !tables.qos_named(partition.qos))
    return not_found(format("there is no QOS {}", partition.qos));
  return {};
}

// There is one default partition: this one from now on.
void no_other_is_default(Txn& txn, const std::string& name) {
  std::vector<Ref<Partition>> others;
  for (const auto& [other_name, other] : txn.tables().partitions)
    if (other->is_default && other_name != name)
      others.push_back(other);
  for (const Ref<Partition>& other : others) {
    Partition next = *other;
    next.is_default = false;
    txn.put(std::move(next));
  }
}

}  // namespace

Result<Answer> put_user(Txn& txn, const PutUser& ask) {
  TRY(need_admin(txn, "change users"));
  User user = ask.user;
  if (user.meta.name.empty())
    return invalid("a user needs a name", "name");
  const User* known = txn.tables().user(user.realm, user.uid);
  if (known)
    TRY(expect_version(txn.tables(), *known, ask.if_seq, "user " + known->meta.name));
  if (known && user.id && known->id != user.id)
    return conflict(format("uid {} of {} is user {} already", user.uid, user.realm, known->meta.name));
  if (user.id && !known) {
    const User* other = txn.tables().user(user.id);
    return other ? Error(conflict(
                       format("user {} has another uid: a uid stays with its user", user_words(txn.tables(), user.id))))
                 : not_found(format("there is no user with the number {}", user.id.value));
  }
  if (ask.by_database)
    keep_rights(user, known);
  if (const User* other = bearer(txn.tables(), user.realm, user.meta.name); other && other != known) {
    if (!ask.by_database)
      return conflict(format("there is another user {} in {}", user.meta.name, user.realm));
    retire(txn, *other);
  }
  user.id = known ? known->id : txn.new_user_id();
  const Ref<User> made = txn.put(std::move(user));
  return Answer{.user = made->id, .seq = made->meta.seq};
}

Result<Answer> put_partition(Txn& txn, const PutPartition& ask) {
  TRY(need_admin(txn, "change partitions"));
  const Partition& partition = ask.partition;
  if (partition.meta.name.empty())
    return invalid("a partition needs a name", "name");
  TRY(expect_version(txn.tables(), partition, ask.if_seq, "partition " + partition.meta.name));
  if (partition.time_default.us < 0 || partition.time_max.us <= 0 || partition.time_max > kForever ||
      partition.time_default > partition.time_max)
    return invalid("the default time limit must lie between 0 and the longest one", "time_default");
  TRY(check_qos_names(txn.tables(), partition));
  if (partition.memory_per_core_mb < 0)
    return invalid("memory per core must not be negative", "memory_per_core_mb");
  if (partition.is_default)
    no_other_is_default(txn, partition.meta.name);
  return Answer{.seq = txn.put(Partition(partition))->meta.seq};
}

Result<void> remove_partition(Txn& txn, const RemovePartition& ask) {
  TRY(need_admin(txn, "remove partitions"));
  const auto it = txn.tables().partitions.find(ask.name);
  if (it == txn.tables().partitions.end())
    return not_found(format("there is no partition {}", ask.name));
  const Named& named = txn.inner().named;
  JobId job = named.first(Named::Noun::kPartition, ask.name);
  if (!job && it->second->is_default)
    job = named.first(Named::Noun::kPartition, "");
  if (job)
    return conflict(format("job {} uses partition {}: cancel or move it first", job.value, ask.name));
  txn.remove(Ref<Partition>(it->second));
  return {};
}

}  // namespace lockstep
