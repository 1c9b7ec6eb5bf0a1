// Internal to wire: records of a file beside those of a cluster, key by key.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "model/kinds.h"
#include "wire/cluster_diff.h"
#include "wire/cluster_keys.h"

namespace lockstep::wire {

template <class T>
inline constexpr auto kListOf = nullptr;
template <>
inline constexpr auto kListOf<NodeClass> = &ClusterFile::node_classes;
template <>
inline constexpr auto kListOf<Partition> = &ClusterFile::partitions;
template <>
inline constexpr auto kListOf<Qos> = &ClusterFile::qos;
template <>
inline constexpr auto kListOf<Account> = &ClusterFile::accounts;
template <>
inline constexpr auto kListOf<Association> = &ClusterFile::associations;
template <>
inline constexpr auto kListOf<Licence> = &ClusterFile::licences;
template <>
inline constexpr auto kListOf<Reservation> = &ClusterFile::reservations;
template <>
inline constexpr auto kListOf<HealthCheck> = &ClusterFile::health_checks;

// Who may be removed is of a section; associations stand in that of the accounts.
template <class T>
inline constexpr Kind kSectionOf = std::is_same_v<T, Association> ? Kind::kAccount : kKindOf<T>;

template <class T>
std::map<std::string_view, const T*> by_name(const std::vector<T>& records) {
  std::map<std::string_view, const T*> out;
  for (const T& record : records) out.emplace(record.meta.name, &record);
  return out;
}

template <class T>
const T* find_named(const std::map<std::string_view, const T*>& records, std::string_view name) {
  const auto at = records.find(name);
  return at == records.end() ? nullptr : at->second;
}

// What stands in the file beside the keys: the account above one.
inline void add_besides(const Account& before, const Account& after, std::vector<KeyDifference>& out) {
  const auto text = [](const std::string& parent) { return parent.empty() ? "(none)" : parent; };
  if (before.parent != after.parent)
    out.push_back({"parent", text(before.parent), text(after.parent)});
}
// Leaves by the names that lead to them.
inline std::map<std::string, std::vector<std::string>> leaves_by_path(const Topology& topology) {
  std::map<std::string, std::vector<std::string>> out;
  for (const TopologyLeaf& leaf : topology.leaves) out["tree." + join(leaf.path, ".")] = leaf.nodes;
  return out;
}
inline void add_besides(const Topology& before, const Topology& after, std::vector<KeyDifference>& out) {
  auto had = leaves_by_path(before), has = leaves_by_path(after);
  for (const auto& [path, nodes] : has) had.try_emplace(path);
  for (const auto& [path, nodes] : had) {
    const FileValue was = HostsForm::write(nodes), is = HostsForm::write(has[path]);
    if (was != is)
      out.push_back({path, was.words(), is.words()});
  }
}
template <class T>
void add_besides(const T&, const T&, std::vector<KeyDifference>&) {}

inline void take_besides(const Account& from, Account& into) { into.parent = from.parent; }
inline void take_besides(const Topology& from, Topology& into) { into.leaves = from.leaves; }
template <class T>
void take_besides(const T&, T&) {}

template <class T>
std::vector<KeyDifference> key_differences(const T& before, const T& after) {
  std::vector<KeyDifference> out;
  add_besides(before, after, out);
  for (const FileKey<T>& key : file_keys<T>()) {
    const FileValue was = key.write(before), is = key.write(after);
    if (was != is)
      out.push_back({std::string(key.name), was.words(), is.words()});
  }
  return out;
}

// What a new record says: its keys that are not at their defaults.
template <class T>
std::vector<KeyDifference> said_keys(const T& record) {
  std::vector<KeyDifference> out;
  add_besides(T{}, record, out);
  for (const FileKey<T>& key : file_keys<T>())
    if (is_said(key, record))
      out.push_back({std::string(key.name), "", key.write(record).words()});
  return out;
}

// The record as it is to be: what the file says, over what the cluster has besides (labels, notes of the core).
template <class T>
T desired(const T& wanted, const T* live) {
  if (!live)
    return wanted;
  T out = *live;
  take_besides(wanted, out);
  for (const FileKey<T>& key : file_keys<T>())
    if (key.write(wanted) != key.write(out))
      key.take(wanted, out);
  return out;
}

// What the file wants, but for what the core settles by itself: a user's default account where none is marked, nodes
// that the core chose, reservations that are over (with a note).
ClusterFile settled(const ClusterFile& wanted, const ClusterFile& live, WallTime now, std::vector<std::string>& notes);

struct AdministratorChange {
  const User* user = nullptr;
  bool admin = false;
};
// Users that are to become administrators, and those that are and stand in no file.
std::vector<AdministratorChange> administrator_changes(const ClusterFile& wanted, const LiveCluster& live,
                                                       std::vector<std::string>* notes);

}  // namespace lockstep::wire
