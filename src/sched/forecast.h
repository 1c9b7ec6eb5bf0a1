// Forecast: a start time for every queued job, by walking the queue in its order over the calendar. What it says binds
// nobody; the heads' shadows do. It is made anew from the whole queue whenever something it depends on has changed, so
// it is a function of the view and the moment it was begun.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "sched/calendar.h"
#include "sched/place.h"
#include "sched/scalars.h"

namespace lockstep {

class Forecast {
 public:
  // Something it depends on differs from what the running or last finished one was made from.
  bool stale(const PlannerView& view) const;
  bool running() const { return running_; }
  // Classes or partitions are not those it was begun with: it cannot go on.
  bool void_now(const PlannerView& view) const { return (running_ || deep_waits_) && layout_ != view.layout; }
  // What lies behind the first kNear jobs of the queue is gone through when there is nothing else to do, at most every
  // kDeepEvery; from when on, kNever: not needed.
  Instant deep_due() const { return deep_waits_ ? deep_at_ : kNever; }
  // It has been put off so often that it should be let to its end.
  bool deep_first(Instant now) const { return deep_waits_ && now >= deep_at_ && deep_put_off_ >= 8; }

  void begin(PlannerView& view, const Shadows& shadows, Instant now);
  // Goes on for about so many units of work; a job is a few. Notes are those whose time or reason changed enough to
  // matter. With the near part done it goes on behind it, if that is due.
  void step(PlannerView& view, Instant now, std::uint64_t units, std::vector<PlanNote>& notes);

  const Calendar& calendar() const { return calendar_; }

 private:
  struct Head {
    JobId job;
    PartitionNo partition = 0;
    std::uint32_t minute = 0;
  };
  struct Spot {
    Column column = kNoColumn;
    std::vector<Demand> demands;
  };
  using Closed = std::vector<std::pair<Column, Column>>;  // columns, sorted, apart
  // What bounds the jobs of a shape beside nodes.
  struct Bounds {
    std::uint64_t pass = 0;  // for which the rest holds
    bool never = false;      // neither time nor the end of others changes it
    std::uint32_t from_min = 0;
    std::vector<ScalarCalendar::Part> parts;
    bool own_closed = false;  // its nodes are closed at other times than those of anybody are
    std::vector<std::pair<ClassNo, const Closed*>> closed;
    // What parts were made for.
    Ref<JobSpec> spec;
    std::uint64_t rules = 0;
    PartitionNo partition = kNoPartition;
  };
  bool is_bounded(const PlannerView& view, const ShapeBrief& brief) const;
  void foresee(PlannerView& view, JobSlot& slot, std::uint64_t& used, std::vector<PlanNote>& notes);
  struct Choice {
    Way* way = nullptr;  // null: there is no room within the grid
    std::uint32_t minutes = 0;
    Spot spot;
  };
  Choice first_spot(PlannerView& view, Shape& shape, const Head* head, Column settled, const Bounds& bounds);
  std::uint64_t side_by_side(Spot& spot, Column to, std::uint64_t members, const Bounds& bounds) const;
  void promise(PlannerView& view, JobSlot& slot, const Head* head, const Bounds& bounds);
  void promise_counted(JobSlot& slot, ShapeBrief& brief, const Bounds& bounds);
  static const Way* way_through(PlannerView& view, Shape& shape, std::optional<Bar>& bar);
  void close_own(PlannerView& view, Shape& shape, Bounds& out);
  Bounds& bounds_of(PlannerView& view, std::uint32_t shape, std::uint64_t& used);
  struct Held {
    ScalarCalendar::Pool pool = 0;
    std::string resource;  // "": see amount
    std::int64_t Tres::*amount = nullptr;
  };
  const std::vector<Held>& held_by(PlannerView& view, const JobSpec& spec, const std::string& partition);
  void count_running(PlannerView& view);
  void make_parts(PlannerView& view, const JobSpec& spec, const Way& way, Bounds& out);
  const Closed& closed_to(PlannerView& view, const JobSpec& spec, ClassNo cls);
  void close_classes(PlannerView& view);
  static std::uint64_t await_named(PlannerView& view, const JobSpec& spec, Bounds& out);
  // The end of the last span that overlaps [from, to); `from` if none does.
  Column closed_until(const Bounds& bounds, ClassNo cls, Column from, Column to) const;
  // Calendar::earliest(), and not while the class is closed.
  Column earliest(const Demand& demand, Column from, std::uint32_t minutes, const Bounds& bounds) const;
  Spot bounded_spot(PlannerView& view, const Way& way, Column from, std::uint32_t minutes, const Bounds& bounds) const;
  Spot spot_for(PlannerView& view, const Way& way, Column from, std::uint32_t minutes, const Bounds& bounds) const;
  Spot spot_of_group(PlannerView& view, const GroupWay& group, Column from, std::uint32_t minutes,
                     const Bounds& bounds) const;
  void book(const Spot& spot, Column to);
  void tell(PlannerView& view, JobSlot& slot, bool never, std::vector<PlanNote>& notes) const;
  bool moved(const JobSlot& slot) const;  // whether its start did, by enough to be told again
  const Head* head_of(const JobSlot& slot) const;

  Calendar calendar_;
  ScalarCalendar scalars_;
  std::vector<Bounds> bounds_;  // by shape
  // By class, as of begun_: the columns in which reservations close it to every job that names none. null: they never
  // do, or one of them draws jobs, and then closed_to() asks for each job.
  std::vector<const Closed*> closed_to_all_;
  std::vector<bool> draws_;  // by class: a reservation there draws jobs, so who asks matters
  bool draw_ = false;        // any reservation, in any class
  bool closes_ = false;      // any class, at any time
  // By class, and by who asks where that matters, as of begun_.
  std::map<std::tuple<ClassNo, std::string, UserId, std::string, std::string>, Closed> closed_;
  std::uint64_t rules_ = 0;  // of the view, for which scalars_ has pools
  std::map<std::tuple<std::string, std::string, UserId, std::string>, std::vector<Held>> held_;  // of those pools
  std::vector<Head> heads_;
  bool running_ = false;
  bool deep_waits_ = false;  // what lies behind the near part is not gone through yet
  std::uint32_t deep_put_off_ = 0;
  Instant begun_, deep_at_;
  std::uint32_t now_min_ = 0;
  std::uint64_t pass_ = 0, seen_ = 0;
  OrderKey cursor_;
  std::uint64_t room_sum_ = 0, queue_sum_ = 0, generation_ = 0, layout_ = 0, bounds_seen_ = 0;
};

}  // namespace lockstep
