// PlannerView: what bounds starts beside nodes: limits, licences, reservations; and the weights of priority.
#include <algorithm>

#include "rules/preempt.h"
#include "rules/tres.h"
#include "sched/view.h"

namespace lockstep {

namespace {

constexpr std::ptrdiff_t kLeftClassesMost = 32;  // without a node, before they are made anew

}  // namespace

void PlannerView::note_record(const Change& change) {
  std::vector<std::string> kept;  // nodes whose keepers may be others now
  if (const auto* r = std::get_if<Ref<Reservation>>(&change.record)) {
    kept = (*r)->nodes;
    if (const Reservation* before = admission_.directory().reservation((*r)->meta.name))
      kept.insert(kept.end(), before->nodes.begin(), before->nodes.end());
  }
  const Admission::Effect effect = admission_.observe(change);
  if (effect == Admission::Effect::kNone)
    return;
  begin_ledger();
  changed = true;
  ++bounds;
  ranked_as_of_ = kNever;
  if (std::holds_alternative<Ref<Qos>>(change.record))
    lay_out(), ++generation, reorder();  // it may ease the bounds of partitions, and its jobs may be scavengers
  if (effect != Admission::Effect::kReservations)
    return;
  boundary_ = admission_.next_boundary(now_);
  keep_apart(kept);
}

void PlannerView::begin_ledger() {
  if (!admission_.turned_counting())
    return;
  for (const JobSlot& slot : slots_)
    if (slot.job)
      admission_.index(nullptr, slot.job.get());
}

// Classes tell nodes apart by the reservations that keep them.
void PlannerView::keep_apart(const std::vector<std::string>& names) {
  std::vector<NodeId> concerned;
  const bool all = std::find(names.begin(), names.end(), "ALL") != names.end();
  if (all) {
    for (const NodeSlot& slot : nodes_)
      if (slot.node)
        concerned.push_back(slot.node->id);
  } else {
    for (const std::string& name : names)
      if (const auto node = node_named_.find(name); node != node_named_.end())
        concerned.push_back(node->second);
    std::sort(concerned.begin(), concerned.end());
    concerned.erase(std::unique(concerned.begin(), concerned.end()), concerned.end());
  }
  ++layout;  // no class is another, but nodes may be in other ones
  ++generation;
  for (const NodeId id : concerned) {
    NodeSlot& slot = nodes_[id.value];
    if (classes_[slot.cls].kept_by == admission_.keepers_of(slot.node->meta.name))
      continue;
    touched_[id.value] = ++touch_clock_;
    leave_class(slot);
    classify(slot);
  }
  const auto left = std::count_if(classes_.begin(), classes_.end(), [](const NodeClass& c) { return c.present == 0; });
  if (left > kLeftClassesMost)
    classify_all();
  std::vector<const Node*> examples(classes_.size());
  for (const NodeSlot& slot : nodes_)
    if (slot.node)
      examples[slot.cls] = slot.node.get();
  for (ClassNo c = 0; c < classes_.size(); ++c)
    if (examples[c])
      classes_[c].example = examples[c]->meta.name;
}

std::vector<RunningUse> PlannerView::running_use() const {
  std::vector<RunningUse> out;
  for (const JobSlot& slot : slots_)
    if (slot.job && slot.job->allocation && !is_paused(*slot.job))
      out.push_back({slot.job->spec.get(), slot.job->allocation.get()});
  return out;
}

std::optional<Bar> PlannerView::bar(const JobSpec& spec, const Way& way, const std::vector<Grant>* grants) {
  if (!admission_.bounded())
    return std::nullopt;
  const Partition* partition = partitions_[way.partition].get();
  const std::optional<Partition> eased = eased_for(admission_.directory(), *partition, spec.qos);
  if (eased)
    partition = &*eased;
  StartAsk ask;
  if (grants) {
    std::vector<const Node*> nodes;
    for (const Grant& grant : *grants) nodes.push_back(nodes_[grant.node.value].node.get());
    ask = start_ask(spec, *partition, *grants, nodes, way.limit);
  } else {
    ask = start_ask(spec, *partition, way.limit);
  }
  return admission_.bar(ask, now_, [this] { return running_use(); });
}

std::optional<Way> PlannerView::open_way(const JobSpec& spec, const Way& way, Instant from) const {
  if (!admission_.reserves())
    return std::nullopt;
  const Instant to = from + std::min(way.limit, kForever);
  const auto closed = [&](const ClassNeed& need) {
    const NodeClass& cls = classes_[need.cls];
    return (!cls.kept_by.empty() || !spec.reservation.empty()) && !admission_.open_to(spec, cls.example, from, to);
  };
  const bool any = std::any_of(way.groups.begin(), way.groups.end(), [&](const GroupWay& group) {
    return std::any_of(group.needs.begin(), group.needs.end(), closed);
  });
  if (!any)
    return std::nullopt;
  Way out = way;
  for (GroupWay& group : out.groups) std::erase_if(group.needs, closed);
  return out;
}

bool PlannerView::rank_again(Instant now) {
  const bool weighted = admission_.weighted(most_partition_);
  const Instant as_of = weighted || admission_.bounded() ? admission_.priorities_as_of(now) : Instant{};
  if (as_of == ranked_as_of_)
    return false;
  ranked_as_of_ = as_of;
  changed = changed || as_of;
  if (!weighted && !priorities_)
    return false;
  priorities_ = nullptr;
  if (weighted) {
    Tres cluster;
    for (const NodeSlot& slot : nodes_)
      if (slot.node)
        add(cluster, tres_of_node(*slot.node));
    priorities_ = admission_.priorities(as_of, cluster, most_partition_, [this] { return running_use(); });
  }
  reorder();
  return true;
}

}  // namespace lockstep
