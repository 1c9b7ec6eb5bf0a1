// The multifactor priority of a job: Slurm's documented formula (https://slurm.schedmd.com/priority_multifactor.html)
//
//   weight_age·age + weight_assoc·assoc + weight_fair_share·fair share + weight_job_size·size +
//   weight_partition·partition + weight_qos·QOS + Σ weight_tres·TRES − nice
//
// with every factor between 0 and 1. A pure function of the policy and the facts; always fits 32 bits.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "model/directory.h"
#include "model/spec.h"
#include "model/tres.h"

namespace lockstep {

// 0 … 1 each, but nice.
struct PriorityFactors {
  double age = 0, assoc = 0, fair_share = 0, job_size = 0, partition = 0, qos = 0;
  std::vector<std::pair<std::string, double>> tres;  // by name of Policy::weight_tres
  std::int64_t nice = 0;
};

struct PriorityParts {  // the points each factor gives
  std::int64_t age = 0, assoc = 0, fair_share = 0, job_size = 0, partition = 0, qos = 0;
  std::vector<std::pair<std::string, std::int64_t>> tres;
  std::int64_t nice = 0;
  std::uint32_t total = 1;  // 1 … 2^32 - 1; 0 is a held job's
};
PriorityParts priority_parts(const Policy& policy, const PriorityFactors& factors);

// --- the factors ---

// Counts from the moment the job could have started; full at Policy::age_max.
double age_factor(const Policy& policy, Duration age);
// The job's part of the cluster, the mean of its nodes and its cores; 1 minus it with favor_small.
double size_factor(const Policy& policy, const Tres& job, const Tres& cluster);
double part_of(std::int64_t value, std::int64_t most);  // 0 where most is 0
// Everything that does not hang on time or on past use. cluster: all that there is, by amount; most_partition: the
// highest Partition::priority.
PriorityFactors still_factors(const Directory& directory, const JobSpec& spec, const Partition* partition,
                              const Tres& job, const Tres& cluster, std::uint32_t most_partition);

// What a record's priority holds without any factor: fixed by an administrator, else the middle of the range less nice.
std::uint32_t plain_priority(const JobSpec& spec);

}  // namespace lockstep
