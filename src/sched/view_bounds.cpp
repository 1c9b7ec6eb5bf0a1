// PlannerView: what bounds starts beside nodes: limits, licences, reservations; and the weights of priority.
#include <algorithm>
#include <string_view>
#include <tuple>

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
  if (effect == Admission::Effect::kUsage) {
    usage_moved_ = true;
    changed = changed || admission_.counts_minutes() || admission_.weighted(most_partition_);
    bounds += admission_.counts_minutes();
    return;
  }
  begin_ledger();
  changed = true;
  ++bounds;
  if (effect == Admission::Effect::kBounds) {
    ++rules;
    ranked_as_of_ = kNever;
  }
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
    if (classes_[slot.cls].kept_by == admission_.keepers_of(slot.node->meta.name)) {
      gain(slot);  // whom it is kept for, or when, may be another now
      continue;
    }
    touch(id);
    leave_class(slot);
    classify(slot);
  }
  const auto left = std::count_if(classes_.begin(), classes_.end(), [](const NodeClass& c) { return c.present == 0; });
  if (left > kLeftClassesMost)
    classify_all();
  renew_examples();
}

// The node that stands for a class may be in another one now.
void PlannerView::renew_examples() {
  const auto stands = [&](const NodeClass& cls) {
    return cls.present == 0 || admission_.keepers_of(cls.example) == cls.kept_by;
  };
  if (std::all_of(classes_.begin(), classes_.end(), stands))
    return;
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
  for (const auto& [id, s] : holding_)
    if (const Job& job = *slots_[s].job; !is_paused(job))
      out.push_back({job.spec.get(), job.allocation.get()});
  return out;
}

std::optional<Bar> PlannerView::bar(const JobSpec& spec, const Way& way, const std::vector<Grant>* grants) {
  if (!admission_.bounded())
    return std::nullopt;
  const Partition* partition = partitions_[way.partition].get();
  if (!admission_.counts() && spec.licenses.empty() && spec.reservation.empty() && !grants) {
    const auto word = partition_refuses(*partition, spec.account, spec.qos);
    return word ? std::optional(Bar{Wait::kLimit, *word, true, {}}) : std::nullopt;
  }
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

const std::optional<Bar>& PlannerView::bar_on(Shape& shape, const Way& way) {
  const JobSpec& spec = *shape.spec;
  // Windows begin and end by themselves, and licences are kept for them.
  if (!admission_.counts() || !spec.licenses.empty() || !spec.reservation.empty())
    return bar_now_ = bar(spec, way);
  if (tallies_rules_ != rules) {
    tallies_.clear();
    tallies_rules_ = rules;
  }
  auto known = std::find_if(shape.bars.begin(), shape.bars.end(),
                            [&](const KnownBar& k) { return k.partition == way.partition; });
  if (known == shape.bars.end())
    known = shape.bars.insert(known, KnownBar{.partition = way.partition});
  if (known->rules != rules || known->limit != way.limit)
    *known = {way.partition, way.limit, rules, &tallies_.of(spec, way.partition), 0, {}};
  Tally& tally = *known->tally;
  look_again(tally, admission_, spec, *partitions_[way.partition]);
  if (tally.minutes)
    return bar_now_ = bar(spec, way);
  if (known->version != tally.version) {
    known->version = tally.version;
    known->bar = bar(spec, way);
  }
  return known->bar;
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
  const bool spent_only = as_of == ranked_as_of_;
  if (spent_only && !usage_moved_)
    return false;
  usage_moved_ = false;
  ranked_as_of_ = as_of;
  changed = changed || (as_of && !spent_only);
  if (!weighted && !priorities_)
    return false;
  const std::unique_ptr<Priorities> before = std::move(priorities_);
  if (weighted && !cluster_) {
    cluster_.emplace();
    for (const NodeSlot& slot : nodes_)
      if (slot.node)
        add(*cluster_, tres_of_node(*slot.node));
  }
  if (weighted)
    priorities_ = admission_.priorities(as_of, *cluster_, most_partition_, [this] { return running_use(); });
  if (spent_only && before && priorities_)
    reorder_served(*before);
  else
    reorder();
  return true;
}

// Nothing but what was spent is different: only users whose fair share is another move.
void PlannerView::reorder_served(const Priorities& before) {
  const auto same = [](const FairShares::Row& a, const FairShares::Row& b) {
    return a.share.factor == b.share.factor && a.user == b.user && a.account == b.account && a.partition == b.partition;
  };
  const std::vector<FairShares::Row>&was = before.shares().rows(), &is = priorities_->shares().rows();
  if (std::equal(was.begin(), was.end(), is.begin(), is.end(), same))
    return;
  const Directory& directory = admission_.directory();
  std::map<std::tuple<std::string_view, UserId, PartitionNo>, bool> known;
  std::vector<SlotNo> moved;
  for (const Shape& shape : shapes_) {
    if (shape.jobs.empty())
      continue;
    const JobSpec& spec = *shape.spec;
    const std::vector<PartitionNo> in = partitions_of(spec);
    if (in.empty())
      continue;
    const auto [served, fresh] = known.try_emplace({spec.account, spec.user, in.front()});
    if (fresh) {
      const std::string& where = partitions_[in.front()]->meta.name;
      served->second = before.shares().factor(directory, spec.account, spec.user, where) !=
                       priorities_->shares().factor(directory, spec.account, spec.user, where);
    }
    if (served->second)
      shape.jobs.each_after(OrderKey{}, true, [&](SlotNo s) {
        if (key_of(*slots_[s].job) != slots_[s].key)
          moved.push_back(s);
        return true;
      });
  }
  std::sort(moved.begin(), moved.end(), [&](SlotNo a, SlotNo b) { return slots_[a].key < slots_[b].key; });
  move_in_order(moved);
}

}  // namespace lockstep
