#include "frontends/slurm/client/scontrol_keys.h"

#include <algorithm>

#include "base/text.h"

namespace lockstep::slurm {

namespace {

// With keys of Slurm that are not to be changed here: what may mean one of those must not become another.
constexpr std::string_view kJobKeys[] = {"jobid",
                                         "jobname",
                                         "name",
                                         "account",
                                         "qos",
                                         "comment",
                                         "reservation",
                                         "features",
                                         "partition",
                                         "nodelist",
                                         "reqnodelist",
                                         "excnodelist",
                                         "timelimit",
                                         "timemin",
                                         "starttime",
                                         "deadline",
                                         "nice",
                                         "priority",
                                         "numnodes",
                                         "numtasks",
                                         "numcpus",
                                         "requeue",
                                         "dependency",
                                         "delayboot",
                                         "eligibletime",
                                         "endtime",
                                         "licenses",
                                         "minmemorynode",
                                         "stdout",
                                         "minmemorycpu",
                                         "arraytaskthrottle",
                                         "reservationname",
                                         "reqcores",
                                         "reqthreads",
                                         "admincomment"};
constexpr std::string_view kNodeKeys[] = {"nodename",          "state",          "reason", "weight",  "features",
                                          "availablefeatures", "activefeatures", "gres",   "comment", "nodeaddr",
                                          "nodehostname",      "resumeafter"};
constexpr std::string_view kPartitionKeys[] = {
    "partitionname", "nodes",       "state",         "default",           "maxtime",  "defaulttime",
    "maxnodes",      "minnodes",    "prioritytier",  "priorityjobfactor", "priority", "defmempercpu",
    "defmempernode", "allowgroups", "allowaccounts", "denyaccounts",      "allowqos", "denyqos",
    "qos",           "preemptmode", "gracetime",     "tresbillingweights"};
constexpr std::string_view kReservationKeys[] = {
    "reservationname", "starttime", "endtime",       "duration",      "nodes",    "nodecnt",
    "corecnt",         "tres",      "partitionname", "features",      "flags",    "users",
    "accounts",        "licenses",  "groups",        "maxstartdelay", "purgecomp"};

std::span<const std::string_view> keys_of(ScontrolEntity entity) {
  switch (entity) {
    case ScontrolEntity::kJob: return kJobKeys;
    case ScontrolEntity::kNode: return kNodeKeys;
    case ScontrolEntity::kPartition: return kPartitionKeys;
    case ScontrolEntity::kReservation: return kReservationKeys;
  }
  return {};
}

}  // namespace

Result<std::string> whole_key(ScontrolEntity entity, std::string_view key) {
  const std::string_view sign = key.ends_with('+') || key.ends_with('-') ? key.substr(key.size() - 1) : "";
  const std::string_view word = key.substr(0, key.size() - sign.size());
  std::vector<std::string> begun;
  for (const std::string_view known : keys_of(entity))
    if (!word.empty() && known.starts_with(word))
      begun.emplace_back(known);
  if (begun.empty())
    return std::string(key);
  const auto shortest =
      *std::min_element(begun.begin(), begun.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
  const bool is_one = shortest == word ||
                      std::all_of(begun.begin(), begun.end(), [&](const auto& k) { return k.starts_with(shortest); });
  if (!is_one)
    return Error{
        Errc::kUnsupported,
        format("Update of this parameter is not supported: {} may mean {}\nRequest aborted", word, join(begun, ", ")),
        {}};
  return shortest + std::string(sign);
}

Result<void> complete_keys(ScontrolEntity entity, std::vector<std::pair<std::string, std::string>>& pairs) {
  for (auto& [key, value] : pairs) key = TRY(whole_key(entity, key));
  return {};
}

}  // namespace lockstep::slurm
