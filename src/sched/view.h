// PlannerView: what the planner knows of the cluster, brought forward change by change: nodes by class and by what is
// free on them, what running jobs give back and when, partitions, and the queue in its order and grouped by shape. Jobs
// of one shape ask for the same thing, so what does not fit for one of them does not fit for the others.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/change.h"
#include "model/job.h"
#include "model/plan.h"
#include "rules/fit.h"
#include "rules/neighbours.h"
#include "sched/admission.h"
#include "sched/domains.h"
#include "sched/job_index.h"
#include "sched/pack_view.h"
#include "sched/shape.h"
#include "sched/tally.h"

namespace lockstep {

// The order in which jobs are considered: partition tier, priority, rank among equals, id. Smaller goes first.
struct OrderKey {
  std::uint64_t band = 0;  // tier and priority, packed and inverted: tier up to 2^16 - 1, priority up to 2^48 - 1
  std::int64_t rank = 0;
  JobId job;
  friend auto operator<=>(const OrderKey&, const OrderKey&) = default;
};

struct Holder {
  const Grant* grant = nullptr;
  Instant end;    // expected, by its limit; kNever
  Instant since;  // start
  Duration predicted;
  // By prediction. What has outlived its own is taken to go on for half of what it ran.
  Instant likely_end(Instant now) const {
    const Instant likely = since + predicted;
    return std::min(end,
                    likely > now || predicted.us <= 0 ? (predicted.us > 0 ? likely : end) : now + (now - since) / 2);
  }
};

struct NodeSlot {
  Ref<Node> node;  // null: no such node
  NodeLoad load;   // the sum of holders: running and proposed
  std::vector<Holder> holders;
  std::uint64_t version = 0;  // of what the node has and whether it can be used; 0 = it cannot
  ClassNo cls = kNoClass;
  DomainNo domain = kWholeCluster;  // on which it hangs directly
  bool listed = false;              // in an index of its class
  bool shaded = false;              // a head waits for it
  bool overlaps = false;            // holders hold the same: what is held for a job that others still make room for
  std::uint64_t place = 0;          // among equals: place_of_name()
  FreeAmounts free;                 // as listed: now
  FreeAmounts kept;                 // as listed, shaded: for a job that would outlast every head's wait
};

inline constexpr std::uint32_t kNoShape = UINT32_MAX;  // the job is not queued

// What bars the jobs of a shape on a way, as of the last look.
struct KnownBar {
  PartitionNo partition = 0;
  Duration limit;
  std::uint64_t rules = 0;  // PlannerView::rules for which tally is valid
  Tally* tally = nullptr;
  std::uint64_t version = 0;  // of the tally
  std::optional<Bar> bar;
};

struct JobSlot {
  Ref<Job> job;
  OrderKey key;
  Instant end;  // while it holds an allocation: when it is expected to be gone
  std::uint32_t shape = kNoShape;
  std::uint32_t promised_min = 0;  // expected start in minutes of cluster time, 0 = none
  std::uint32_t told_min = 0;      // the same, as last told
  std::uint32_t told_reason = 0;   // number of the shape's reason, as last told
  Wait told = Wait::kNone;
  bool queued = false;                  // in the order and in its shape's jobs
  bool array = false, element = false;  // what the job is, so that the record need not be looked at
  bool refused = false;                 // the core refused its last start: not again before retry or the next change
  bool head = false;                    // told as the head of a partition
};

struct KeyOfSlot {
  const std::vector<JobSlot>* slots = nullptr;
  const OrderKey& operator()(SlotNo s) const { return (*slots)[s].key; }
};
using JobOrder = SlotOrder<KeyOfSlot>;

struct Shape {
  explicit Shape(KeyOfSlot key_of) : jobs(key_of) {}
  Ref<JobSpec> spec;  // of one of its jobs; only what matters for placement is the same in all
  std::size_t hash = 0;
  JobOrder jobs;
  std::vector<Way> compiled_ways;  // see PlannerView::ways()
  std::uint64_t compiled = 0;      // view.layout for which they were made
  Wait never = Wait::kNone;        // why it could not start even if nothing ran; kNone: it could
  std::uint32_t reason = 0;        // counts changes of the reason: `never`, or else `barred`, and `detail`
  std::string detail;
  Wait barred = Wait::kNone;                              // by what, nodes aside; as of the last look
  std::vector<std::pair<NodeId, std::uint64_t>> witness;  // empty, these nodes in these versions would do
  std::uint64_t witness_layout = 0;
  std::uint64_t forecast_pass = 0;  // for which Way::column counts
  std::vector<KnownBar> bars;       // by way
};

inline constexpr PartitionNo kNoPartition = UINT32_MAX;  // it could start in none

// The little of a shape that every cycle looks at, side by side in memory for all shapes.
struct ShapeBrief {
  enum class Kind : unsigned char {
    kNever,    // it could not start even if nothing ran
    kCounted,  // one way, one group, at most kNeeds classes: counting nodes decides
    kOther,
  } kind = Kind::kOther;
  unsigned char needs = 0;
  static constexpr std::size_t kNeeds = 4;
  bool alone[kNeeds] = {};   // the class is large enough for the whole gang
  bool plain = false;        // names neither a licence nor a reservation
  bool names_nodes = false;  // that it must have
  bool barred = false;       // as Shape::barred says
  std::uint32_t jobs = 0;    // queued
  std::uint64_t judged = 0;  // view.generation for which the rest holds
  std::uint64_t layout = 0;
  std::uint64_t parked = 0;              // gain clock when it fitted nowhere, heads aside; 0 = not known
  std::uint64_t blocked_pass = 0;        // the pass in which it was found not to fit
  std::uint64_t forecast_pass = 0;       // for which column counts
  std::uint32_t column = 0;              // in the running forecast: jobs of the shape start no earlier
  std::uint32_t minutes = 0;             // it may run
  PartitionNo partition = kNoPartition;  // where its first job would be head
  std::uint32_t milli[kNeeds] = {};      // amounts beside what the demands say
  std::int64_t memory_mb[kNeeds] = {};
  Demand demands[kNeeds];
};

class PlannerView {
 public:
  PlannerView();
  PlannerView(const PlannerView&) = delete;  // the orders point at the slots
  PlannerView& operator=(const PlannerView&) = delete;

  void observe(const Change& change);

  // Starts proposed and not yet answered count as taken.
  void propose(const PlannedStart& start, Instant end);
  bool drop_proposals();  // all that the core has not committed; false if there were none
  void propose(const PlannedGrowth& growth);
  void drop_growths();
  bool any_refused() const { return !refused_.empty(); }
  bool has_proposals() const { return !proposals_.empty(); }
  bool proposed(JobId id) const { return proposals_.contains({id}); }

  // Jobs whose delay is over join the queue.
  void advance(Instant now);
  Instant now() const { return now_; }
  // When time alone changes something: a delay or a reservation's window is over, priorities are to be looked at.
  Instant next_release() const;
  Instant next_boundary() const { return boundary_; }  // when a reservation may open nodes; kNever
  void clear_refused();

  // Jobs.
  SlotNo find(JobId id) const { return slot_of_.find(id); }
  JobSlot& slot(SlotNo s) { return slots_[s]; }
  const JobSlot& slot(SlotNo s) const { return slots_[s]; }
  const JobOrder& queue() const { return queue_; }
  OrderKey key_of(const Job& job) const;  // of a waiting job
  // What it takes of nodes: its allocation, or the memory of one that is paused.
  const std::vector<Grant>& held_grants(const Job& job) const;
  std::size_t queued() const { return queued_; }
  bool skipped(const JobSlot& slot) const;  // not to be started now: refused, throttled, every element proposed
  std::uint32_t next_element(const JobSlot& slot) const;  // of an array: the element to start
  std::uint64_t elements(const JobSlot& slot) const;      // of an array: how many wait; else 1

  // What else bounds starts. bar: why the job may not start on the way now, whatever is free; with grants, there.
  Admission& admission() { return admission_; }
  const Admission& admission() const { return admission_; }
  std::optional<Bar> bar(const JobSpec& spec, const Way& way, const std::vector<Grant>* grants = nullptr);
  // The least that a place on the way counts for: whole nodes count with all they have, whichever they will be.
  Tres least_on(const JobSpec& spec, const Way& way) const { return least_on(spec, way, nullptr); }
  // The way without the classes whose nodes would count for more than the job may have; nullopt: there are none.
  // asked: raised by the bars that were asked for it.
  std::optional<Way> allowed_way(const JobSpec& spec, const Way& way, std::size_t& asked);
  // The same as bar() without grants for jobs of a shape on one of its ways, worked out only where something has
  // changed. Valid until the next call.
  const std::optional<Bar>& bar_on(Shape& shape, const Way& way);
  // The way without the classes that reservations close to the job over [from, from + limit); nullopt: none are.
  std::optional<Way> open_way(const JobSpec& spec, const Way& way, Instant from) const;
  // The bar of reservations, where those leave the way too few nodes for a job that would start now; lasting: they
  // always will, since one of them comes again sooner than the job would be over.
  std::optional<Bar> reserved(const JobSpec& spec, const Way& way) const;
  // f(spec, partition, tres, end) for everything that counts against limits: allocations and starts proposed.
  template <class F>
  void each_use(F&& f) const {
    for (const auto& [id, s] : holding_)
      f(*slots_[s].job->spec, slots_[s].job->allocation->partition, slots_[s].job->allocation->tres, slots_[s].end);
    for (const auto& [key, proposal] : proposals_)
      if (proposal.spec)
        f(*proposal.spec, proposal.partition, proposal.tres, proposal.limit_end);
  }
  // Running jobs' use, for Admission.
  std::vector<RunningUse> running_use() const;
  // Brings priorities up to date; true if the order changed.
  bool rank_again(Instant now);

  const std::set<JobId>& promised() const { return promised_; }  // in the queue, with a promise that holds nothing yet

  // Shapes. ways: of one, brought up to date with classes and partitions.
  std::vector<Shape>& shapes() { return shapes_; }
  std::vector<Way>& ways(Shape& shape);
  std::vector<Way>& ways(std::uint32_t shape) { return ways(shapes_[shape]); }
  // What the job asks for now: its bound on switches may be over.
  // What has a scope is seen by its labels, which are its own.
  const JobSpec& asked_of(const JobSlot& slot) const {
    return slot.job->spec->scope.empty() ? *shapes_[slot.shape].spec : *slot.job->spec;
  }
  std::vector<ShapeBrief>& briefs() { return briefs_; }  // of shapes(), in the same order
  // Brings the counts of a brief forward to the classes there are now, without looking at its shape; false: it must be.
  bool follow(ShapeBrief& brief) const;

  // Nodes.
  std::vector<NodeSlot>& nodes() { return nodes_; }  // by NodeId
  const NodeSlot* slot_named(const std::string& name) const;
  std::deque<AlikeNodes>& classes() { return classes_; }
  const std::deque<AlikeNodes>& classes() const { return classes_; }
  const std::vector<Ref<Partition>>& partitions() const { return partitions_; }
  std::vector<PartitionNo> partitions_of(const JobSpec& spec) const;
  const Tres& cluster();  // all there is
  const DomainTree& domains() const { return domains_; }
  // True while nodes are about to answer: they may have room in a moment, and waiting jobs wait for that.
  bool awaits_nodes() const { return !awaited_since_.empty() && now_ < awaits_until(); }
  Instant awaits_until() const;                  // when jobs stop waiting for those nodes; kNever: none is to answer
  bool by_domain() const { return by_domain_; }  // AlikeNodes::at_domain is kept: some nodes lie on switches
  // A class lists its shaded nodes apart. A job that would run when the heads start must fit beside the load `kept`.
  void shade(NodeId id, const NodeLoad& kept);
  void unshade(NodeId id);

  PackView& packing() { return packing_; }
  const Neighbours& neighbours() const { return neighbours_; }  // proposals count too

  // Clock of nodes whose load, holders' ends or state changed, and when each last did.
  std::uint64_t touch_clock() const { return touch_clock_; }
  std::uint64_t touched_at(NodeId id) const { return touched_[id.value]; }

  // What happened since the planner looked last; it resets them.
  bool changed = true;              // something that a pass depends on, beside
  bool arrived = false;             // jobs that have just been submitted
  std::vector<JobId> fresh;         // newly queued
  std::vector<PlanNote> withdrawn;  // jobs that wait no longer but had a note

  std::uint64_t generation = 1;  // of nodes that can be used, and of partitions
  std::uint64_t layout = 1;      // of classes and partitions
  // The layout since when only single classes have come, and nodes have moved between classes.
  std::uint64_t laid_out() const { return laid_out_; }
  std::uint64_t gains = 1;   // clock of nodes getting freer
  std::uint64_t bounds = 1;  // counts changes of what bounds starts beside nodes
  std::uint64_t rules = 1;   // of the records among it: not of what was spent, nor of windows that begin and end
  // Sums over what a forecast depends on, the same however the view came to be: equal sums, equal forecast.
  std::uint64_t room_sum = 0, queue_sum = 0;

 private:
  void put_job(const Ref<Job>& job, bool removed);
  struct JobStep;
  bool answer_proposals(const Job& job, bool removed);
  JobStep step_to(const Ref<Job>& job, bool removed, SlotNo s);
  void take_out(SlotNo s, const JobStep& step);
  void put_in_slot(SlotNo s, const Ref<Job>& job);
  void hold_allocation(JobSlot& slot, bool same_grants, bool relabelled);
  void withdraw_note(JobSlot& slot);
  void queue_or_rest(SlotNo s, const JobStep& step);
  void put_node(const Ref<Node>& record, bool removed);
  void set_node(const Ref<Node>& node, bool removed);
  void name_node(const Node& node, bool removed);
  void put_partition(const Ref<Partition>& partition, bool removed);
  Ref<Partition> put_in_list(const Ref<Partition>& partition, bool removed);
  void classify(NodeSlot& slot);
  void leave_class(NodeSlot& slot);
  void enqueue(SlotNo s, bool came = false);
  void dequeue(SlotNo s);
  void hold_all(const std::vector<Grant>& grants, Instant end, Instant since, Duration predicted);
  void release_all(const std::vector<Grant>& grants);
  void move_end(const std::vector<Grant>& grants, Instant end);
  void unlist(NodeSlot& slot);
  void list(NodeSlot& slot, NodeId id);
  void gain(const NodeSlot& slot);  // jobs that what is free there may help are looked at again
  void count_room(NodeSlot& slot, int by);
  void add_room(ClassNo number, std::uint32_t minute, const Room& room, int by);
  FreeAmounts free_of(const NodeSlot& slot, const NodeLoad& load) const;
  NodeSlot& node_slot(NodeId node);
  void reorder();
  void reorder_served(const Priorities& before);
  void move_in_order(const std::vector<SlotNo>& moved);
  void lay_out();               // any class or partition may be different from now on
  void lay_out_class(ClassNo);  // only this one is: it is new, or the smallest of its nodes became smaller
  void compile_anew(Shape& shape);
  void classify_all();
  void begin_ledger();
  void keep_apart(const std::vector<std::string>& names);
  void renew_examples();
  // One group on one class of those that the way has for it; null: on any.
  struct OnClass {
    std::size_t group = 0;
    const ClassNeed* need = nullptr;
  };
  Tres counted_on(const ClassNeed& need) const;  // at least, by one node of the class
  Tres least_on(const JobSpec& spec, const Way& way, const OnClass* only) const;
  std::optional<Bar> bar(const JobSpec& spec, const Way& way, const std::vector<Grant>* grants, const OnClass* only);
  void note_record(const Change& change);
  void put_topology(const Ref<Topology>& topology);
  void list_by_domain();
  void count_at_domain(const NodeSlot& slot, int by);
  void touch(NodeId id) {
    touched_[id.value] = ++touch_clock_;
    packing_.touched(id);
  }
  std::uint32_t shape_of(const Ref<JobSpec>& spec);
  std::uint64_t queue_mark(const JobSlot& slot) const;
  SlotNo new_slot(JobId id);
  void free_slot(SlotNo s);

  std::vector<NodeSlot> nodes_;
  std::vector<std::uint64_t> touched_;  // by NodeId
  std::uint64_t touch_clock_ = 0;
  std::unordered_map<std::string, NodeId> node_named_;
  std::deque<AlikeNodes> classes_;
  std::uint64_t laid_out_ = 1;
  std::vector<std::pair<std::uint64_t, ClassNo>> classes_laid_;  // since laid_out_: as of which layout
  std::uint32_t shaded_ = 0;                                     // nodes
  std::vector<Ref<Partition>> partitions_;                       // by name
  DomainTree domains_;
  struct Awaited {  // a node that is to answer: all of it is held for that long
    Instant since;
    std::vector<Grant> all_of_it;
  };
  std::map<NodeId, Awaited> awaited_;
  std::multiset<Instant> awaited_since_;  // of each
  bool by_domain_ = false;
  std::vector<std::string> levels_;                        // of the topology, outermost first
  std::vector<std::set<std::string, std::less<>>> named_;  // nodes by name, per partition; {"ALL"}

  std::vector<JobSlot> slots_;
  std::vector<SlotNo> free_slots_;
  SlotOfJob slot_of_;
  JobOrder queue_{KeyOfSlot{&slots_}};
  std::size_t queued_ = 0;
  std::size_t following_ = 0;                     // of these, those that another job's start may let in
  std::set<std::pair<Instant, JobId>> later_;     // delayed jobs
  std::set<std::pair<Instant, JobId>> switches_;  // queued ones that wait for few switches: until when
  std::vector<Shape> shapes_;
  std::vector<ShapeBrief> briefs_;
  std::unordered_multimap<std::size_t, std::uint32_t> shape_index_;
  std::vector<std::uint32_t> free_shapes_;
  std::set<JobId> refused_, promised_;
  std::map<JobId, SlotNo> holding_;             // jobs with an allocation
  std::map<JobId, std::vector<Grant>> paused_;  // suspended jobs: what they still hold

  struct ArraySide {
    IntervalSet unplanned;       // waiting elements without a proposal
    std::uint32_t proposed = 0;  // starts of it or of its elements that the core has not answered
  };
  std::map<JobId, ArraySide> arrays_;

  struct ProposalKey {
    JobId job;
    bool is_element = false;
    std::uint32_t index = 0;
    friend auto operator<=>(const ProposalKey&, const ProposalKey&) = default;
  };
  struct Proposal {
    std::vector<Grant> grants;
    JobId array;  // whose throttle it counts against
    // What it counts for against limits; no spec: nothing.
    Ref<JobSpec> spec;
    std::string partition;
    Tres tres;
    Instant now, limit_end;
    Claim claim() const { return {spec.get(), partition, &tres, limit_end, now, &grants}; }
  };
  void forget_proposal(const ProposalKey& key);
  struct Growth {
    std::vector<Grant> grants;
    Proposal before, after;  // what the job counts for; no spec: nothing
  };
  void forget_growth(JobId id);
  std::map<JobId, Growth> growths_;
  std::map<ProposalKey, Proposal> proposals_;
  Instant now_;

  PackView packing_;
  Neighbours neighbours_;
  Admission admission_;
  Tallies tallies_;
  std::uint64_t tallies_rules_ = 0;
  std::optional<Tres> cluster_;             // of all nodes; nullopt: to be summed up
  bool usage_moved_ = false;                // since priorities were worked out
  std::optional<Bar> bar_now_;              // bar_on
  std::unique_ptr<Priorities> priorities_;  // null: those of the records count
  Instant ranked_as_of_ = kNever;           // kNever: to be worked out anew
  std::uint32_t most_partition_ = 0;
  Instant boundary_ = kNever;  // when a reservation may open nodes next; kNever: none will
};

// Takes a grant out of a load that may count overlapping ones.
void remove_grant(NodeLoad& load, const Grant& grant);

// The time limit the job would run under in the partition.
Duration limit_in(const JobSpec& spec, const Partition& partition);

// Minute of cluster time, rounded up; the calendar's unit. 0 for any moment before the first.
std::uint32_t minute_after(Instant at);

}  // namespace lockstep
