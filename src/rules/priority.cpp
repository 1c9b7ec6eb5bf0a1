#include "rules/priority.h"

#include <algorithm>
#include <cmath>

#include "rules/tres.h"

namespace lockstep {

namespace {

constexpr std::int64_t kMiddle = std::int64_t{1} << 31;

std::uint32_t within(std::int64_t value) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(value, 1, UINT32_MAX));
}

std::int64_t points(double weight, double factor) {
  return static_cast<std::int64_t>(weight * std::clamp(factor, 0.0, 1.0));
}

}  // namespace

PriorityParts priority_parts(const Policy& policy, const PriorityFactors& factors) {
  PriorityParts parts;
  parts.age = points(policy.weight_age, factors.age);
  parts.assoc = points(policy.weight_assoc, factors.assoc);
  parts.fair_share = points(policy.weight_fair_share, factors.fair_share);
  parts.job_size = points(policy.weight_job_size, factors.job_size);
  parts.partition = points(policy.weight_partition, factors.partition);
  parts.qos = points(policy.weight_qos, factors.qos);
  parts.nice = factors.nice;
  std::int64_t sum = parts.age + parts.assoc + parts.fair_share + parts.job_size + parts.partition + parts.qos;
  for (const TresWeight& weight : policy.weight_tres) {
    const auto it = std::find_if(factors.tres.begin(), factors.tres.end(),
                                 [&](const auto& named) { return named.first == weight.name; });
    const std::int64_t part =
        points(static_cast<double>(weight.milli) / 1000, it == factors.tres.end() ? 0 : it->second);
    parts.tres.emplace_back(weight.name, part);
    sum = std::min<std::int64_t>(sum + part, std::int64_t{1} << 40);
  }
  parts.total = within(sum - parts.nice);
  return parts;
}

double part_of(std::int64_t value, std::int64_t most) {
  return most <= 0 ? 0 : std::clamp(static_cast<double>(value) / static_cast<double>(most), 0.0, 1.0);
}

double age_factor(const Policy& policy, Duration age) { return part_of(age.us, policy.age_max.us); }

double size_factor(const Policy& policy, const Tres& job, const Tres& cluster) {
  const double size = (part_of(job.nodes, cluster.nodes) + part_of(job.cpu, cluster.cpu)) / 2;
  return policy.favor_small ? 1 - size : size;
}

PriorityFactors still_factors(const Directory& directory, const JobSpec& spec, const Partition* partition,
                              const Tres& job, const Tres& cluster, std::uint32_t most_partition) {
  const Policy& policy = directory.policy();
  PriorityFactors out;
  out.job_size = policy.weight_job_size != 0 ? size_factor(policy, job, cluster) : 0;
  out.partition = partition ? part_of(partition->priority, most_partition) : 0;
  std::uint32_t most_qos = 0;
  for (const auto& [name, qos] : directory.qos) most_qos = std::max(most_qos, qos->priority);
  if (const Qos* qos = directory.qos_named(spec.qos))
    out.qos = part_of(qos->priority, most_qos);
  if (policy.weight_assoc != 0) {
    std::int64_t most = 0;
    for (const auto& [name, association] : directory.associations) most = std::max(most, association->priority);
    if (const auto* own = directory.association(spec.account, spec.user, partition ? partition->meta.name : ""))
      out.assoc = part_of(own->priority, most);
  }
  for (const TresWeight& weight : policy.weight_tres)
    out.tres.emplace_back(weight.name, part_of(count_of(job, weight.name), count_of(cluster, weight.name)));
  out.nice = spec.nice;
  return out;
}

std::uint32_t plain_priority(const JobSpec& spec) {
  if (spec.priority)
    return *spec.priority;
  return within(kMiddle - spec.nice);
}

}  // namespace lockstep
