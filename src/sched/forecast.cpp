#include "sched/forecast.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "rules/fit.h"
#include "rules/tres.h"
#include "sched/fetch.h"

namespace lockstep {

namespace {

constexpr std::uint64_t kNear = 100'000;      // jobs gone through after every change
constexpr Duration kDeepEvery = minutes(1);   // for those behind them
constexpr std::uint64_t kUnitsPerJob = 2;     // of a slice's budget of work
constexpr std::size_t kNotesMax = 2000;       // told in one slice
constexpr std::uint32_t kArrayBookings = 32;  // of one array: the rest of a long one is not foreseen
constexpr std::uint32_t kToldApart = 20;      // a start is told again when it moves by this part of the wait

// UINT32_MAX: without end.
std::uint32_t minutes_of(Duration limit) {
  return limit >= kForever ? UINT32_MAX : std::max(1u, minute_after(Instant{limit.us}));
}

void note_bar(Shape& shape, const std::optional<Bar>& bar) {
  const Wait why = bar ? bar->wait : Wait::kNone;
  std::string detail = bar ? bar->detail : std::string();
  if (why == shape.barred && detail == shape.detail)
    return;
  shape.barred = why;
  shape.detail = std::move(detail);
  ++shape.reason;
}

}  // namespace

bool Forecast::stale(const PlannerView& view) const {
  if (view.queued() == 0)
    return false;
  return room_sum_ != view.room_sum || queue_sum_ != view.queue_sum || generation_ != view.generation ||
         bounds_seen_ != view.bounds;
}

void Forecast::begin(PlannerView& view, const Shadows& shadows, Instant now) {
  running_ = true;
  deep_put_off_ += deep_waits_ && now >= deep_at_;
  deep_waits_ = false;
  ++pass_;
  begun_ = now;
  now_min_ = static_cast<std::uint32_t>(now.us / 60'000'000);
  seen_ = 0;
  room_sum_ = view.room_sum;
  queue_sum_ = view.queue_sum;
  generation_ = view.generation;
  layout_ = view.layout;
  bounds_seen_ = view.bounds;
  calendar_.begin(now, view.classes());
  if (rules_ != view.rules) {
    scalars_.forget();
    held_.clear();
  }
  rules_ = view.rules;
  scalars_.begin(now);
  close_classes(view);
  if (view.admission().counts())
    count_running(view);
  heads_.clear();
  for (const Shadow& shadow : shadows.all())
    heads_.push_back({shadow.key.job, shadow.partition, minute_after(shadow.at)});
}

const Forecast::Head* Forecast::head_of(const JobSlot& slot) const {
  for (const Head& head : heads_)
    if (head.job == slot.key.job)
      return &head;
  return nullptr;
}

// Whether something beside the counts of nodes may bound the jobs of the shape.
bool Forecast::is_bounded(const PlannerView& view, const ShapeBrief& brief) const {
  if (brief.kind == ShapeBrief::Kind::kNever)
    return false;
  if (brief.names_nodes)
    return true;
  const Admission& admission = view.admission();
  return admission.bounded() && (!brief.plain || brief.barred || draw_ || admission.bars_all() || admission.reserves());
}

// Books one job of the queue and tells its time. used: raised by the units it cost.
void Forecast::foresee(PlannerView& view, JobSlot& slot, std::uint64_t& used, std::vector<PlanNote>& notes) {
  static const Bounds kNone;
  ShapeBrief& brief = view.briefs()[slot.shape];
  used += kUnitsPerJob;
  if (brief.judged != view.generation)
    judge(view, slot.shape, used);
  const Head* head = head_of(slot);
  slot.promised_min = 0;
  const bool bounded = is_bounded(view, brief);
  used += bounded;
  const Bounds& bounds = bounded ? bounds_of(view, slot.shape, used) : kNone;
  const bool never = brief.kind == ShapeBrief::Kind::kNever;
  if (brief.kind == ShapeBrief::Kind::kCounted && !slot.array && !head && !bounds.never &&
      std::find(brief.alone, brief.alone + brief.needs, true) != brief.alone + brief.needs)
    promise_counted(slot, brief, bounds);
  else if (!never && !bounds.never)
    promise(view, slot, head, bounds);
  if (!head)
    tell(view, slot, never, notes);
}

void Forecast::step(PlannerView& view, Instant now, std::uint64_t units, std::vector<PlanNote>& notes) {
  if (!running_ && !(deep_waits_ && now >= deep_at_))
    return;
  const bool near = running_;
  bool all = true;
  std::uint64_t used = 0;
  const auto go = [&](SlotNo s) {
    if (near && seen_ >= kNear)
      return false;
    if (used >= units || notes.size() >= kNotesMax) {
      all = false;
      return false;
    }
    JobSlot& slot = view.slot(s);
    foresee(view, slot, used, notes);
    cursor_ = slot.key;
    ++seen_;
    return true;
  };
  // Most of the time would go into waiting for memory: slots and shapes lie in it in no order.
  const auto ahead = [&](const SlotNo* next) {
    fetch(&view.slot(next[JobOrder::kAhead - 1]), sizeof(JobSlot));
    const std::uint32_t soon = view.slot(next[JobOrder::kAhead / 2 - 1]).shape;
    fetch(&view.briefs()[soon], sizeof(ShapeBrief));
    fetch(&view.shapes()[soon].never, 1);
  };
  view.queue().each_after(cursor_, seen_ == 0, go, ahead);
  if (!all)
    return;
  running_ = false;
  deep_waits_ = near && view.queued() > seen_;
  if (!deep_waits_) {
    deep_put_off_ = 0;
    deep_at_ = begun_ + kDeepEvery;
  }
}

// The pools that a running job of the spec takes from.
const std::vector<Forecast::Held>& Forecast::held_by(PlannerView& view, const JobSpec& spec, const std::string& where) {
  const auto [it, fresh] = held_.try_emplace({spec.qos, spec.account, spec.user, where});
  if (!fresh)
    return it->second;
  for (const auto& partition : view.partitions())
    if (partition->meta.name == where)
      for (const SharedBound& b : shared_bounds(view.admission().directory(), spec, partition.get())) {
        const auto field = std::find_if(std::begin(kTresFields), std::end(kTresFields),
                                        [&](const TresField& f) { return f.name == b.resource; });
        const bool named = field == std::end(kTresFields);
        it->second.push_back({scalars_.pool(b.holder + "|" + b.resource, b.bound), named ? b.resource : "",
                              named ? nullptr : field->count});
      }
  return it->second;
}

// What running jobs hold of what others may not exceed, until they end.
void Forecast::count_running(PlannerView& view) {
  const Directory& directory = view.admission().directory();
  std::unordered_map<const JobSpec*, std::vector<std::pair<const std::string*, const std::vector<Held>*>>> known;
  view.each_use([&](const JobSpec& spec, const std::string& where, const Tres& tres, Instant end) {
    auto& of_spec = known[&spec];
    auto at = std::find_if(of_spec.begin(), of_spec.end(), [&](const auto& k) { return *k.first == where; });
    if (at == of_spec.end())
      at = of_spec.insert(at, {&where, &held_by(view, spec, where)});
    for (const Held& held : *at->second)
      scalars_.hold(held.pool,
                    held.amount               ? tres.*held.amount
                    : held.resource == "jobs" ? 1
                                              : count_of(tres, held.resource),
                    end);
    for (const NamedCount& other : tres.others)
      if (other.name.starts_with("license/"))
        if (const Licence* licence = directory.licence(other.name.substr(8)))
          scalars_.hold(scalars_.pool(other.name, licence->total), other.count, end);
  });
}

// What a job of the spec takes of what is shared, and of which pools.
void Forecast::make_parts(PlannerView& view, const JobSpec& spec, const Way& way, Bounds& out) {
  const Directory& directory = view.admission().directory();
  out.parts.clear();
  const Tres tres = view.least_on(spec, way);
  for (const SharedBound& b : shared_bounds(directory, spec, view.partitions()[way.partition].get()))
    if (const std::int64_t amount = b.resource == "jobs" ? 1 : count_of(tres, b.resource); amount > 0)
      out.parts.push_back({scalars_.pool(b.holder + "|" + b.resource, b.bound), amount});
  for (const NamedCount& other : tres.others)
    if (other.name.starts_with("license/"))
      if (const Licence* licence = directory.licence(other.name.substr(8)))
        out.parts.push_back({scalars_.pool(other.name, licence->total), other.count});
}

// When reservations close the class to the job.
const Forecast::Closed& Forecast::closed_to(PlannerView& view, const JobSpec& spec, ClassNo number) {
  const Admission& admission = view.admission();
  const std::vector<std::string>& kept_by = view.classes()[number].kept_by;
  // Who asks matters only to reservations that are named, or that draw jobs.
  const auto [at, fresh] = spec.reservation.empty() && !draws_[number]
                               ? closed_.try_emplace({number, "", UserId{}, "", ""})
                               : closed_.try_emplace({number, spec.reservation, spec.user, spec.account, spec.qos});
  if (!fresh)
    return at->second;
  const WallTime from = admission.wall_at(begun_), to = admission.wall_at(calendar_.grid().start(TimeGrid::columns()));
  for (const Span& span : admission.closed_to(spec, kept_by, from, to)) {
    const Instant begin = admission.of_wall(span.from), end = admission.of_wall(span.to);
    at->second.emplace_back(
        calendar_.grid().at_or_before(static_cast<std::uint32_t>(std::max<std::int64_t>(0, begin.us) / 60'000'000)),
        calendar_.grid().at_or_after(minute_after(end)));
  }
  return at->second;
}

void Forecast::close_classes(PlannerView& view) {
  const Admission& admission = view.admission();
  closed_.clear();
  closes_ = draw_ = false;
  draws_.assign(view.classes().size(), false);
  closed_to_all_.assign(view.classes().size(), nullptr);
  if (!admission.reserves())
    return;
  for (ClassNo c = 0; c < view.classes().size(); ++c) {
    const std::vector<std::string>& kept_by = view.classes()[c].kept_by;
    draws_[c] = std::any_of(kept_by.begin(), kept_by.end(), [&](const auto& name) {
      const Reservation* r = admission.directory().reservation(name);
      return r && r->magnetic;
    });
    draw_ = draw_ || draws_[c];
    static const JobSpec kAnybody;
    if (const Closed* closed = kept_by.empty() || draws_[c] ? nullptr : &closed_to(view, kAnybody, c);
        closed && !closed->empty()) {
      closed_to_all_[c] = closed;
      closes_ = true;
    }
  }
}

// The first way on which nothing bars the shape, else the first that is open; null: there is none. bar: what bars it
// there, or on the last way that was asked.
const Way* Forecast::way_through(PlannerView& view, Shape& shape, std::optional<Bar>& bar) {
  const Way* first = nullptr;
  for (const Way& way : view.ways(shape)) {
    if (!way.open || !way.possible)
      continue;
    bar = view.bar_on(shape, way);
    if (!bar)
      bar = view.reserved(*shape.spec, way);
    if (!bar)
      return &way;
    first = first ? first : &way;
  }
  return first;
}

// When the classes of a shape are closed to it, where that is not when they are closed to everybody.
void Forecast::close_own(PlannerView& view, Shape& shape, Bounds& out) {
  const JobSpec& spec = *shape.spec;
  const auto drawn = [&](const ClassNeed& need) { return draws_[need.cls]; };
  for (const Way& way : view.ways(shape))
    for (const GroupWay& group : way.groups)
      out.own_closed =
          out.own_closed || !spec.reservation.empty() || std::any_of(group.needs.begin(), group.needs.end(), drawn);
  if (!out.own_closed)
    return;
  for (const Way& way : view.ways(shape))
    for (const GroupWay& group : way.groups)
      for (const ClassNeed& need : group.needs) {
        const auto same = [&](const auto& known) { return known.first == need.cls; };
        if ((view.classes()[need.cls].kept_by.empty() && spec.reservation.empty()) ||
            std::any_of(out.closed.begin(), out.closed.end(), same))
          continue;
        if (const Closed& columns = closed_to(view, spec, need.cls); !columns.empty())
          out.closed.emplace_back(need.cls, &columns);
      }
}

// What bounds the jobs of a shape beside the counts of nodes, worked out once in a forecast.
Forecast::Bounds& Forecast::bounds_of(PlannerView& view, std::uint32_t number, std::uint64_t& used) {
  if (bounds_.size() <= number)
    bounds_.resize(number + 1);
  Bounds& out = bounds_[number];
  if (out.pass == pass_)
    return out;
  out.pass = pass_;
  out.never = false;
  out.from_min = 0;
  out.own_closed = false;
  out.closed.clear();
  Shape& shape = view.shapes()[number];
  const Admission& admission = view.admission();
  std::optional<Bar> bar;
  const Way* way = way_through(view, shape, bar);
  note_bar(shape, bar);
  view.briefs()[number].barred = shape.barred != Wait::kNone;
  if (!way) {
    out.spec = nullptr;
    out.parts.clear();
    return out;
  }
  if (bar) {
    out.never = bar->lasting;
    if (bar->until)
      out.from_min = minute_after(admission.of_wall(bar->until));
  }
  if (view.briefs()[number].names_nodes)
    used += await_named(view, *shape.spec, out);
  if (out.spec != shape.spec || out.rules != rules_ || out.partition != way->partition) {
    out.spec = shape.spec;
    out.rules = rules_;
    out.partition = way->partition;
    out.parts.clear();
    if (admission.counts())
      make_parts(view, *shape.spec, *way, out);
  }
  for (const ScalarCalendar::Part& part : out.parts) scalars_.use(part.pool);
  close_own(view, shape, out);
  return out;
}

// Counts over classes do not tell which nodes have room: those that it must have, have none before what runs there
// ends. Who else waits for them is not foreseen. Returns what that cost, in units.
std::uint64_t Forecast::await_named(PlannerView& view, const JobSpec& spec, Bounds& out) {
  std::uint64_t cost = 0;
  std::vector<const Holder*> last_first;
  for (const GroupSpec& group : spec.groups) {
    if (group.nodes.max > 0 && group.nodes.max < group.only_nodes.size())
      continue;  // some of them are enough
    for (const std::string& name : group.only_nodes) {
      const NodeSlot* slot = view.slot_named(name);
      ++cost;
      if (!slot)
        continue;
      last_first.clear();
      for (const Holder& holder : slot->holders) last_first.push_back(&holder);
      std::sort(last_first.begin(), last_first.end(), [](const Holder* a, const Holder* b) { return a->end > b->end; });
      // Added up and not taken off: holders overlap where a place is held for one while others still make room.
      NodeLoad load;
      for (const Holder* holder : last_first) {
        add_grant(load, *holder->grant);
        ++cost;
        if (tasks_that_fit(*slot->node, load, group) > 0)
          continue;
        out.never = out.never || holder->end >= kNever;
        if (holder->end < kNever)
          out.from_min = std::max(out.from_min, minute_after(holder->end));
        break;
      }
    }
  }
  return cost;
}

Column Forecast::closed_until(const Bounds& bounds, ClassNo cls, Column from, Column to) const {
  const Closed* closed = nullptr;
  if (!bounds.own_closed)
    closed = closed_to_all_[cls];
  else
    for (const auto& [number, columns] : bounds.closed)
      if (number == cls)
        closed = columns;
  if (!closed)
    return from;
  Column next = from;
  for (const auto& [begin, end] : *closed)
    if (begin < to && end > next)
      next = end;
  return next;
}

Column Forecast::earliest(const Demand& demand, Column from, std::uint32_t minutes, const Bounds& bounds) const {
  for (;;) {
    const Column c = calendar_.earliest(demand, from, minutes);
    if (c == kNoColumn || (bounds.own_closed ? bounds.closed.empty() : !closes_))
      return c;
    const Column next = closed_until(bounds, demand.pool, c, calendar_.grid().end_of(c, minutes));
    if (next == c)
      return c;
    if (next >= TimeGrid::columns())
      return kNoColumn;
    from = next;
  }
}

Forecast::Spot Forecast::bounded_spot(PlannerView& view, const Way& way, Column from, std::uint32_t minutes,
                                      const Bounds& bounds) const {
  if (bounds.from_min > 0)
    from = std::max(from, calendar_.grid().at_or_after(bounds.from_min));
  while (from < TimeGrid::columns()) {
    Spot spot = spot_for(view, way, from, minutes, bounds);
    if (spot.column == kNoColumn || bounds.parts.empty())
      return spot;
    from = scalars_.earliest(bounds.parts, spot.column, minutes);
    if (from == spot.column)
      return spot;
  }
  return {};
}

void Forecast::promise_counted(JobSlot& slot, ShapeBrief& brief, const Bounds& bounds) {
  if (brief.forecast_pass != pass_) {
    brief.forecast_pass = pass_;
    brief.column = 1;
  }
  Column from = brief.column, column = kNoColumn;
  if (bounds.from_min > 0)
    from = std::max(from, calendar_.grid().at_or_after(bounds.from_min));
  const Demand* best = nullptr;
  while (from < TimeGrid::columns()) {
    column = kNoColumn;
    for (unsigned n = 0; n < brief.needs && column != from; ++n) {
      if (!brief.alone[n])
        continue;
      const Column found = earliest(brief.demands[n], from, brief.minutes, bounds);
      if (found < column) {
        column = found;
        best = &brief.demands[n];
      }
    }
    if (column == kNoColumn || bounds.parts.empty())
      break;
    from = scalars_.earliest(bounds.parts, column, brief.minutes);
    if (from == column)
      break;
    column = kNoColumn;
  }
  brief.column = column;
  if (column == kNoColumn)
    return;
  const Column to = calendar_.grid().end_of(column, brief.minutes);
  calendar_.book(*best, column, to);
  scalars_.book(bounds.parts, column, to);
  slot.promised_min = calendar_.grid().start_min(column);
}

// Where a member of the job starts first. A head's time is settled on exact nodes: its first member only takes its part
// at `settled`, which is kNoColumn for all others.
Forecast::Choice Forecast::first_spot(PlannerView& view, Shape& shape, const Head* head, Column settled,
                                      const Bounds& bounds) {
  static const Bounds kUnbounded{.own_closed = true};
  const bool is_settled = settled != kNoColumn;
  Choice best;
  for (Way& way : view.ways(shape)) {
    if (!way.open || !way.possible || (is_settled && head->partition != way.partition))
      continue;
    const std::uint32_t minutes = minutes_of(way.limit);
    Spot found = bounded_spot(view, way, is_settled ? settled : way.column, minutes, is_settled ? kUnbounded : bounds);
    if (found.column != kNoColumn && (!best.way || found.column < best.spot.column))
      best = {&way, minutes, std::move(found)};
  }
  return best;
}

// How many members of an array start side by side in the spot, whose demand grows by as much.
std::uint64_t Forecast::side_by_side(Spot& spot, Column to, std::uint64_t members, const Bounds& bounds) const {
  if (members <= 1 || spot.demands.size() != 1 || !bounds.parts.empty())
    return 1;
  Demand& demand = spot.demands[0];
  const std::int32_t most = calendar_.most(demand, spot.column, to);
  const auto times = std::clamp<std::uint64_t>(static_cast<std::uint64_t>(most / demand.nodes), 1, members);
  demand.nodes *= static_cast<std::int32_t>(times);
  return times;
}

// Books the first members of the job, one after the other, and notes when the first of them starts.
void Forecast::promise(PlannerView& view, JobSlot& slot, const Head* head, const Bounds& bounds) {
  Shape& shape = view.shapes()[slot.shape];
  if (shape.forecast_pass != pass_) {
    shape.forecast_pass = pass_;
    for (Way& way : view.ways(shape)) way.column = 1;
  }
  // The column in which a head's minute, rounded up, may have begun.
  Column settled =
      head ? std::max<Column>(1, calendar_.grid().at_or_before(std::max(head->minute, 1u) - 1)) : kNoColumn;
  std::uint64_t members = view.elements(slot);
  for (std::uint32_t round = 0; members > 0 && round < kArrayBookings; ++round) {
    Choice best = first_spot(view, shape, head, settled, bounds);
    if (!best.way)
      break;
    Column to = 0;
    if (settled != kNoColumn) {
      // From the column its time lies in to the one its end lies in, whether the counts allow it or not.
      best.spot.column = settled;
      to = std::max(settled + 1, calendar_.grid().end_after(head->minute, best.minutes));
      settled = kNoColumn;
    } else {
      best.way->column = best.spot.column;
      to = calendar_.grid().end_of(best.spot.column, best.minutes);
    }
    const std::uint64_t times = head ? 1 : side_by_side(best.spot, to, members, bounds);
    book(best.spot, to);
    scalars_.book(bounds.parts, best.spot.column, to);
    if (round == 0)
      slot.promised_min = head ? head->minute : calendar_.grid().start_min(best.spot.column);
    members -= times;
  }
}

void Forecast::book(const Spot& spot, Column to) {
  for (const Demand& demand : spot.demands) calendar_.book(demand, spot.column, to);
}

// The first column in which the group fits: into one class if any is large enough alone, else spread over all of them.
Forecast::Spot Forecast::spot_of_group(PlannerView& view, const GroupWay& group, Column from, std::uint32_t minutes,
                                       const Bounds& bounds) const {
  Spot best;
  bool wide = true;  // no class is large enough alone
  for (const ClassNeed& need : group.needs) {
    const AlikeNodes& cls = view.classes()[need.cls];
    if (cls.usable < need.nodes)
      continue;
    wide = false;
    const Demand demand = demand_of(need, cls);
    const Column column = earliest(demand, from, minutes, bounds);
    if (column < best.column)
      best = {column, {demand}};
    if (column == from)
      break;
  }
  if (!wide || group.needs.empty())
    return best;
  std::vector<Demand> demands;
  std::uint64_t usable = 0;
  for (const ClassNeed& need : group.needs) {
    demands.push_back(demand_of(need, view.classes()[need.cls]));
    usable += view.classes()[need.cls].usable;
  }
  if (usable < group.nodes)
    return best;
  for (Column c = from; c < TimeGrid::columns(); ++c) {
    const Column to = calendar_.grid().end_of(c, minutes);
    std::int64_t left = group.nodes;
    Spot spot{c, {}};
    for (Demand demand : demands) {
      if (left <= 0)
        break;
      if (closed_until(bounds, demand.pool, c, to) != c)
        continue;
      demand.nodes = static_cast<std::int32_t>(std::min<std::int64_t>(left, calendar_.most(demand, c, to)));
      if (demand.nodes <= 0)
        continue;
      spot.demands.push_back(demand);
      left -= demand.nodes;
    }
    if (left <= 0)
      return spot;
  }
  return best;
}

Forecast::Spot Forecast::spot_for(PlannerView& view, const Way& way, Column from, std::uint32_t minutes,
                                  const Bounds& bounds) const {
  if (way.groups.size() == 1)
    return spot_of_group(view, way.groups[0], from, minutes, bounds);
  // Groups that start together are counted in whole nodes, so that those of one class simply add up.
  Spot all{from, {}};
  for (const GroupWay& group : way.groups) {
    const Spot spot = spot_of_group(view, group, from, minutes, bounds);
    if (spot.column == kNoColumn)
      return spot;
    for (Demand demand : spot.demands) {
      demand.takes_node = true;
      const auto same =
          std::find_if(all.demands.begin(), all.demands.end(), [&](const Demand& d) { return d.pool == demand.pool; });
      const auto usable = static_cast<std::int32_t>(view.classes()[demand.pool].usable);
      if (same == all.demands.end())
        all.demands.push_back(demand);
      else
        same->nodes = std::min(same->nodes + demand.nodes, usable);
    }
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (const Demand& demand : all.demands) {
      const Column column = earliest(demand, all.column, minutes, bounds);
      if (column == kNoColumn)
        return {};
      moved = moved || column != all.column;
      all.column = column;
    }
  }
  return all;
}

bool Forecast::moved(const JobSlot& slot) const {
  const std::uint32_t by = std::max(slot.told_min, slot.promised_min) - std::min(slot.told_min, slot.promised_min);
  const std::uint32_t wait = slot.promised_min > now_min_ ? slot.promised_min - now_min_ : 0;
  return by != 0 && (slot.told_min <= now_min_ || slot.promised_min == 0 || by > wait / kToldApart);
}

void Forecast::tell(PlannerView& view, JobSlot& slot, bool never, std::vector<PlanNote>& notes) const {
  if (slot.refused)
    return;
  const Shape& shape = view.shapes()[slot.shape];
  const Wait wait = never ? shape.never : shape.barred != Wait::kNone ? shape.barred : Wait::kPriority;
  const bool same_reason = slot.told == wait && (wait == Wait::kPriority || slot.told_reason == shape.reason);
  if (same_reason && !moved(slot))
    return;
  slot.told = wait;
  slot.told_min = slot.promised_min;
  slot.told_reason = shape.reason;
  notes.push_back({.job = slot.key.job,
                   .wait = wait,
                   .detail = wait == Wait::kPriority ? std::string() : shape.detail,
                   .expected_start = Instant{std::int64_t{slot.promised_min} * 60'000'000}});
}

}  // namespace lockstep
