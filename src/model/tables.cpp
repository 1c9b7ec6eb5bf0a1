#include "model/tables.h"

#include <algorithm>

#include "base/check.h"
#include "model/ref_map.h"

namespace lockstep {

void Tables::apply(const Change& change) {
  CHECK(change.seq > seq, "changes must come in order");
  seq = change.seq;
  const bool gone = change.removed;
  apply_directory(change);
  struct Visitor {
    Tables& t;
    bool gone;
    void operator()(const Ref<Cluster>& r) const { t.cluster = gone ? nullptr : r; }
    void operator()(const Ref<User>& r) const {
      if (gone)
        t.user_ids_.erase({r->realm, r->uid});
      else
        t.user_ids_[{r->realm, r->uid}] = r->id;
    }
    void operator()(const Ref<Topology>& r) const { t.topology = gone ? nullptr : r; }
    void operator()(const Ref<Packing>& r) const { t.packing = gone ? nullptr : r; }
    // The rest is the directory's.
    void operator()(const Ref<Account>&) const {}
    void operator()(const Ref<Association>&) const {}
    void operator()(const Ref<Qos>&) const {}
    void operator()(const Ref<Usage>&) const {}
    void operator()(const Ref<Licence>&) const {}
    void operator()(const Ref<Reservation>&) const {}
    void operator()(const Ref<Policy>&) const {}
    void operator()(const Ref<Partition>& r) const { set_or_erase(t.partitions, r->meta.name, r, gone); }
    void operator()(const Ref<Node>& r) const {
      set_or_erase(t.nodes, r->id, r, gone);
      if (gone)
        t.node_names_.erase(r->meta.name);
      else
        t.node_names_[r->meta.name] = r->id;
    }
    void operator()(const Ref<JoinToken>& r) const { set_or_erase(t.tokens, r->meta.name, r, gone); }
    void operator()(const Ref<Job>& r) const { set_or_erase(t.jobs, r->id, r, gone); }
    void operator()(const Ref<Step>& r) const { set_or_erase(t.steps, StepKey{r->job, r->number}, r, gone); }
    void operator()(const Ref<Task>& r) const { set_or_erase(t.tasks, TaskKey{r->job, r->group, r->index}, r, gone); }
    void operator()(const Ref<Object>& r) const {
      set_or_erase(t.objects, ObjectKey{r->type, r->meta.ns, r->meta.name}, r, gone);
    }
  };
  std::visit(Visitor{*this, gone}, change.record);
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
  if (cluster)
    add(cluster);
  for (const auto& [k, r] : users) add(r);
  for (const auto& [k, r] : accounts) add(r);
  for (const auto& [k, r] : partitions) add(r);
  for (const auto& [k, r] : nodes) add(r);
  for (const auto& [k, r] : tokens) add(r);
  for (const auto& [k, r] : jobs) add(r);
  for (const auto& [k, r] : steps) add(r);
  for (const auto& [k, r] : tasks) add(r);
  for (const auto& [k, r] : objects) add(r);
  for (const auto& [k, r] : associations) add(r);
  for (const auto& [k, r] : qos) add(r);
  for (const auto& [k, r] : usages) add(r);
  for (const auto& [k, r] : licences) add(r);
  for (const auto& [k, r] : reservations) add(r);
  if (policy_record)
    add(policy_record);
  if (topology)
    add(topology);
  if (packing)
    add(packing);
  std::sort(out.begin(), out.end(), [](const Change& a, const Change& b) { return a.seq < b.seq; });
  return out;
}

bool partition_has(const Partition& partition, const Node& node) {
  return std::any_of(partition.nodes.begin(), partition.nodes.end(),
                     [&](const std::string& name) { return name == "ALL" || name == node.meta.name; });
}

}  // namespace lockstep
