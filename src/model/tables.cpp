#include "model/tables.h"

#include <algorithm>

#include "base/check.h"
#include "model/accounting.h"
#include "model/change.h"
#include "model/job.h"
#include "model/node.h"
#include "model/records.h"
#include "model/ref_map.h"
#include "model/reservation.h"
#include "model/step.h"
#include "model/table_of.h"

namespace lockstep {

namespace {

// What leads from another name of a record to its key.
template <class Map>
void set_name(Map& map, const typename Map::key_type& name, typename Map::mapped_type id, bool gone) {
  if (gone)
    map.erase(name);
  else
    map[name] = id;
}

template <class T, class F>
void add_all(const Ref<T>& only, const F& add) {
  if (only)
    add(only);
}
template <class Map, class F>
void add_all(const Map& table, const F& add) {
  for (const auto& [key, ref] : table) add(ref);
}

}  // namespace

void Tables::apply(const Change& change) {
  CHECK(change.seq > seq, "changes must come in order");
  seq = change.seq;
  apply_directory(change);
  std::visit(
      [&]<class T>(const Ref<T>& ref) {
        if constexpr (!kInDirectory<T>)
          set_record(*this, ref, change.removed);
        if constexpr (std::is_same_v<T, User>)
          set_name(user_ids_, {ref->realm, ref->uid}, ref->id, change.removed);
        if constexpr (std::is_same_v<T, Node>)
          set_name(node_names_, ref->meta.name, ref->id, change.removed);
      },
      change.record);
}

const Job* Tables::job(JobId id) const {
  const Ref<Job>* found = jobs.get(id);
  return found ? found->get() : nullptr;
}
const Step* Tables::step(JobId job, StepNo number) const { return find_ref(steps, StepKey{job, number}); }
const Node* Tables::node(NodeId id) const { return find_ref(nodes, id); }
const Node* Tables::node(std::string_view name) const {
  const auto it = node_names_.find(name);
  return it == node_names_.end() ? nullptr : node(it->second);
}
const User* Tables::user(std::string_view realm, std::uint32_t uid) const {
  const auto it = user_ids_.find({std::string(realm), uid});
  return it == user_ids_.end() ? nullptr : user(it->second);
}
const User* Tables::user_named(std::string_view name) const {
  for (const auto& [id, user] : users)
    if (user->meta.name == name)
      return user.get();
  return nullptr;
}
const Partition* Tables::partition(std::string_view name) const { return find_ref(partitions, name); }
const Partition* Tables::default_partition() const {
  for (const auto& [name, partition] : partitions)
    if (partition->is_default)
      return partition.get();
  return nullptr;
}

std::vector<Ref<Step>> Tables::steps_of(JobId job) const {
  std::vector<Ref<Step>> out;
  for (auto it = steps.lower_bound({job, INT32_MIN}); it != steps.end() && it->first.first == job; ++it)
    out.push_back(it->second);
  return out;
}

std::vector<Ref<Task>> Tables::tasks_of(JobId job) const {
  std::vector<Ref<Task>> out;
  for (auto it = tasks.lower_bound({job, 0, 0}); it != tasks.end() && it->first.job == job; ++it)
    out.push_back(it->second);
  return out;
}

std::vector<Change> Tables::snapshot() const {
  std::vector<Change> out;
  const auto add = [&out](const auto& ref) { out.push_back({ref->meta.seq, ref, false}); };
#define KIND(type, name, word, table, count, seen) add_all(table, add);
#include "model/kinds.def"
  std::sort(out.begin(), out.end(), [](const Change& a, const Change& b) { return a.seq < b.seq; });
  return out;
}

bool partition_has(const Partition& partition, const Node& node) {
  return std::any_of(partition.nodes.begin(), partition.nodes.end(),
                     [&](const std::string& name) { return name == "ALL" || name == node.meta.name; });
}

}  // namespace lockstep
