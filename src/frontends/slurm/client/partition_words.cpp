#include "frontends/slurm/client/partition_words.h"

#include <cmath>
#include <cstdlib>

#include "base/hostlist.h"
#include "base/items.h"
#include "base/text.h"
#include "frontends/slurm/client/key_rows.h"
#include "frontends/slurm/client/values.h"

namespace lockstep::slurm {

namespace {

using Pair = KeyAndValue;

// "CPU=1.0,Mem=0.25G,GRES/gpu=2.0": memory by the megabyte, where no unit is given; here it is counted by the gigabyte.
Result<std::vector<TresWeight>> billing_weights(const std::string& text) {
  std::vector<TresWeight> out;
  for (const std::string& part : items_of(text)) {
    const auto equals = part.find('=');
    char* end = nullptr;
    const double weight = equals == std::string::npos ? -1 : std::strtod(part.c_str() + equals + 1, &end);
    const std::string unit = end ? lower(end) : "";
    const bool is_memory = lower(part.substr(0, part.find('='))) == "mem";
    const double scale = !is_memory                    ? (unit.empty() ? 1 : 0)
                         : unit.empty() || unit == "m" ? 1024
                         : unit == "g"                 ? 1
                         : unit == "t"                 ? 1.0 / 1024
                         : unit == "k"                 ? 1024.0 * 1024
                                                       : 0;
    if (!(weight >= 0) || weight > 1e9 || scale == 0)
      return bad_value({"tresbillingweights", text});
    out.push_back({lower(part.substr(0, equals)), std::llround(weight * scale * 1000)});
  }
  return out;
}

using PartitionKey = KeyRow<Partition, Pair>;

Result<void> set_members(Partition& partition, const Pair& pair) {
  partition.nodes = lower(pair.second) == "all" ? std::vector<std::string>{"ALL"} : TRY(expand_hostlist(pair.second));
  return {};
}

Result<void> set_state(Partition& partition, const Pair& pair) {
  const std::string word = lower(pair.second);
  if (!is_among("up down drain inactive", word))
    return bad_value(pair);
  partition.up = is_among("up drain", word);
  partition.closed = is_among("drain inactive", word);
  return {};
}

Result<void> set_default(Partition& partition, const Pair& pair) {
  partition.is_default = TRY(needed(parse_yes_no(pair.second), pair));
  return {};
}

template <Duration Partition::*kLimit>
Result<void> set_time(Partition& partition, const Pair& pair) {
  const auto none = lower(pair.second) == "none" ? std::optional(Duration{}) : std::nullopt;
  partition.*kLimit = none ? *none : TRY(needed(parse_time_limit(pair.second), pair));
  return {};
}

Result<void> set_nodes_max(Partition& partition, const Pair& pair) {
  const bool is_open = lower(pair.second) == "unlimited" || lower(pair.second) == "infinite";
  partition.nodes_max = is_open ? 0 : TRY(needed(parse_count(pair.second), pair));
  return {};
}

template <std::uint32_t Partition::*kCount>
Result<void> set_count(Partition& partition, const Pair& pair) {
  partition.*kCount = TRY(needed(parse_count(pair.second), pair));
  return {};
}

Result<void> set_memory(Partition& partition, const Pair& pair) {
  partition.memory_per_core_mb = TRY(needed(parse_memory_mb(pair.second), pair));
  return {};
}

template <std::vector<std::string> Partition::*kNames>
Result<void> set_allowed(Partition& partition, const Pair& pair) {
  partition.*kNames = lower(pair.second) == "all" ? std::vector<std::string>{} : items_of(pair.second);
  return {};
}

template <std::vector<std::string> Partition::*kNames>
Result<void> set_denied(Partition& partition, const Pair& pair) {
  partition.*kNames = items_of(pair.second);
  return {};
}

Result<void> set_partition_qos(Partition& partition, const Pair& pair) {
  partition.qos = lower(pair.second) == "n/a" ? "" : pair.second;
  return {};
}

Result<void> set_preempt_mode(Partition& partition, const Pair& pair) {
  partition.preempt_mode = TRY(needed(parse_preempt_mode(pair.second), pair));
  return {};
}

Result<void> set_grace(Partition& partition, const Pair& pair) {
  partition.grace = seconds(TRY(needed(parse_count(pair.second), pair)));
  return {};
}

Result<void> set_billing(Partition& partition, const Pair& pair) {
  partition.billing = TRY(billing_weights(pair.second));
  return {};
}

constexpr PartitionKey kPartitionKeys[] = {{"nodes", set_members},
                                           {"state", set_state},
                                           {"default", set_default},
                                           {"maxtime", set_time<&Partition::time_max>},
                                           {"defaulttime", set_time<&Partition::time_default>},
                                           {"maxnodes", set_nodes_max},
                                           {"prioritytier priority", set_count<&Partition::tier>},
                                           {"priorityjobfactor", set_count<&Partition::priority>},
                                           {"defmempercpu", set_memory},
                                           {"allowaccounts", set_allowed<&Partition::allow_accounts>},
                                           {"denyaccounts", set_denied<&Partition::deny_accounts>},
                                           {"allowqos", set_allowed<&Partition::allow_qos>},
                                           {"denyqos", set_denied<&Partition::deny_qos>},
                                           {"qos", set_partition_qos},
                                           {"preemptmode", set_preempt_mode},
                                           {"gracetime", set_grace},
                                           {"tresbillingweights", set_billing}};
}  // namespace

Result<bool> set_partition(Partition& partition, const Pair& pair) {
  return set_by_key(kPartitionKeys, partition, pair.first, pair);
}

}  // namespace lockstep::slurm
