// A pass looks at every shape: those that cannot start by a count of nodes are closed at once, the others are tried one
// job at a time in the order of rank; what fits is proposed, what does not closes its shape for this pass, since room
// only shrinks until something is freed. The first blocked job of a partition casts a shadow on what it will start on.
// When no more can start, the forecast gives every queued job its time.
#include "sched/planner.h"

#include <algorithm>

#include "base/check.h"
#include "model/job.h"
#include "rules/job_size.h"
#include "rules/order.h"
#include "sched/forecast.h"
#include "sched/growth.h"
#include "sched/preempting.h"
#include "sched/ready_times.h"

namespace lockstep {

namespace {

constexpr Duration kRetryRefused = seconds(1);  // then starts that the core refused are tried again
constexpr std::uint32_t kRestartsMax = 4;  // of an unfinished pass, so that its tail is reached under constant change

// Work is counted in sixteenths of trying one job on the nodes.
constexpr std::uint64_t kTry = 16, kLook = 1, kNodesALook = 8;
constexpr std::uint64_t kMember = 4;  // of a gang

std::uint64_t members_of(const Way& way) {
  std::uint64_t nodes = 0;
  for (const GroupWay& group : way.groups) nodes += group.nodes;
  return nodes;
}

constexpr OrderPolicy kOrder;

constexpr std::size_t kScanMost = 2048;  // shapes sorted in one slice

constexpr int kWindowsMost = 64;  // windows of reservations that a head's place is looked for behind

constexpr std::uint32_t kMindingMost = 32;  // jobs of one shape that their neighbours keep out, tried in one pass
constexpr std::uint32_t kFrontMost = 1000;  // jobs of the queue's front in which heads are looked for

// Jobs move, and what is free now is kept for them.
bool moves(const Plan& plan) {
  return std::any_of(plan.promises.begin(), plan.promises.end(),
                     [](const PlannedPromise& p) { return p.promise.held; });
}

// Whether the members of a group that fits wherever the amounts do find enough nodes, whatever heads wait for.
bool room_for(PlannerView& view, const GroupSpec& group, const GroupWay& way, std::uint64_t& looked) {
  std::uint32_t found = 0;
  for (const ClassNeed& need : way.needs)
    for (const NodeIndex* index : {&view.classes()[need.cls].open, &view.classes()[need.cls].shaded}) {
      index->each(need.amounts, [&](NodeId id) {
        const NodeSlot& slot = view.nodes()[id.value];
        found += slot.free.memory_mb >= need.amounts.memory_mb &&
                 (group.sharing != Sharing::kExclusive || slot.load.occupants == 0) && seats_left(slot.load, group) > 0;
        ++looked;
        return found < way.nodes;
      });
      if (found >= way.nodes)
        return true;
    }
  return false;
}

struct Entry {
  OrderKey key;
  std::uint32_t shape = 0;
  friend auto operator<=>(const Entry&, const Entry&) = default;
};

}  // namespace

struct Planner::Inner {
  PlannerSettings settings;
  PlannerView view;
  Shadows shadows;
  Forecast forecast;
  Preempting preempting;
  Growing growing;
  std::vector<Entry> active;           // heap, lowest key on top: the next job of every open shape
  std::uint64_t pass = 1, layout = 0;  // of the view, as the pass began
  std::uint32_t restarts = 0;
  std::uint64_t looked = 0;   // in this slice
  Instant retry_at = kNever;  // when starts that the core refused are tried again; kNever: there are none

  struct Head {
    bool any = false;
    OrderKey key;  // of the first blocked job of the partition
    bool cast = false;
  };
  bool scanning = false;
  std::uint32_t scanned = 0;                             // shapes
  std::vector<bool> wanted;                              // by partition: a shape is blocked there
  std::vector<Head> heads;                               // by partition
  std::map<PartitionNo, std::vector<ReadyTimes>> ready;  // of their heads
  std::set<JobId> promises_out;                          // proposed and not answered yet
  std::vector<JobId> heads_told;                         // jobs with a note as a partition's head

  std::map<std::uint32_t, std::uint32_t> minding;  // shapes -> jobs that their neighbours kept out in this pass
  std::set<SlotNo> passed_over;                    // of them, those behind whom others were tried

  enum class Verdict { kStarted, kSkipped, kBlocked };

  void push(Entry entry) {
    active.push_back(entry);
    std::push_heap(active.begin(), active.end(), std::greater<>{});
  }
  Entry pop() {
    std::pop_heap(active.begin(), active.end(), std::greater<>{});
    const Entry entry = active.back();
    active.pop_back();
    return entry;
  }

  // The job with this key, while it is queued.
  SlotNo queued(const OrderKey& key) const {
    const SlotNo s = view.find(key.job);
    return s != kNoSlot && view.slot(s).queued && view.slot(s).key == key ? s : kNoSlot;
  }

  // The first job of the shape behind `after` that may be started; kNoSlot: none.
  SlotNo next_of(const Shape& shape, const OrderKey& after, bool all) {
    SlotNo next = kNoSlot;
    shape.jobs.each_after(after, all, [&](SlotNo s) {
      if (!view.skipped(view.slot(s)))
        next = s;
      return next == kNoSlot;
    });
    return next;
  }

  void begin_pass() {
    ++pass;
    minding.clear();
    passed_over.clear();
    active.clear();
    heads.assign(view.partitions().size(), {});
    wanted.assign(heads.size(), false);
    scanning = true;
    scanned = 0;
    layout = view.layout;
    view.changed = view.arrived = false;
  }

  // Sorts the shapes into those that cannot start and those to be tried. Until it is through, the last pass's shadows
  // stand.
  void scan(std::uint64_t units) {
    std::vector<ShapeBrief>& briefs = view.briefs();
    const std::uint32_t stop = std::min<std::size_t>(briefs.size(), std::size_t{scanned} + kScanMost);
    for (; scanned < stop && looked < units; ++scanned) {
      const std::uint32_t i = scanned;
      ShapeBrief& brief = briefs[i];
      if (brief.jobs == 0)
        continue;
      if (brief.judged != view.generation)
        judge(view, i, looked);
      if (brief.kind == ShapeBrief::Kind::kNever || still_parked(view, i) || !may_start(view, i)) {
        brief.blocked_pass = pass;
        if (brief.partition != kNoPartition)
          wanted[brief.partition] = true;
      } else if (const SlotNo first = next_of(view.shapes()[i], {}, true); first != kNoSlot) {
        active.push_back({view.slot(first).key, i});
      }
    }
    if (scanned < briefs.size())
      return;
    scanning = false;
    shadows.clear(view);
    preempting.keep_places(view, shadows);
    std::make_heap(active.begin(), active.end(), std::greater<>{});
    find_heads();
  }
  bool in_pass() const { return scanning || !active.empty(); }

  // The first jobs of blocked shapes. Most lie at the front of the queue; for partitions where they do not, every shape
  // is asked.
  void find_heads() {
    std::size_t left = static_cast<std::size_t>(std::count(wanted.begin(), wanted.end(), true));
    std::uint32_t seen = 0;
    view.queue().each_after(OrderKey{}, true, [&](SlotNo s) {
      if (left == 0 || ++seen > kFrontMost)
        return false;
      const JobSlot& slot = view.slot(s);
      const ShapeBrief& brief = view.briefs()[slot.shape];
      if (brief.blocked_pass != pass || brief.partition == kNoPartition || !wanted[brief.partition] ||
          view.skipped(slot) || barred(s))
        return true;
      wanted[brief.partition] = false;
      --left;
      heads[brief.partition] = {true, slot.key, false};
      return true;
    });
    if (left == 0)
      return;
    for (std::uint32_t i = 0; i < view.briefs().size(); ++i) {
      const ShapeBrief& brief = view.briefs()[i];
      if (brief.jobs == 0 || brief.blocked_pass != pass || brief.partition == kNoPartition || !wanted[brief.partition])
        continue;
      if (const SlotNo s = next_of(view.shapes()[i], {}, true); s != kNoSlot)
        note_head(brief, s);
    }
  }

  // Something else than the lack of room keeps it from starting where it would be head, so room is not kept for it.
  bool barred(SlotNo s) {
    if (must_mind_neighbours(view, view.asked_of(view.slot(s))))
      return true;
    if (!view.admission().bounded())
      return false;
    const JobSlot& slot = view.slot(s);
    const Way* way = way_in(slot, view.briefs()[slot.shape].partition);
    if (!way)
      return false;
    if (view.bar_on(view.shapes()[slot.shape], *way))
      return true;
    const std::optional<Bar> reserved = view.reserved(view.asked_of(slot), *way);
    return reserved && reserved->lasting;
  }
  const Way* way_in(const JobSlot& slot, PartitionNo partition) {
    const std::vector<Way>& ways = view.ways(slot.shape);
    const auto way = std::find_if(ways.begin(), ways.end(), [&](const Way& w) { return w.partition == partition; });
    return way == ways.end() ? nullptr : &*way;
  }

  // The next job behind `after` that would be head of the partition, among those known to be blocked.
  Head next_head(PartitionNo p, const OrderKey& after) {
    Head next;
    std::uint32_t seen = 0;
    view.queue().each_after(after, false, [&](SlotNo s) {
      const JobSlot& slot = view.slot(s);
      const ShapeBrief& brief = view.briefs()[slot.shape];
      if (brief.blocked_pass == pass && brief.partition == p && !view.skipped(slot) && !barred(s))
        next = {true, slot.key, false};
      return !next.any && ++seen < kFrontMost;
    });
    return next;
  }

  void note_head(const ShapeBrief& brief, SlotNo s) {
    if (brief.partition == kNoPartition || barred(s))
      return;
    Head& head = heads[brief.partition];
    if (!head.any || (!head.cast && view.slot(s).key < head.key))
      head = {true, view.slot(s).key, false};
  }

  // The shadows of all heads before this key.
  void cast_shadows(Instant now, const OrderKey* before) {
    for (PartitionNo p = 0; p < heads.size(); ++p) {
      Head& head = heads[p];
      if (head.cast)
        continue;
      // What started in this pass may have used up what a limit allows.
      for (SlotNo s = kNoSlot; head.any && (!before || head.key < *before); head = next_head(p, head.key))
        if (s = queued(head.key); s == kNoSlot || !barred(s))
          break;
      if (!head.any || (before && !(head.key < *before)))
        continue;
      head.cast = true;
      const SlotNo s = queued(head.key);
      if (s == kNoSlot)
        continue;  // taken away in the middle of the pass; the next one begins at once
      const JobSlot& slot = view.slot(s);
      looked += kTry;
      if (auto shadow = place_beside_suspended(slot, p, now)) {
        // What may never fit, since nothing there has an end, keeps no service waiting that fits now.
        if (shadow->at == kNever && slot.job->spec->precedence)
          continue;
        shadow->binds_at = binds_at(*slot.job);
        shadows.add(view, std::move(*shadow));
      }
    }
  }

  // Where it would wait for suspended jobs that go on ahead of it, there may be room without theirs earlier.
  std::optional<Shadow> place_beside_suspended(const JobSlot& slot, PartitionNo p, Instant now) {
    const JobSpec& spec = view.asked_of(slot);
    auto shadow = place_head(spec, *way_in(slot, p), now, ready[p]);
    if (!shadow)
      return shadow;
    shadow->key = slot.key;
    const Instant after = shadows.after_suspended(*shadow);
    if (after == shadow->at)
      return shadow;
    shadow->at = after;
    std::vector<ReadyTimes> without = ready[p];
    for (const NodeId node : shadows.nodes_of_suspended(slot.key))
      for (ReadyTimes& times : without) times.rule_out(node);
    auto other = place_head(spec, *way_in(slot, p), now, without);
    if (!other)
      return shadow;
    other->key = slot.key;
    other->at = shadows.after_suspended(*other);
    return other->at < after ? other : shadow;
  }

  Instant binds_at(const Job& job) {
    const JobSize size = size_of(*job.spec);
    return job.turn ? job.turn + overdue_after(kOrder, size.count, capacity_for(size, view.cluster())) : Instant{};
  }

  // When and where it could start, reservations on the way included: the first moment at which nothing that is closed
  // over its whole time is needed.
  std::optional<Shadow> place_head(const JobSpec& spec, const Way& way, Instant now, std::vector<ReadyTimes>& known) {
    Instant from = now;
    for (int windows = 0; windows < kWindowsMost && from != kNever; ++windows) {
      const std::optional<Way> narrowed = view.open_way(spec, way, from);
      const Way& open = narrowed ? *narrowed : way;
      ReadyTimes& times = ready_times(view, open, known);
      // A look at all nodes is the longest that a job that has just come is kept waiting: nothing else beside it.
      looked += view.nodes().size() / (times.clock == 0 ? 1 : kNodesALook);
      auto shadow = place_later(view, spec, open, from, times);
      if (shadow) {
        shadow->made = now;
        if (!view.admission().reserves() || shadow->at == from || shadow->at == kNever)
          return shadow;
        const std::optional<Way> then = view.open_way(spec, way, shadow->at);
        const auto on_open = [&](const Grant& grant) {
          const std::vector<ClassNeed>& needs = (then ? *then : way).groups[grant.group].needs;
          const ClassNo cls = view.nodes()[grant.node.value].cls;
          return std::any_of(needs.begin(), needs.end(), [&](const ClassNeed& need) { return need.cls == cls; });
        };
        if (std::all_of(shadow->grants.begin(), shadow->grants.end(), on_open))
          return shadow;
      }
      if (!view.admission().reserves())
        return shadow;
      from = view.admission().next_boundary(from);
    }
    return std::nullopt;
  }

  void start(SlotNo s, const Way& way, std::vector<Grant> grants, Instant end, PlanChunk& chunk) {
    const JobSlot& slot = view.slot(s);
    PlannedStart planned{.job = slot.job->id,
                         .is_element = slot.job->array != nullptr,
                         .read = slot.job->meta.seq,
                         .partition = view.partitions()[way.partition]->meta.name,
                         .grants = std::move(grants)};
    if (planned.is_element)
      planned.array_index = view.next_element(slot);
    if (slot.job->spec->time_min.us > 0)
      planned.limit = way.limit;
    view.propose(planned, end);
    shadows.started(view, planned.grants, end);
    chunk.starts.push_back(std::move(planned));
  }

  // When it will probably be over, as far as it may go ahead of a head whose promise does not bind yet.
  static Instant probable_end(const Job& job, const Way& way, Instant now) {
    if (way.limit >= kForever)
      return kNever;
    return now + (job.predicted.us > 0 ? filler_time(kOrder, way.limit, job.predicted, false) : way.limit);
  }

  // The time limits it may start under: its own, and with a least one (--time-min) those that end before a head's time
  // or a reservation's window; longest first.
  std::vector<Duration> limits_for(const JobSlot& slot, const Way& way, Instant now) const {
    std::vector<Duration> out{way.limit};
    const Duration least = slot.job->spec->time_min;
    if (least.us <= 0)
      return out;
    const auto before = [&](Instant at) {
      if (at == kNever || at <= now)
        return;
      const Duration left{(at - now).us / 1'000'000 * 1'000'000};
      if (left >= least && left < way.limit)
        out.push_back(left);
    };
    for (const Shadow& shadow : shadows.all())
      if (shadow.key < slot.key)
        before(shadow.at);
    if (view.admission().reserves())
      before(view.admission().next_boundary(now));
    std::sort(out.begin(), out.end(), std::greater<>{});
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }

  bool fits_heads_aside(const JobSlot& slot, Instant now) {
    const Avoid none(shadows.all().size());
    for (const Way& whole : view.ways(slot.shape)) {
      if (!whole.open)
        continue;
      const std::optional<Way> narrowed = view.open_way(*slot.job->spec, whole, now);
      const Way& way = narrowed ? *narrowed : whole;
      if (!may_fit(view, way, shadows, none))
        continue;
      if (way.groups.size() == 1 && way.groups[0].exact && !way.groups[0].bound &&
          !must_mind_neighbours(view, view.asked_of(slot))) {
        std::uint64_t nodes = 0;
        const bool fits = room_for(view, view.asked_of(slot).groups[0], way.groups[0], nodes);
        looked += kLook + nodes / kNodesALook;
        if (fits)
          return true;
        continue;
      }
      looked += kTry + members_of(way) * kMember;
      if (place_now(view, view.asked_of(slot), way, shadows, none))
        return true;
    }
    return false;
  }

  // What was found of a job on its ways.
  struct Look {
    bool any_bar = false;       // something else than room keeps it from starting
    bool free_of_heads = true;  // no head's place was kept from it
  };

  // Starts the job on the way under this limit, if it fits. express: see consider().
  bool start_on(SlotNo s, const Way& asked, Duration limit, Instant now, bool express, Look& look, PlanChunk& chunk) {
    const JobSlot& slot = view.slot(s);
    std::optional<Way> shorter;
    if (limit != asked.limit)
      shorter.emplace(asked).limit = limit;
    const Way& whole = shorter ? *shorter : asked;
    if (shorter ? view.bar(*slot.job->spec, whole).has_value()
                : view.bar_on(view.shapes()[slot.shape], whole).has_value()) {
      look.any_bar = true;
      return false;
    }
    const std::optional<Way> open = view.open_way(*slot.job->spec, whole, now);
    std::size_t asked_bars = 0;
    const std::optional<Way> allowed = view.allowed_way(*slot.job->spec, open ? *open : whole, asked_bars);
    looked += kLook * asked_bars;
    const Way& way = allowed ? *allowed : open ? *open : whole;
    look.any_bar = look.any_bar || allowed;
    const Instant end = way.end_from(now);
    const Avoid avoid = shadows.avoid_for(slot.key, end, probable_end(*slot.job, way, now));
    look.free_of_heads = look.free_of_heads && std::find(avoid.begin(), avoid.end(), true) == avoid.end();
    if (!may_fit(view, way, shadows, avoid))
      return false;
    looked += kTry + members_of(way) * kMember;
    auto grants = place_now(view, view.asked_of(slot), way, shadows, avoid, slot.job->predicted);
    if (!grants)
      return false;
    if (view.bar(*slot.job->spec, way, &*grants) &&
        !(grants = place_within_limits(view, view.asked_of(slot), way, shadows, avoid))) {
      look.any_bar = true;
      return false;
    }
    if (express && outranks_a_head(slot))
      view.changed = true;
    start(s, way, std::move(*grants), end, chunk);
    return true;
  }

  // Tries one job on its ways. express: it has just come and is tried out of turn, in the middle of a pass; it must not
  // close a shape or become a head.
  Verdict consider(SlotNo s, Instant now, bool express, PlanChunk& chunk) {
    looked += kLook;
    const JobSlot& slot = view.slot(s);
    if (view.skipped(slot))
      return Verdict::kSkipped;
    Shape& shape = view.shapes()[slot.shape];
    const std::uint32_t number = slot.shape;
    judge(view, number, looked);
    if (shape.never != Wait::kNone)
      return Verdict::kBlocked;
    Look look;
    for (const Way& way : view.ways(shape)) {
      if (!way.open)
        continue;
      for (const Duration limit : limits_for(slot, way, now))
        if (start_on(s, way, limit, now, express, look, chunk))
          return Verdict::kStarted;
    }
    const bool flexible = slot.job->spec->time_min.us > 0;
    const bool minds = must_mind_neighbours(view, view.asked_of(slot));
    if (!look.any_bar && !flexible && !minds && (look.free_of_heads || !fits_heads_aside(slot, now)))
      view.briefs()[number].parked = view.gains;
    if (!express)
      note_head(view.briefs()[number], s);
    return Verdict::kBlocked;
  }

  // Jobs of one shape differ in their labels, so that others may lie where one may not. A few of them are tried.
  bool try_others(SlotNo s) {
    const JobSlot& slot = view.slot(s);
    if (!must_mind_neighbours(view, view.asked_of(slot)))
      return false;
    const auto [at, fresh] = minding.try_emplace(slot.shape, 0);
    if (++at->second >= kMindingMost)
      return false;
    passed_over.insert(s);
    return true;
  }

  // Tries the first job of every open shape in the order of rank, as far as the budget goes: what fits starts, what
  // does not closes its shape for this pass.
  void walk(Instant now, const PlanBudget& budget, PlanChunk& chunk) {
    while (!active.empty() && looked < kTry * budget.jobs && chunk.starts.size() < budget.starts) {
      const Entry entry = pop();
      if (view.briefs()[entry.shape].blocked_pass == pass || view.briefs()[entry.shape].jobs == 0)
        continue;
      // Changes observed in the middle of the pass may have taken this one away.
      SlotNo s = queued(entry.key);
      if (s != kNoSlot && view.slot(s).shape == entry.shape) {
        cast_shadows(now, &entry.key);
        if (consider(s, now, false, chunk) == Verdict::kBlocked && !try_others(s)) {
          view.briefs()[entry.shape].blocked_pass = pass;
          continue;
        }
      }
      // The shape may have lost its last job; then it is empty.
      const Shape& after = view.shapes()[entry.shape];
      s = queued(entry.key);
      const bool same = s != kNoSlot && view.slot(s).shape == entry.shape && !view.skipped(view.slot(s));
      const SlotNo next = after.jobs.empty()                 ? kNoSlot
                          : same && !passed_over.contains(s) ? s
                                                             : next_of(after, entry.key, false);
      if (next != kNoSlot)
        push({view.slot(next).key, entry.shape});
    }
    if (active.empty())
      cast_shadows(now, nullptr);
  }

  // It starts or waits ahead of a head, so that the shadow falls differently and all are looked at again.
  bool outranks_a_head(const JobSlot& slot) const {
    return std::any_of(shadows.all().begin(), shadows.all().end(), [&](const Shadow& s) { return slot.key < s.key; });
  }

  // Jobs that have just come are tried at once. in_turn: as a pass would, which they spare when the last one is over
  // and nothing else is new; so none that would be head, or comes before one, or behind one that is blocked.
  void express(Instant now, const PlanBudget& budget, bool in_turn, PlanChunk& chunk) {
    std::vector<SlotNo> slots;
    for (const JobId id : view.fresh)
      if (const SlotNo s = view.find(id);
          s != kNoSlot && view.slot(s).queued && view.briefs()[view.slot(s).shape].blocked_pass != pass)
        slots.push_back(s);
    std::sort(slots.begin(), slots.end(), [&](SlotNo a, SlotNo b) { return view.slot(a).key < view.slot(b).key; });
    slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
    std::set<std::uint32_t> tried;
    const std::uint64_t most = looked + kTry * budget.jobs;
    for (const SlotNo s : slots) {
      if (looked >= most || chunk.starts.size() >= budget.starts || (in_turn && outranks_a_head(view.slot(s))))
        return;
      const std::uint32_t shape = view.slot(s).shape;
      if (tried.contains(shape) || consider(s, now, true, chunk) != Verdict::kBlocked)
        continue;
      if (in_turn)
        return;
      tried.insert(shape);
    }
  }

  // Writes the head's time and place down, if they are different from what was told last.
  void tell_head(const Shadow& shadow, JobSlot& slot, PlanChunk& chunk) {
    const Instant start = shadow.at != kNever ? shadow.at : Instant{};
    const Way* way = way_in(slot, shadow.partition);
    const std::optional<Bar> reserved = way ? view.reserved(view.asked_of(slot), *way) : std::nullopt;
    const Wait wait = reserved ? reserved->wait : Wait::kResources;
    if (slot.told == wait && slot.head && slot.told_min == minute_after(start))
      return;
    slot.head = true;
    slot.told = wait;
    slot.told_min = slot.promised_min = minute_after(start);
    PlanNote note{.job = slot.job->id,
                  .wait = wait,
                  .detail = reserved ? reserved->detail : std::string(),
                  .expected_start = start};
    for (const Grant& grant : shadow.grants)
      if (start && (note.expected_nodes.empty() || note.expected_nodes.back() != grant.node))
        note.expected_nodes.push_back(grant.node);
    chunk.notes.push_back(std::move(note));
  }

  void tell_heads(PlanChunk& chunk) {
    for (const JobId id : heads_told) {
      const SlotNo s = view.find(id);
      if (s != kNoSlot && !shadows.of_job(id))
        view.slot(s).head = false;  // the forecast tells it anew
    }
    heads_told.clear();
    for (const Shadow& shadow : shadows.all()) {
      const SlotNo s = queued(shadow.key);
      if (s == kNoSlot)
        continue;
      heads_told.push_back(shadow.key.job);
      tell_head(shadow, view.slot(s), chunk);
    }
  }

  // Whether the recorded promise says what the head's shadow says.
  static bool stands(const Promise& old, const Shadow& shadow, const std::string& partition) {
    if (old.held)
      return true;
    const auto same_nodes = [](const Grant& a, const Grant& b) { return a.node == b.node; };
    return old.partition == partition &&
           std::equal(old.grants.begin(), old.grants.end(), shadow.grants.begin(), shadow.grants.end(), same_nodes) &&
           (shadow.overdue() || minute_after(old.at) == minute_after(shadow.at));
  }

  // Promises that bind are records: made, moved and taken back with the heads.
  void record_promises(PlanChunk& chunk) {
    for (const JobId id : view.promised()) {
      const Shadow* shadow = shadows.of_job(id);
      if ((!shadow || !shadow->binds() || shadow->at == kNever) && promises_out.insert(id).second)
        chunk.promises.push_back({id, {}});
    }
    for (const Shadow& shadow : shadows.all()) {
      const SlotNo s = shadow.binds() && shadow.at != kNever ? queued(shadow.key) : kNoSlot;
      if (s == kNoSlot || view.slot(s).array)
        continue;
      const Promise* old = view.slot(s).job->promise.get();
      const std::string& partition = view.partitions()[shadow.partition]->meta.name;
      if (!(old && stands(*old, shadow, partition)) && promises_out.insert(shadow.key.job).second)
        chunk.promises.push_back({shadow.key.job, {.at = shadow.at, .partition = partition, .grants = shadow.grants}});
    }
  }

  // Time has gone on: what it changes by itself.
  void advance(Instant now) {
    view.advance(now);
    view.rank_again(now);
    if (now >= retry_at) {
      retry_at = kNever;
      view.clear_refused();
    }
    for (const Shadow& shadow : shadows.all())
      if ((!shadow.overdue() && now >= shadow.at) || (!shadow.binds() && now >= shadow.binds_at))
        view.changed = true;  // a running job overstays and the shadow moves, or it binds from now on
    if (now >= preempting.wake_at())
      view.changed = true;
  }

  // Whether who has just come is tried at once: nothing else is new, or a long pass is under way.
  bool tries_at_once() const { return !view.fresh.empty() && (in_pass() || (view.arrived && !view.changed)); }

  // Begins a pass where one is due: again, where the one under way cannot go on or something has changed.
  void begin_due_pass() {
    const bool under_way = in_pass();
    const bool lost = under_way && layout != view.layout;  // partitions or classes are others
    const bool restart = view.changed && (!under_way || restarts < kRestartsMax);
    if (!lost && !restart && !(view.arrived && !under_way))
      return;
    restarts = under_way ? restarts + 1 : 0;
    begin_pass();
  }

  // Every shape was looked at: heads and promises are told, then those are served whom room alone does not help.
  void end_pass(Instant now, PlanChunk& chunk) {
    tell_heads(chunk);
    if (!view.has_proposals())  // what starts now may move it
      record_promises(chunk);
    preempting.serve_late(view, shadows, now, chunk);
    if (!view.awaits_nodes())  // or somebody would make room for what has room there in a moment
      preempting.search(
          view, shadows, now, [&](std::uint32_t i) { return view.briefs()[i].blocked_pass == pass; }, chunk);
    if (settings.defragment && !view.has_proposals() && !view.awaits_nodes())
      preempting.defragment(view, shadows, now, settings.move_after, chunk);
    if (!view.changed && !view.arrived && !moves(chunk) && !view.awaits_nodes())
      growing.grow(view, shadows, now, chunk);
  }

  void foresee(Instant now, std::uint64_t units, PlanChunk& chunk) {
    const bool due = !forecast.running() && forecast.stale(view) && !forecast.deep_first(now);
    if (due || forecast.void_now(view))
      forecast.begin(view, shadows, now);
    forecast.step(view, now, units, chunk.notes);
  }
};

Planner::Planner() : Planner(PlannerSettings{}) {}
Planner::Planner(PlannerSettings settings) : inner_(std::make_unique<Inner>()) { inner_->settings = settings; }
Planner::~Planner() = default;
Planner::Planner(Planner&&) noexcept = default;
Planner& Planner::operator=(Planner&&) noexcept = default;

void Planner::observe(std::span<const Change> changes) {
  for (const Change& change : changes) {
    inner_->view.observe(change);
    inner_->preempting.observe(change);
    if (inner_->growing.observe(change))
      inner_->view.changed = true;
    if (const auto* job = std::get_if<Ref<Job>>(&change.record);
        inner_->settings.defragment && job && (*job)->state == JobState::kRunning && (*job)->checkpointed)
      inner_->view.changed = true;  // to move it loses less
  }
}

// One slice: what is due by itself, those who have just come, then as much of the pass as the budget allows; the
// forecast when there is nothing else to do.
PlanChunk Planner::plan(Instant now, PlanBudget budget) {
  Inner& in = *inner_;
  PlannerView& view = in.view;
  PlanChunk chunk;
  chunk.at = now;
  const std::uint64_t units = kTry * budget.jobs;
  in.advance(now);
  if (view.packing().due() && !view.has_proposals())
    chunk.packings.push_back(view.packing().next(view));
  in.preempting.serve(view, in.shadows, now, chunk);
  in.looked = 0;
  const bool in_pass = in.in_pass();
  if (in.tries_at_once())
    in.express(now, budget, !in_pass, chunk);
  view.fresh.clear();
  if (!chunk.starts.empty() && !in_pass) {
    chunk.more = true;
    return chunk;
  }
  in.begin_due_pass();
  const bool walked = in.in_pass();
  if (in.scanning)
    in.scan(units);
  if (walked && !in.scanning)
    in.walk(now, budget, chunk);
  if (walked && !in.in_pass())
    in.end_pass(now, chunk);
  if (!in.in_pass() && chunk.empty())
    in.foresee(now, units, chunk);
  chunk.notes.insert(chunk.notes.begin(), view.withdrawn.begin(), view.withdrawn.end());
  view.withdrawn.clear();
  chunk.more = !idle();
  return chunk;
}

void Planner::settled() {
  inner_->preempting.settled();
  inner_->promises_out.clear();
  inner_->growing.settled(inner_->view);
  if (inner_->view.drop_proposals())
    inner_->retry_at = std::min(inner_->retry_at, inner_->view.now() + kRetryRefused);
}

bool Planner::idle() const {
  const Inner& in = *inner_;
  return !in.in_pass() && !in.view.changed && !in.view.arrived && in.view.withdrawn.empty() && !in.forecast.running() &&
         !in.forecast.stale(in.view);
}

Instant Planner::wake_at() const {
  Instant at = std::min(
      {inner_->view.next_release(), inner_->retry_at, inner_->forecast.deep_due(), inner_->preempting.wake_at()});
  if (inner_->growing.any())
    at = std::min(at, inner_->view.next_boundary());
  for (const Shadow& shadow : inner_->shadows.all())
    at = std::min({at, shadow.overdue() ? kNever : shadow.at, shadow.binds() ? kNever : shadow.binds_at});
  return at;
}

Instant Planner::expected_start(JobId job) const {
  if (const Instant start = inner_->preempting.kept_until(inner_->view, job))
    return start;
  const SlotNo s = inner_->view.find(job);
  if (s == kNoSlot || !inner_->view.slot(s).queued)
    return {};
  if (const Shadow* shadow = inner_->shadows.of_job(job))
    return shadow->at == kNever ? Instant{} : shadow->at;
  return Instant{std::int64_t{inner_->view.slot(s).promised_min} * 60'000'000};
}

}  // namespace lockstep
