// PackView: what packing knows, kept beside the planner's view. The committed record and the prices made from it; the
// jobs it does not count yet; and the nodes by room, so that a request is priced once for all nodes with the same left.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "model/change.h"
#include "model/plan.h"
#include "sched/packing.h"
#include "sched/shape.h"

namespace lockstep {

class PlannerView;

class PackView {
 public:
  // Changes of jobs and of the record.
  void observe(const Change& change);
  void touched(NodeId id);  // what it has, what is free on it or whether it can be used may be different

  // Whether the planner should ask for the next record; false once asked, until something new is observed.
  bool due() const { return !asked_ && came_.size() >= jobs_for_record(record_.get()); }
  // The next record, from what is committed: nothing proposed may be in the view.
  PlannedPacking next(PlannerView& view);

  // Whether a request may be placed by price, as of now. Brings rooms and prices up to date.
  bool ready(PlannerView& view);
  bool priced(const ClassNeed& need) const;  // the class too
  // False: some group that could be priced fits on no node now.
  bool may_have_room(PlannerView& view, const Way& way);

  static constexpr std::uint32_t kNoSpot = UINT32_MAX;  // the node is in no spot: it cannot be priced

 private:
  friend class PackSearch;

  struct Member {
    std::uint64_t place = 0;  // among equals: place_of_name()
    std::uint32_t node = 0;
    friend auto operator<=>(const Member&, const Member&) = default;
  };
  // Nodes of a class with the same room.
  struct Spot {
    ClassNo cls = 0;
    FreeAmounts free;  // devices that are whole, cores
    PackRoom room;     // the devices with something left, those with the most first; memory 0
    std::set<Member> nodes;
    std::uint64_t stamp = 0;  // changes whenever sum or value do; 0: there is no sum yet
    PackPrices::Row sum{};
    float value = 0;
  };
  struct Known {
    std::uint64_t stamp = 0;  // of the spot
    PackCost cost;
  };
  // Of a class in kinds_, beside the number of its model.
  static constexpr std::int16_t kUnpriced = -2, kNoDevices = -1;

  void refresh(PlannerView& view);
  void look_at_classes(PlannerView& view);
  void look_at(PlannerView& view, std::uint32_t node);
  void leave(std::uint32_t node);
  void join(Member member, ClassNo cls, const PackRoom& room);
  const PackCost& cost(std::uint32_t spot, const PackShape& shape, std::vector<Known>& known);
  std::vector<Known>& known_of(const PackShape& shape) { return known_[shape]; }
  struct GroupAsk {
    PackRequest request;
    std::uint32_t members = 0;
  };
  GroupAsk ask_of(PlannerView& view, const std::vector<std::vector<GroupWay>>& ways, std::size_t g,
                  const GroupSpec& group) const;
  void count_job(PlannerView& view, const JobSpec& spec, std::int64_t elements, PackArrivals& out);

  PackSettings settings_;
  Ref<Packing> record_;
  struct Came {
    Ref<JobSpec> spec;
    std::uint32_t elements = 1;
  };
  std::map<JobId, Came> came_;  // listed jobs that ask for devices and that the record does not count
  bool asked_ = false;

  PackGround ground_;
  std::vector<std::int16_t> kinds_;  // by class
  std::uint64_t layout_ = 0, laid_out_ = 0, generation_ = 0;
  std::vector<NodeId> touched_;
  bool all_touched_ = true;

  std::vector<Spot> spots_;
  std::vector<std::uint32_t> free_spots_, spot_of_node_;
  std::vector<std::uint64_t> place_of_node_;  // as it joined its spot
  std::map<std::pair<ClassNo, PackRoom>, std::uint32_t> spot_at_;
  std::vector<std::vector<std::uint32_t>> by_class_;

  std::optional<PackPrices> prices_;
  std::map<PackShape, std::vector<Known>> known_;  // by spot
  std::uint64_t stamp_ = 0;
};

// The nodes of some classes that have room for a request, those where it costs least first: by weight of the node, then
// cost, then number. (The fullest of those that cost the same was worse: large nodes were broken early.)
class PackSearch {
 public:
  // The view must be ready().
  PackSearch(PlannerView& view, std::span<const ClassNeed> needs);

  struct Found {
    NodeId node;
    const ClassNeed* need = nullptr;
    std::uint16_t from = 0;  // of a share: what is free on the device to take
  };
  std::optional<Found> next();

 private:
  struct Entry {
    std::uint32_t weight = 0;
    std::int64_t cost = 0;
    std::set<PackView::Member>::const_iterator at, end;
    const ClassNeed* need = nullptr;
    std::uint16_t from = 0;
  };
  static bool later(const Entry& a, const Entry& b) {
    return std::tie(a.weight, a.cost, *a.at) > std::tie(b.weight, b.cost, *b.at);
  }
  std::vector<Entry> heap_;
};

}  // namespace lockstep
