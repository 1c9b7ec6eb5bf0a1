// The searches of a pass: victims for blocked jobs that may preempt, and jobs to move for a head.
#include <algorithm>
#include <map>
#include <set>

#include "model/job.h"
#include "model/plan.h"
#include "rules/growth.h"
#include "rules/tres.h"
#include "sched/defrag.h"
#include "sched/place.h"
#include "sched/preempting.h"

namespace lockstep {

namespace {

constexpr Duration kWaitMost =
    hours(7 * 24);                      // of a head behind jobs without a limit, when it is weighed against moves
constexpr std::size_t kLevelsMost = 8;  // of precedence, the highest, that are tried one after the other
constexpr std::size_t kTriesMost = 64;  // blocked shapes for which victims are looked for, in one pass

const Partition* partition_of(const PlannerView& view, const std::string& name) {
  for (const Ref<Partition>& p : view.partitions())
    if (p->meta.name == name)
      return p.get();
  return nullptr;
}

// Devices that are free, or will be when these have gone.
std::int64_t devices_free(PlannerView& view, const std::vector<const Job*>& going) {
  std::int64_t free = 0;
  for (const NodeSlot& slot : view.nodes())
    if (slot.node && slot.cls != kNoClass && node_usable(*slot.node)) {
      const DeviceSet& healthy = view.classes()[slot.cls].healthy;
      free += std::int64_t{healthy.count()} - (healthy & slot.load.devices).count();
    }
  for (const Job* job : going)
    for (const Grant& grant : job->allocation->grants) free += grant.devices.count();
  return free;
}

// The same candidates, with those in parts that can give up some of their nodes and stay: as many of the nodes that the
// way could use as they can do without, the last ones first. Empty: there are none.
std::vector<Victim> in_parts(const Directory& directory, const Way& way, PlannerView& view,
                             const std::vector<Victim>& candidates, Instant now) {
  std::set<ClassNo> usable;
  for (const GroupWay& group : way.groups)
    for (const ClassNeed& need : group.needs) usable.insert(need.cls);
  std::vector<Victim> out;
  bool any = false;
  for (const Victim& victim : candidates) {
    const Job& job = *victim.job;
    std::vector<NodeId> nodes;
    if (!victim.keeps_memory && job.state == JobState::kRunning)
      for (std::size_t i = job.allocation->grants.size(); i-- > 0;) {
        const NodeId node = job.allocation->grants[i].node;
        if (!usable.contains(view.nodes()[node.value].cls) ||
            std::find(nodes.begin(), nodes.end(), node) != nodes.end())
          continue;
        nodes.push_back(node);
        if (!can_spare(job, nodes))
          nodes.pop_back();
      }
    if (nodes.empty()) {
      out.push_back(victim);
      continue;
    }
    any = true;
    std::sort(nodes.begin(), nodes.end());
    for (const NodeId node : nodes) out.push_back({&job, loss_on(directory, job, node, now), false, node});
  }
  return any ? out : std::vector<Victim>();
}

// The job on a place that others have to leave first: the view counts it as taken.
PlannedStart start_to_come(const PlannerView& view, const JobSlot& slot, const Partition& partition,
                           const std::vector<Grant>& grants) {
  PlannedStart place{.job = slot.job->id,
                     .is_element = slot.job->array != nullptr,
                     .read = slot.job->meta.seq,
                     .partition = partition.meta.name,
                     .grants = grants};
  if (place.is_element)
    place.array_index = view.next_element(slot);
  return place;
}

PlannedPreemption preemption_for(const PlannedStart& place) {
  return {.job = place.job,
          .read = place.read,
          .partition = place.partition,
          .grants = place.grants,
          .victims = {},
          .shrinks = {}};
}

// Victims that are taken out of what counts against limits, for as long as this lives.
class Departed {
 public:
  Departed(PlannerView& view, const JobSpec& spec, const Way& way, const Tres& tres)
      : view_(view),
        quotas_(view.admission().ledger().quotas()),
        right_(view.admission().directory(), spec, *view.partitions()[way.partition], &quotas_, tres) {}
  ~Departed() {
    for (const Job* job : gone_) view_.admission().index(nullptr, job);
  }
  Departed(const Departed&) = delete;
  Departed& operator=(const Departed&) = delete;

  // False: with those that have gone there is no right against it.
  bool remove(const Victim& victim) {
    if (!right_.against(*victim.job, partition_of(view_, victim.job->allocation->partition)))
      return false;
    if (victim.keeps_memory)
      return true;
    quotas_.add(victim.job->spec->account, victim.job->allocation->tres, -1);
    view_.admission().index(victim.job, nullptr);
    gone_.push_back(victim.job);
    return true;
  }
  bool for_quota() const { return right_.for_quota(); }

 private:
  PlannerView& view_;
  QuotaTree quotas_;
  PreemptRight right_;
  std::vector<const Job*> gone_;
};

const Victim& victim_of(const std::vector<Victim>& candidates, JobId id) {
  return *std::lower_bound(candidates.begin(), candidates.end(), id,
                           [](const Victim& v, JobId wanted) { return v.job->id < wanted; });
}

// Whose end gives other accounts' quota back, beside those that are chosen; the cheapest first.
std::vector<const Victim*> who_gives_quota(const std::vector<Victim>& candidates, const JobSpec& spec,
                                           const VictimChoice& choice) {
  std::vector<const Victim*> out;
  for (const Victim& victim : candidates)
    if (!victim.keeps_memory && victim.job->spec->account != spec.account &&
        std::find(choice.victims.begin(), choice.victims.end(), victim.job->id) == choice.victims.end())
      out.push_back(&victim);
  std::stable_sort(out.begin(), out.end(), [](const Victim* a, const Victim* b) { return a->loss < b->loss; });
  return out;
}

// Whether the job may start on the place once the victims are gone, limits and quotas counted; with quotas to claim
// back, adds victims until it may. The candidates are in the order of their ids.
bool settle_limits(PlannerView& view, const JobSpec& spec, const Way& way, const std::vector<Victim>& candidates,
                   const Tres& tres, VictimChoice& choice) {
  if (!view.admission().bounded())
    return true;
  Departed departed(view, spec, way, tres);
  for (const JobId id : choice.victims)
    if (!departed.remove(victim_of(candidates, id)))
      return false;
  if (!view.bar(spec, way, &choice.grants))
    return true;
  if (!departed.for_quota())
    return false;
  for (const Victim* victim : who_gives_quota(candidates, spec, choice)) {
    if (!departed.remove(*victim))
      continue;
    choice.victims.push_back(victim->job->id);
    choice.loss += victim->loss;
    if (!view.bar(spec, way, &choice.grants))
      return true;
  }
  return false;
}

}  // namespace

// One search for victims.
struct Preempting::Hunt {
  struct Try {
    OrderKey key;
    std::uint32_t shape;
    bool operator<(const Try& o) const { return key < o.key; }
  };

  Preempting& preempting;
  PlannerView& view;
  const Shadows& shadows;
  Instant now;
  const Directory& directory;
  const QuotaTree* quotas;                                 // null: nobody claims any back
  std::vector<const Job*> going;                           // about to give back what they hold
  std::map<Kind, std::vector<const Kind*>> known_kinds{};  // see kinds_for()

  // Whom jobs of a QOS and partition may preempt, asked once for all shapes that share them.
  const std::vector<const Kind*>& kinds_for(const JobSpec& spec, const Partition& partition) {
    const auto [it, fresh] = known_kinds.try_emplace(
        Kind{std::string(spec.qos), partition.meta.name, spec.waits_its_turn ? std::nullopt : spec.precedence, false});
    if (!fresh)
      return it->second;
    const PreemptRight right(directory, spec, partition, nullptr, {});
    for (const auto& [kind, jobs] : preempting.running_)
      if (quotas || (right.any() &&
                     (kind.is_check || right.outranks(kind.qos, kind.precedence, partition_of(view, kind.partition)))))
        it->second.push_back(&kind);
    return it->second;
  }

  bool has_anybody(std::uint32_t shape) {
    const std::vector<Way>& ways = view.ways(shape);
    return std::any_of(ways.begin(), ways.end(), [&](const Way& way) {
      return way.open && !kinds_for(*view.shapes()[shape].spec, *view.partitions()[way.partition]).empty();
    });
  }

  // The first jobs of blocked shapes that may preempt somebody, in the order of rank.
  std::vector<Try> tries(const std::function<bool(std::uint32_t shape)>& blocked) {
    std::vector<Try> out;
    for (std::uint32_t i = 0; i < view.briefs().size(); ++i) {
      const ShapeBrief& brief = view.briefs()[i];
      if (brief.jobs == 0 || brief.kind == ShapeBrief::Kind::kNever || brief.partition == kNoPartition || !blocked(i) ||
          !has_anybody(i))
        continue;
      view.shapes()[i].jobs.each_after(OrderKey{}, true, [&](SlotNo s) {
        if (view.skipped(view.slot(s)))
          return true;
        out.push_back({view.slot(s).key, i});
        return false;
      });
    }
    if (out.size() > kTriesMost) {
      std::nth_element(out.begin(), out.begin() + kTriesMost, out.end());
      out.resize(kTriesMost);
    }
    std::sort(out.begin(), out.end());
    return out;
  }

  // Who may be preempted now, by id. grace: raised to the longest of theirs.
  std::vector<Victim> candidates(const PreemptRight& right, const std::vector<const Kind*>& kinds, Duration& grace) {
    std::vector<Victim> out;
    for (const Kind* kind : kinds) {
      const Partition* where = partition_of(view, kind->partition);
      for (const auto& [id, job] : preempting.running_.at(*kind)) {
        if (preempting.victims_.contains(id))
          continue;
        const auto terms = right.against(*job, where);
        if (!terms)
          continue;
        if (terms->from > now) {
          preempting.exempt_until_ = std::min(preempting.exempt_until_, terms->from);
          continue;
        }
        grace = std::max(grace, terms->grace);
        out.push_back({job.get(), loss_of(directory, *job, terms->mode, now), terms->mode == PreemptMode::kSuspend});
      }
    }
    std::sort(out.begin(), out.end(), [](const Victim& a, const Victim& b) { return a.job->id < b.job->id; });
    return out;
  }

  // The victims that lose least, whole or in parts.
  std::optional<VictimChoice> choose(const JobSpec& spec, const Way& way, const std::vector<Victim>& among,
                                     const Tres& tres, const Avoid& avoid) {
    auto choice = choose_victims(view, spec, way, among, going, shadows, avoid);
    if (choice && !settle_limits(view, spec, way, among, tres, *choice))
      choice.reset();
    const auto parts = in_parts(directory, way, view, among, now);
    if (parts.empty())
      return choice;
    auto less = choose_victims(view, spec, way, parts, going, shadows, avoid);
    if (!less || (choice && !(less->loss < choice->loss)))
      return choice;
    const std::size_t whole_ones = less->victims.size();
    const bool fine = settle_limits(view, spec, way, among, tres, *less) && less->victims.size() == whole_ones;
    return fine ? std::move(less) : std::move(choice);
  }

  // Where precedence decides, those of the lowest go if that is enough, whatever they lose.
  std::optional<VictimChoice> choose_lowest(const PreemptRight& right, const JobSpec& spec, const Way& way,
                                            const std::vector<Victim>& among, const Tres& tres, const Avoid& avoid) {
    std::set<std::int32_t> levels;
    for (const Victim& victim : among)
      if (right.precedes(*victim.job))
        levels.insert(*victim.job->spec->precedence);
    while (levels.size() > kLevelsMost) levels.erase(levels.begin());
    for (const std::int32_t level : levels) {
      std::vector<Victim> low;
      std::copy_if(among.begin(), among.end(), std::back_inserter(low), [&](const Victim& victim) {
        return !right.precedes(*victim.job) || *victim.job->spec->precedence <= level;
      });
      if (low.size() == among.size())
        break;
      if (auto choice = choose(spec, way, low, tres, avoid))
        return choice;
    }
    return choose(spec, way, among, tres, avoid);
  }

  void propose(const JobSlot& slot, const Partition& partition, VictimChoice& choice, Instant end, PlanChunk& chunk) {
    const PlannedStart place = start_to_come(view, slot, partition, choice.grants);
    PlannedPreemption planned = preemption_for(place);
    planned.victims = choice.victims;
    planned.shrinks = choice.shrinks;
    chunk.preemptions.push_back(std::move(planned));
    for (const PlannedShrink& part : choice.shrinks) preempting.victims_.insert(part.job);
    for (const JobId victim : choice.victims) {
      preempting.victims_.insert(victim);
      going.push_back(preempting.running_.at(preempting.kinds_.at(victim)).at(victim).get());
    }
    view.propose(place, end);
  }

  // True: there are victims on this way, and they are proposed.
  bool try_way(const JobSlot& slot, const JobSpec& spec, const Tres& tres, const Way& whole, PlanChunk& chunk) {
    if (!whole.open || !whole.possible)
      return false;
    const Partition& partition = *view.partitions()[whole.partition];
    const PreemptRight right(directory, spec, partition, quotas, tres);
    if (!right.any() || (!right.for_quota() && view.bar(spec, whole)))
      return false;
    Duration grace;
    const std::vector<Victim> among = candidates(right, kinds_for(spec, partition), grace);
    if (among.empty())
      return false;
    // A head that starts as soon without it need not preempt anybody.
    const Shadow* shadow = shadows.of_job(slot.key.job);
    if (shadow && !shadow->overdue() && shadow->at <= now + grace)
      return false;
    const std::optional<Way> narrowed = view.open_way(spec, whole, now);
    const Way& way = narrowed ? *narrowed : whole;
    const Instant end = way.end_from(now);
    auto choice = choose_lowest(right, spec, way, among, tres, shadows.avoid_for(slot.key, end, end));
    if (!choice || (choice->victims.empty() && choice->shrinks.empty()))
      return false;
    propose(slot, partition, *choice, end, chunk);
    return true;
  }

  // Who could move, by id. grace: raised to the longest of theirs.
  std::vector<Victim> movable(const Partition& partition, Duration after, Duration& grace) {
    std::vector<Victim> out;
    for (const auto& [kind, jobs] : preempting.running_) {
      if (kind.partition != partition.meta.name)
        continue;
      for (const auto& [id, job] : jobs) {
        const auto terms = move_terms(directory, *job, &partition, after);
        if (terms && terms->from > now) {
          preempting.exempt_until_ = std::min(preempting.exempt_until_, terms->from);
        } else if (terms) {
          grace = std::max(grace, terms->grace);
          out.push_back({job.get(), move_loss(*job, now)});
        }
      }
    }
    std::sort(out.begin(), out.end(), [](const Victim& a, const Victim& b) { return a.job->id < b.job->id; });
    return out;
  }

  bool may_move_for(const Shadow& head) {
    const SlotNo s = view.find(head.key.job);
    return s != kNoSlot && view.slot(s).queued && !view.skipped(view.slot(s)) && !head.overdue();
  }

  // True: there are moves that let the head start, and they are proposed. free: devices that will be, without moves.
  bool move_for(const Shadow& head, Duration after, std::int64_t free, PlanChunk& chunk) {
    const JobSlot& slot = view.slot(view.find(head.key.job));
    const Partition& partition = *view.partitions()[head.partition];
    Duration grace;
    const std::vector<Victim> among = movable(partition, after, grace);
    std::int64_t devices = 0;
    for (const Grant& grant : head.grants) devices += grant.devices.count();
    if (devices > free)
      return false;  // moving makes nothing free in all
    const std::int64_t spared_ms = std::min(head.at - now - grace, kWaitMost).us / 1000;
    if (among.empty() || spared_ms <= 0)
      return false;
    const std::vector<Way>& ways = view.ways(slot.shape);
    const auto whole =
        std::find_if(ways.begin(), ways.end(), [&](const Way& w) { return w.open && w.partition == head.partition; });
    if (whole == ways.end())
      return false;
    const JobSpec spec = view.asked_of(slot);
    const std::optional<Way> narrowed = view.open_way(spec, *whole, now);
    const Way way = narrowed ? *narrowed : *whole;
    const std::int64_t gain = spared_ms * size_milli(head.grants) / kWholeDevice;
    auto moves = find_moves(view, spec, way, among, going, shadows, head.key, gain);
    if (!moves)
      return false;
    const PlannedStart place = start_to_come(view, slot, partition, moves->grants);
    PlannedPreemption planned = preemption_for(place);
    for (Moves::One& one : moves->moved) {
      planned.victims.push_back(one.job);
      chunk.promises.push_back(
          {one.job,
           {.at = now + grace, .partition = partition.meta.name, .grants = std::move(one.grants), .held = true}});
    }
    chunk.preemptions.push_back(std::move(planned));
    view.propose(place, way.end_from(now));
    return true;
  }

  void try_job(const Try& next, PlanChunk& chunk) {
    const JobSlot& slot = view.slot(view.find(next.key.job));
    const Ref<JobSpec> spec = slot.job->spec;
    const std::vector<Way> ways = view.ways(next.shape);
    const Tres tres = quotas ? least_tres(*spec) : Tres{};
    for (const Way& whole : ways)
      if (try_way(slot, *spec, tres, whole, chunk))
        return;
  }
};

void Preempting::search(PlannerView& view, const Shadows& shadows, Instant now,
                        const std::function<bool(std::uint32_t shape)>& blocked, PlanChunk& chunk) {
  exempt_until_ = kNever;
  const Directory& directory = view.admission().directory();
  const bool by_precedence =
      std::any_of(running_.begin(), running_.end(), [](const auto& kind) { return kind.first.precedence.has_value(); });
  if (running_.empty() || (!by_precedence && !preemption_is_on(directory)))
    return;
  const bool for_quota = directory.policy().preempt_for_quota && view.admission().bounded();
  const QuotaTree* quotas = for_quota ? &view.admission().ledger().quotas() : nullptr;
  Hunt hunt{*this, view, shadows, now, directory, quotas, jobs_going()};
  for (const Hunt::Try& next : hunt.tries(blocked)) hunt.try_job(next, chunk);
}

std::vector<const Job*> Preempting::jobs_going() const {
  std::vector<const Job*> out;
  for (const auto& [id, job] : going_) out.push_back(job.get());
  return out;
}

void Preempting::defragment(PlannerView& view, const Shadows& shadows, Instant now, Duration after, PlanChunk& chunk) {
  Hunt hunt{*this, view, shadows, now, view.admission().directory(), nullptr, jobs_going()};
  const std::int64_t free = devices_free(view, hunt.going);
  for (const Shadow& head : shadows.all())
    if (hunt.may_move_for(head) && hunt.move_for(head, after, free, chunk))
      return;
}

}  // namespace lockstep
