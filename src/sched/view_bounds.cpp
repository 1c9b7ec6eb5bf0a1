// PlannerView: what bounds starts beside nodes: limits, licences, reservations; and the weights of priority.
#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

#include "model/job.h"
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
  for (const auto& [key, proposal] : proposals_)
    if (proposal.spec)
      admission_.count(proposal.claim(), 1);
  for (const auto& [id, growth] : growths_)
    if (growth.before.spec) {
      admission_.count(growth.before.claim(), -1);
      admission_.count(growth.after.claim(), 1);
    }
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
  ++layout;  // the classes stay what they are, but nodes may have moved between them
  ++generation;
  for (const NodeId id : concerned) {
    NodeSlot& slot = nodes_[id.value];
    if (classes_[slot.cls].kept_by == admission_.keepers_of(slot.node->meta.name)) {
      gain(slot);  // it may be kept for different jobs, or at different times, from now on
      continue;
    }
    touch(id);
    leave_class(slot);
    classify(slot);
  }
  const auto left = std::count_if(classes_.begin(), classes_.end(), [](const AlikeNodes& c) { return c.present == 0; });
  if (left > kLeftClassesMost)
    classify_all();
  renew_examples();
}

// The node that stands for a class may have moved to a different one.
void PlannerView::renew_examples() {
  const auto stands = [&](const AlikeNodes& cls) {
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

namespace {

// What both count for at least.
Tres lesser(const Tres& a, const Tres& b) {
  Tres out;
  for (const TresField& field : kTresFields) out.*field.count = std::min(a.*field.count, b.*field.count);
  for (const NamedCount& other : a.others)
    if (const std::int64_t count = std::min(other.count, count_of(b, other.name)); count > 0)
      set_count(out, other.name, count);
  return out;
}

// What so many nodes count for beyond what was counted.
void add_excess(Tres& to, const Tres& node, std::int64_t nodes, const Tres& counted) {
  for (const TresField& field : kTresFields)
    to.*field.count += std::max<std::int64_t>(0, node.*field.count * nodes - counted.*field.count);
  for (const NamedCount& other : node.others)
    if (const std::int64_t more = other.count * nodes - count_of(counted, other.name); more > 0)
      set_count(to, other.name, count_of(to, other.name) + more);
}

bool counts_its_nodes(const JobSpec& spec) {
  return std::any_of(spec.groups.begin(), spec.groups.end(),
                     [](const GroupSpec& group) { return lockstep::counts_its_nodes(group); });
}

}  // namespace

Tres PlannerView::counted_on(const ClassNeed& need) const {
  Tres out = need.least;
  if (need.all_memory)
    out.memory_mb = classes_[need.cls].memory_least_mb;
  return out;
}

Tres PlannerView::least_on(const JobSpec& spec, const Way& way, const OnClass* only) const {
  Tres least = least_tres(spec);
  for (std::size_t g = 0; g < spec.groups.size(); ++g) {
    if (!lockstep::counts_its_nodes(spec.groups[g]))
      continue;
    std::optional<Tres> node;
    if (only && only->group == g)
      node = counted_on(*only->need);
    else
      for (const ClassNeed& need : way.groups[g].needs)
        node = node ? lesser(*node, counted_on(need)) : counted_on(need);
    if (node)
      add_excess(least, *node, way.groups[g].nodes, least_tres(spec.groups[g]));
  }
  return least;
}

std::optional<Bar> PlannerView::bar(const JobSpec& spec, const Way& way, const std::vector<Grant>* grants) {
  return bar(spec, way, grants, nullptr);
}

std::optional<Bar> PlannerView::bar(const JobSpec& spec, const Way& way, const std::vector<Grant>* grants,
                                    const OnClass* only) {
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
    if (counts_its_nodes(spec))
      ask.limits.tres = least_on(spec, way, only);
  }
  return admission_.bar(ask, now_, [this] { return running_use(); });
}

std::optional<Way> PlannerView::allowed_way(const JobSpec& spec, const Way& way, std::size_t& asked) {
  if (!admission_.counts() || !counts_its_nodes(spec))
    return std::nullopt;
  std::optional<Way> out;
  for (std::size_t g = 0; g < way.groups.size(); ++g) {
    const std::vector<ClassNeed>& needs = way.groups[g].needs;
    if (!lockstep::counts_its_nodes(spec.groups[g]) || needs.size() < 2)
      continue;
    std::vector<std::pair<Tres, bool>> known;  // what a node counts for, and whether the job may have it
    std::vector<ClassNeed> left;
    for (const ClassNeed& need : needs) {
      Tres node = counted_on(need);
      auto same = std::find_if(known.begin(), known.end(), [&](const auto& k) { return k.first == node; });
      if (same == known.end()) {
        const OnClass only{g, &need};
        ++asked;
        same = known.insert(same, {std::move(node), !bar(spec, way, nullptr, &only)});
      }
      if (same->second)
        left.push_back(need);
    }
    if (left.size() < needs.size())
      (out ? *out : out.emplace(way)).groups[g].needs = std::move(left);
  }
  return out;
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
  if (tally.minutes || counts_its_nodes(spec))  // which nodes there are may have changed
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
    const AlikeNodes& cls = classes_[need.cls];
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

namespace {

// Whether the classes that are not closed have enough nodes for every group.
template <class Closed>
bool enough_nodes(const std::deque<AlikeNodes>& classes, const Way& way, Closed&& closed) {
  return std::all_of(way.groups.begin(), way.groups.end(), [&](const GroupWay& group) {
    std::uint64_t nodes = 0;
    for (const ClassNeed& need : group.needs)
      if (!closed(classes[need.cls]))
        nodes += classes[need.cls].usable;
    return nodes >= group.nodes;
  });
}

}  // namespace

std::optional<Bar> PlannerView::reserved(const JobSpec& spec, const Way& way) const {
  if (!admission_.reserves() || !spec.reservation.empty())
    return std::nullopt;
  const Directory& directory = admission_.directory();
  const Duration limit = spec.time_min.us > 0 ? spec.time_min : way.limit;  // it may be cut that short
  const WallTime from = admission_.wall_at(now_), to{from.us + std::min(limit, kForever).us};
  const Reservation* own = reservation_of(directory, spec, from, to);
  const Reservation* first = nullptr;
  const auto now = [&](const AlikeNodes& cls) {
    const Reservation* other = cls.kept_by.empty() ? nullptr : keeps_away(directory, spec, own, cls.example, from, to);
    first = first ? first : other;
    return other != nullptr;
  };
  if (enough_nodes(classes_, way, now) || !first)
    return std::nullopt;
  const auto for_good = [&](const AlikeNodes& cls) {
    return std::any_of(cls.kept_by.begin(), cls.kept_by.end(), [&](const std::string& name) {
      const Reservation* r = directory.reservation(name);
      const bool shuts = r && shuts_for_good(directory, *r, spec, limit);
      first = shuts ? r : first;
      return shuts;
    });
  };
  const bool lasting = !enough_nodes(classes_, way, for_good);
  return Bar{Wait::kNodesUnavailable, reserved_words(*first), lasting, {}};
}

const Tres& PlannerView::cluster() {
  if (!cluster_) {
    cluster_.emplace();
    for (const NodeSlot& slot : nodes_)
      if (slot.node)
        add(*cluster_, tres_of_node(*slot.node));
  }
  return *cluster_;
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
  if (weighted)
    priorities_ = admission_.priorities(as_of, cluster(), most_partition_, [this] { return running_use(); });
  if (spent_only && before && priorities_)
    reorder_served(*before);
  else
    reorder();
  return true;
}

// Only what was spent is different: jobs move only where the fair share of their user changed.
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
