// Placing a whole job: every group or nothing, on the nodes of one partition; now, when running jobs have ended, or on
// an empty cluster.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "sched/shadow.h"

namespace lockstep {

// False when counting nodes says that the job cannot start now: a look at a few tables.
bool may_fit(PlannerView& view, const Way& way, const Shadows& shadows, const Avoid& avoid);

// Whether where other jobs are matters to the job, or where it would rather be.
bool minds_neighbours(const PlannerView& view, const JobSpec& spec);
// It may not be anywhere, or not be there.
bool must_mind_neighbours(const PlannerView& view, const JobSpec& spec);

// On what is free now, in order of preference. predicted: run time, so that nodes fall idle together; 0 = not known.
// Leaves the view as it was.
std::optional<std::vector<Grant>> place_now(PlannerView& view, const JobSpec& spec, const Way& way,
                                            const Shadows& shadows, const Avoid& avoid, Duration predicted = {});

// When each node would have what a head needs, kept from one pass to the next: only nodes on which something changed
// are looked at again.
constexpr Instant kNotEver = kNever + seconds(1);  // not even when everything that runs has ended
struct ReadyTimes {
  std::uint64_t layout = 0, clock = 0;  // of the view, as of the last look
  std::vector<std::pair<ClassNo, FreeAmounts>> needs;
  std::vector<Instant> at;  // by NodeId

  void rule_out(NodeId node) {
    if (node.value < at.size())
      at[node.value] = kNotEver;
  }
};

// When and where the job could start if running jobs ended as expected and nothing else started; nullopt if not even
// then. `at` is at least now.
std::optional<Shadow> place_later(PlannerView& view, const JobSpec& spec, const Way& way, Instant now,
                                  ReadyTimes& times);

// On nodes with these loads, if it fits at all; null: the node is not to be used.
std::optional<std::vector<Grant>> place_where(PlannerView& view, const JobSpec& spec, const Way& way,
                                              std::function<const NodeLoad*(NodeId)> load);

// Brings Shape::never, detail and Way::possible up to date with nodes and partitions. `work` grows when it was more
// than a look.
void judge(PlannerView& view, std::uint32_t shape, std::uint64_t& work);

// Whether a parked shape is still parked: nothing it could use has become freer since.
bool still_parked(PlannerView& view, std::uint32_t shape);

// Whether the shape may be able to start now, by counts, heads aside.
bool may_start(PlannerView& view, std::uint32_t shape);

}  // namespace lockstep
