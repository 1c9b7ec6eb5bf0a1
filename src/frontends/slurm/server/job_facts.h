// What the commands say of a job beyond its record's plain fields: counts, limits, times, TRES texts.
#pragma once

#include <string>
#include <vector>

#include "frontends/slurm/server/states.h"
#include "model/job.h"
#include "model/job_fields.h"
#include "model/spec.h"
#include "views/read_context.h"

namespace lockstep::slurm {

// One line of squeue: a job, a component of a het job, or a waiting part of an array.
struct JobLine {
  const ReadContext* context = nullptr;
  const Job* job = nullptr;
  const PlanNote* note = nullptr;  // null: the planner has nothing to say
  Instant expected_start;          // 0 = not known
  std::uint16_t group = 0;
  bool one_waiting = false;  // a single waiting element of an array's record
  std::uint32_t waiting_index = 0;
  std::string_view waiting_rest;          // not empty: the line stands for these waiting elements of the array only
  Visibility asker = Visibility::kOwner;  // as whom the caller sees the job

  const JobSpec& spec() const { return *job->spec; }
  const GroupSpec& group_spec() const { return job->spec->groups[group]; }
  // Whether the caller may see this field of what was asked for.
  template <class Of, class M>
  bool tells(M Of::*member) const {
    return told_to(member) <= asker;
  }
};
JobLine job_line(const ReadContext& context, const Job& job);

std::string job_label(const JobLine& line);      // "12", "12_3", "12_[4-9%2]", "12+1"
std::string array_indices(const JobLine& line);  // "3", "4-9%2", "N/A"
std::string array_label(const JobLine& line);    // "3", "[4-9%2]", "N/A"
// "1,3,5,...": what is longer than kIndicesShown is cut, as Slurm cuts it.
inline constexpr std::size_t kIndicesShown = 256;
std::string indices_text(const IntervalSet& set);

// Counts: what is held once the job has started, what was asked for before.
inline constexpr std::uint32_t kShardsOfGpu = 8;  // as the command line takes --gres=shard

struct JobCounts {
  std::uint32_t nodes = 0, cpus = 0, tasks = 0, gpus = 0;
  std::int64_t memory_mb = 0;      // over all nodes
  std::string gpu_type;            // "" = any, or several; of MIG slices, which count as GPUs, their profile
  std::uint32_t shared_milli = 0;  // of GPUs that others use too, in thousandths of one
  bool in_turns = false;           // these are shards, not MPS's
};
JobCounts job_counts(const JobLine& line);
JobCounts asked_counts(const JobSpec& spec, const GroupSpec& group);

std::string partition_text(const JobLine& line);  // where it runs, or everywhere it may
std::string node_list(const JobLine& line);       // "" before the start
std::vector<std::string> node_names(const JobLine& line);
std::string first_node(const JobLine& line);          // of them; "" = none
std::string expected_node_list(const JobLine& line);  // where the planner foresees it; "" = not known
std::string account_of(const JobLine& line);
std::string user_name(const ReadContext& context, UserId user);
// What the amounts are billed in the partition, by its weights; null: one without weights.
std::int64_t billing_in(const Partition* partition, const JobCounts& counts);
// "cpu=8,mem=1000M,node=1,billing=8,gres/gpu=8"
std::string tres_text(const JobCounts& counts, const Partition* partition);
const Partition* partition_of(const JobLine& line);  // where it runs, or the first where it may
// The fewest cores of a node that can take its part: as many tasks as are to be on each, or one.
std::uint32_t min_cores_on_node(const GroupSpec& group);
std::string dependency_text(const Job& job);     // "afterok:12(unfulfilled)"; "" = none left
std::string tres_per_node(const JobSpec& spec);  // "gres/gpu:8"; "" = none asked
// Of the front end's words, which are the owner's, those that say sizes: they are public as all sizes are. Null = not
// said.
const std::string* size_option(const JobSpec& spec, std::string_view name);
std::string memory_text(std::int64_t megabytes);  // Slurm's exact units: "4000M", "4G", "2.50G"; "0"

// Where the nodes it holds lie in the topology: the lowest level that holds all of them, the lowest that could in its
// partition if nothing ran, and the number of leaves. level is empty when it holds none or there is no topology.
struct PlaceInTree {
  std::string level, best;
  std::size_t leaves = 0;
};
PlaceInTree place_in_tree(const JobLine& line);
std::string switches_text(const GroupSpec& group);  // "1", "1@00:05:00"; "" = any number

inline constexpr std::int64_t kUnlimited = -1;
inline constexpr std::int64_t kPartitionLimit = -2;  // neither the job nor a partition says
std::int64_t limit_seconds(const JobLine& line);
std::int64_t used_seconds(const JobLine& line);  // without pauses
// Slurm's word for it counts every requeue, whatever it was for.
std::uint32_t restarts_of(const Job& job);

// Wall clock in whole seconds; 0 = not known.
std::int64_t wall_seconds(const ReadContext& context, Instant instant);
std::int64_t eligible_seconds(const JobLine& line);  // or when it will be, where only a time is waited for
std::int64_t start_seconds(const JobLine& line);     // or the expected start
std::int64_t end_seconds(const JobLine& line);       // or when the limit strikes

// 0 for held jobs, as Slurm has it.
std::uint64_t shown_priority(const Job& job);

// What is held on every node, in one pass over the jobs.
std::map<NodeId, NodeHolding> node_holdings(const ReadContext& context);

}  // namespace lockstep::slurm
