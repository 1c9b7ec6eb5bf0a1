#include "sched/defrag.h"

#include <algorithm>
#include <map>

#include "model/job.h"
#include "rules/fit.h"
#include "sched/place.h"

namespace lockstep {

namespace {

constexpr int kAttemptsMost = 8;  // to find other jobs where one of them finds no place

// Room that is free now, with some of it given away.
class Room {
 public:
  Room(PlannerView& view, const Shadows& shadows, const OrderKey& head) : view_(view), shadows_(shadows), head_(head) {}

  void give(const std::vector<Grant>& grants) {
    for (const Grant& grant : grants) {
      const auto [load, fresh] = loads_.try_emplace(grant.node);
      if (fresh)
        load->second = view_.nodes()[grant.node.value].load;
      add_grant(load->second, grant);
    }
  }

  // Where the running job could start anew, limits counted as if it had ended.
  std::optional<std::vector<Grant>> place_for(const Job& job) {
    Shape shape(KeyOfSlot{});
    shape.spec = job.spec;
    std::vector<Way>& ways = view_.ways(shape);
    const auto whole = std::find_if(ways.begin(), ways.end(), [&](const Way& w) {
      return w.open && view_.partitions()[w.partition]->meta.name == job.allocation->partition;
    });
    if (whole == ways.end())
      return std::nullopt;
    const std::optional<Way> narrowed = view_.open_way(*job.spec, *whole, view_.now());
    const Way& way = narrowed ? *narrowed : *whole;
    const Instant end = way.limit >= kForever ? kNever : view_.now() + way.limit;
    Avoid avoid = shadows_.avoid_for(view_.key_of(job), end, end);
    for (std::size_t i = 0; i < avoid.size(); ++i)
      if (shadows_.all()[i].key == head_)
        avoid[i] = false;  // it starts elsewhere, and now
    const auto load = [&](NodeId id) -> const NodeLoad* {
      const NodeSlot& slot = view_.nodes()[id.value];
      if (!slot.node || !node_usable(*slot.node))
        return nullptr;
      if (slot.shaded && shadows_.seen(id, slot.load, avoid) != slot.load)
        return nullptr;
      const auto given = loads_.find(id);
      return given == loads_.end() ? &slot.load : &given->second;
    };
    auto grants = place_where(view_, *job.spec, way, load);
    if (!grants || !view_.admission().bounded())
      return grants;
    view_.admission().index(&job, nullptr);
    const bool barred = view_.bar(*job.spec, way, &*grants).has_value();
    view_.admission().index(nullptr, &job);
    if (barred)
      return std::nullopt;
    return grants;
  }

 private:
  PlannerView& view_;
  const Shadows& shadows_;
  const OrderKey head_;
  std::map<NodeId, NodeLoad> loads_;
};

class MoveSearch {
 public:
  MoveSearch(PlannerView& view, const JobSpec& spec, const Way& way, const std::vector<const Job*>& going,
             const Shadows& shadows, const OrderKey& key, std::int64_t most)
      : view_(view), spec_(spec), way_(way), going_(going), shadows_(shadows), key_(key), most_(most) {
    const Instant end = way.limit >= kForever ? kNever : view.now() + way.limit;
    avoid_ = shadows.avoid_for(key, end, end);
  }

  // Finds those that have to move, and a new place for each. stuck: set to one that finds no place; null: the attempt
  // fails for a different reason.
  std::optional<Moves> attempt(const std::vector<Victim>& among, const Job** stuck) {
    *stuck = nullptr;
    auto choice = choose_victims(view_, spec_, way_, among, going_, shadows_, avoid_);
    if (!choice || choice->victims.empty() || choice->victims.size() > kMovesMost || choice->loss.work >= most_ ||
        view_.bar(spec_, way_, &choice->grants))
      return std::nullopt;
    std::vector<const Job*> jobs;
    for (const JobId id : choice->victims)
      jobs.push_back(std::find_if(among.begin(), among.end(), [&](const Victim& v) { return v.job->id == id; })->job);
    // The largest first: it finds room least easily.
    std::stable_sort(jobs.begin(), jobs.end(), [](const Job* a, const Job* b) {
      return size_milli(a->allocation->grants) > size_milli(b->allocation->grants);
    });
    Room room(view_, shadows_, key_);
    room.give(choice->grants);
    Moves out{.grants = std::move(choice->grants), .moved = {}, .loss = choice->loss};
    for (const Job* job : jobs) {
      auto grants = room.place_for(*job);
      if (!grants) {
        *stuck = job;
        return std::nullopt;
      }
      room.give(*grants);
      out.moved.push_back({job->id, std::move(*grants)});
    }
    std::sort(out.moved.begin(), out.moved.end(),
              [](const Moves::One& a, const Moves::One& b) { return a.job < b.job; });
    return out;
  }

 private:
  PlannerView& view_;
  const JobSpec& spec_;
  const Way& way_;
  const std::vector<const Job*>& going_;
  const Shadows& shadows_;
  const OrderKey key_;
  const std::int64_t most_;
  Avoid avoid_;
};

}  // namespace

std::optional<Moves> find_moves(PlannerView& view, const JobSpec& spec, const Way& way,
                                const std::vector<Victim>& movable, const std::vector<const Job*>& going,
                                const Shadows& shadows, const OrderKey& key, std::int64_t most) {
  MoveSearch search(view, spec, way, going, shadows, key, most);
  const Job* stuck = nullptr;
  std::optional<Moves> best;
  if (movable.size() <= kMovesAll)
    for (const Victim& victim : movable)
      if (!best || victim.loss < best->loss)
        if (auto found = search.attempt({victim}, &stuck))
          best = std::move(found);
  std::vector<Victim> left = movable;
  for (int i = 0; i < kAttemptsMost && !left.empty(); ++i) {
    auto found = search.attempt(left, &stuck);
    if (found && (!best || found->loss < best->loss))
      best = std::move(found);
    if (!stuck)
      break;
    std::erase_if(left, [&](const Victim& v) { return v.job == stuck; });
  }
  return best;
}

}  // namespace lockstep
