// A pass looks at one job of every shape in the order of rank: what fits is proposed, what does not closes its shape
// for this pass, since room only shrinks until something is freed. The first blocked job of a partition casts a shadow
// on the nodes it will start on (EASY backfill). Between passes only new jobs are looked at.
#include "sched/planner.h"

#include <algorithm>
#include <deque>

#include "base/check.h"
#include "sched/place.h"

namespace lockstep {

namespace {

constexpr Duration kRetryRefused = seconds(1);
constexpr std::size_t kNotesMax = 2000;    // first notes told in one slice
constexpr std::uint32_t kRestartsMax = 4;  // of an unfinished pass, so that its tail is reached under constant change

struct Entry {
  OrderKey key;
  std::uint32_t shape = 0;
  friend auto operator<=>(const Entry&, const Entry&) = default;
};

}  // namespace

struct Planner::Inner {
  PlannerView view;
  std::vector<Entry> active;  // heap, lowest key on top: the next job of every open shape; stale entries are corrected
  std::uint64_t pass = 1;
  std::uint32_t restarts = 0;
  std::uint64_t looked = 0;               // in this slice, in sixteenths: a look at what cannot fit costs little
  std::map<std::string, Shadow> shadows;  // by partition
  std::set<JobId> heads_told;             // jobs with a note as a partition's head
  std::deque<JobId> untold;               // new jobs that may need a first note
  Instant retry_at = kNever;

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

  void begin_pass() {
    ++pass;
    shadows.clear();
    active.clear();
    for (std::uint32_t i = 0; i < view.shapes().size(); ++i)
      if (!view.shapes()[i].jobs.empty())
        active.push_back({*view.shapes()[i].jobs.begin(), i});
    std::make_heap(active.begin(), active.end(), std::greater<>{});
    view.freed = view.loaded = false;
  }

  // Whether a shadow would fall differently now.
  bool shadows_moved(Instant now) {
    for (const auto& [name, shadow] : shadows) {
      const JobSlot* slot = view.slot(shadow.key.job);
      const auto partition = view.partitions().find(name);
      if (!slot || !slot->queued || partition == view.partitions().end())
        return true;
      const auto moved = place_later(view, *slot, *partition->second, now);
      if (!moved || !moved->same_as(shadow))
        return true;
    }
    return false;
  }

  void tell(JobSlot& slot, Wait wait, const std::string& detail, const Shadow* shadow, PlanChunk& chunk) {
    const Instant start = shadow && shadow->at != kNever ? shadow->at : Instant{};
    if (slot.told == wait && slot.told_detail == detail && slot.told_start == start)
      return;
    slot.told = wait;
    slot.told_detail = detail;
    slot.told_start = start;
    chunk.notes.push_back({slot.job->id, wait, detail, start, start ? shadow->ids : std::vector<NodeId>{}});
  }

  // The note of every job of a blocked shape, heads apart.
  void tell_shape(Shape& shape, Wait wait, const std::string& detail, PlanChunk& chunk) {
    if (shape.told == wait && shape.told_detail == detail)
      return;
    shape.told = wait;
    shape.told_detail = detail;
    for (const OrderKey& key : shape.jobs)
      if (!is_head(key.job))
        tell(*view.slot(key.job), wait, detail, nullptr, chunk);
  }

  bool is_head(JobId job) const {
    return std::any_of(shadows.begin(), shadows.end(), [&](const auto& s) { return s.second.key.job == job; });
  }

  void start(JobSlot& slot, const Partition& partition, std::vector<Grant> grants, Instant end, PlanChunk& chunk) {
    PlannedStart planned{.job = slot.job->id,
                         .is_element = slot.job->array != nullptr,
                         .read = slot.job->meta.seq,
                         .partition = partition.meta.name,
                         .grants = std::move(grants)};
    if (planned.is_element)
      planned.array_index = slot.unplanned.front();
    view.propose(planned, end);
    chunk.starts.push_back(std::move(planned));
  }

  // express: a new job tried out of turn, in the middle of a pass; it must not close a shape or cast a shadow.
  Verdict consider(JobSlot& slot, Instant now, bool express, PlanChunk& chunk) {
    ++looked;
    if (slot.refused || view.throttled(slot) || (slot.job->array && slot.unplanned.empty()))
      return Verdict::kSkipped;
    Shape& shape = view.shapes()[slot.shape];
    const JobSpec& spec = *slot.job->spec;
    if (shape.generation != view.generation)
      looked += 48;
    if (never_starts(view, shape) != Wait::kNone)
      return Verdict::kBlocked;
    const std::vector<const Partition*> partitions = view.partitions_of(spec);
    const bool worth_a_look = may_fit(view, spec);
    looked += worth_a_look ? 16 : 1;
    for (const Partition* partition : partitions) {
      if (!worth_a_look)
        break;
      const Duration limit = limit_in(spec, *partition);
      if (!partition->up || limit > partition->time_max)
        continue;
      const Instant end = limit >= kForever ? kNever : now + limit;
      std::vector<const Shadow*> avoid;
      for (const auto& [name, shadow] : shadows)
        if (shadow.key < slot.key && (end > shadow.at || end == kNever))
          avoid.push_back(&shadow);
      if (auto grants = place_now(view, spec, *partition, avoid)) {
        view.freed = view.freed || outranks_a_head(slot);
        start(slot, *partition, std::move(*grants), end, chunk);
        return Verdict::kStarted;
      }
    }
    if (!express)
      cast_shadow(slot, partitions, now);
    return Verdict::kBlocked;
  }

  void cast_shadow(const JobSlot& slot, const std::vector<const Partition*>& partitions, Instant now) {
    for (const Partition* partition : partitions) {
      if (!partition->up)
        continue;
      const auto head = shadows.find(partition->meta.name);
      if (head != shadows.end() && head->second.key <= slot.key)
        return;  // its first way is already someone else's
      if (head != shadows.end()) {
        view.freed = true;  // it outranks the head: the others are looked at again behind it
        shadows.erase(head);
      }
      if (auto shadow = place_later(view, slot, *partition, now)) {
        shadows.emplace(partition->meta.name, std::move(*shadow));
        return;
      }
    }
  }

  void walk(Instant now, const PlanBudget& budget, PlanChunk& chunk) {
    looked = 0;
    while (!active.empty() && looked < 16ull * budget.jobs && chunk.starts.size() < budget.starts) {
      const Entry entry = pop();
      Shape& shape = view.shapes()[entry.shape];
      if (shape.blocked_pass == pass)
        continue;
      const auto at = shape.jobs.lower_bound(entry.key);
      if (at == shape.jobs.end())
        continue;
      if (*at != entry.key) {
        push({*at, entry.shape});
        continue;
      }
      JobSlot& slot = *view.slot(entry.key.job);
      const Verdict verdict = consider(slot, now, false, chunk);
      if (verdict == Verdict::kBlocked) {
        shape.blocked_pass = pass;
        tell_shape(shape, shape.never == Wait::kNone ? Wait::kPriority : shape.never, shape.detail, chunk);
        continue;
      }
      // The shape may have lost its last job; then it is empty.
      Shape& after = view.shapes()[entry.shape];
      const auto next =
          verdict == Verdict::kStarted ? after.jobs.lower_bound(entry.key) : after.jobs.upper_bound(entry.key);
      if (next != after.jobs.end())
        push({*next, entry.shape});
    }
  }

  // It starts or waits ahead of a head, so that the shadow falls differently and all are looked at again.
  bool outranks_a_head(const JobSlot& slot) const {
    return std::any_of(shadows.begin(), shadows.end(), [&](const auto& s) { return slot.key < s.second.key; });
  }

  // Newly queued jobs join the pass; if it is long they are tried at once.
  void welcome(bool in_pass) {
    for (const JobId id : view.fresh) {
      const JobSlot* slot = view.slot(id);
      if (!slot || !slot->queued)
        continue;
      if (!in_pass && view.shapes()[slot->shape].blocked_pass != pass)
        push({slot->key, slot->shape});
      if (outranks_a_head(*slot))
        view.freed = true;
    }
  }

  void express(Instant now, const PlanBudget& budget, PlanChunk& chunk) {
    std::vector<JobSlot*> slots;
    for (const JobId id : view.fresh)
      if (JobSlot* slot = view.slot(id); slot && slot->queued && view.shapes()[slot->shape].blocked_pass != pass)
        slots.push_back(slot);
    std::sort(slots.begin(), slots.end(), [](const JobSlot* a, const JobSlot* b) { return a->key < b->key; });
    slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
    std::set<std::uint32_t> tried;
    looked = 0;
    for (JobSlot* slot : slots) {
      if (looked >= 16ull * budget.jobs || chunk.starts.size() >= budget.starts || view.free().empty())
        return;
      if (tried.contains(slot->shape))
        continue;
      const std::uint32_t shape = slot->shape;
      if (consider(*slot, now, true, chunk) == Verdict::kBlocked)
        tried.insert(shape);
    }
  }

  void tell_heads(PlanChunk& chunk) {
    std::set<JobId> heads;
    for (const auto& [name, shadow] : shadows) {
      if (JobSlot* slot = view.slot(shadow.key.job); slot && slot->queued) {
        tell(*slot, Wait::kResources, {}, &shadow, chunk);
        heads.insert(shadow.key.job);
      }
    }
    for (const JobId id : heads_told)
      if (JobSlot* slot = view.slot(id); slot && slot->queued && !heads.contains(id)) {
        const Shape& shape = view.shapes()[slot->shape];
        tell(*slot, shape.told == Wait::kNone ? Wait::kPriority : shape.told, shape.told_detail, nullptr, chunk);
      }
    heads_told = std::move(heads);
    untold.insert(untold.end(), view.fresh.begin(), view.fresh.end());
    for (std::size_t i = 0; i < kNotesMax && !untold.empty(); ++i, untold.pop_front())
      if (JobSlot* slot = view.slot(untold.front());
          slot && slot->queued && slot->told == Wait::kNone && !slot->refused) {
        const Shape& shape = view.shapes()[slot->shape];
        tell(*slot, shape.told == Wait::kNone ? Wait::kPriority : shape.told, shape.told_detail, nullptr, chunk);
      }
  }
};

Planner::Planner() : inner_(std::make_unique<Inner>()) {}
Planner::~Planner() = default;
Planner::Planner(Planner&&) noexcept = default;
Planner& Planner::operator=(Planner&&) noexcept = default;

void Planner::observe(std::span<const Change> changes) {
  for (const Change& change : changes) inner_->view.observe(change);
}

PlanChunk Planner::plan(Instant now, Rng&, PlanBudget budget) {
  Inner& in = *inner_;
  PlannerView& view = in.view;
  PlanChunk chunk{.at = now};
  view.advance(now);
  if (now >= in.retry_at) {
    in.retry_at = kNever;
    view.clear_refused();
    view.freed = true;
  }
  for (const auto& [name, shadow] : in.shadows)
    if (!shadow.overdue() && now >= shadow.at)
      view.freed = true;  // a running job overstays: the shadow moves
  const bool in_pass = !in.active.empty();
  if (!view.freed && view.loaded && !in_pass) {
    view.loaded = false;
    view.freed = in.shadows_moved(now);
  }
  in.welcome(in_pass);
  if (view.freed && (!in_pass || in.restarts < kRestartsMax)) {
    in.restarts = in_pass ? in.restarts + 1 : 0;
    in.begin_pass();
  }
  in.walk(now, budget, chunk);
  if (!in.active.empty())
    in.express(now, budget, chunk);
  in.tell_heads(chunk);
  view.fresh.clear();
  chunk.notes.insert(chunk.notes.begin(), view.withdrawn.begin(), view.withdrawn.end());
  view.withdrawn.clear();
  chunk.more = !idle();
  return chunk;
}

void Planner::settled() {
  if (inner_->view.drop_proposals())
    inner_->retry_at = std::min(inner_->retry_at, inner_->view.now() + kRetryRefused);
}

bool Planner::idle() const {
  const PlannerView& view = inner_->view;
  return inner_->active.empty() && !view.freed && view.fresh.empty() && view.withdrawn.empty() &&
         inner_->untold.empty() && !(view.loaded && !inner_->shadows.empty());
}

Instant Planner::wake_at() const {
  Instant at = std::min(inner_->view.next_release(), inner_->retry_at);
  for (const auto& [name, shadow] : inner_->shadows)
    if (!shadow.overdue())
      at = std::min(at, shadow.at);
  return at;
}

}  // namespace lockstep
