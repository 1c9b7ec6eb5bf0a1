#include "frontends/slurm/client/sacctmgr_words.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <span>

#include "base/text.h"
#include "frontends/slurm/client/values.h"
#include "model/tres_names.h"

namespace lockstep::slurm {

namespace {

Error bad_value(const KeyWord& word) { return invalid(format("Bad value for {}: {}", word.key, word.value), word.key); }

struct TresKey {
  std::string_view name;
  TresLimit Limits::*member;
  std::string_view resource;  // "" = the value names them
};
constexpr TresKey kTresKeys[] = {
    {"grptres", &Limits::grp_tres, ""},
    {"grpcpus", &Limits::grp_tres, "cpu"},
    {"grpmem", &Limits::grp_tres, "mem"},
    {"grpnodes", &Limits::grp_tres, "node"},
    {"grptresmins", &Limits::grp_tres_mins, ""},
    {"grpcpumins", &Limits::grp_tres_mins, "cpu"},
    {"grptresrunmins", &Limits::grp_tres_run_mins, ""},
    {"grpcpurunmins", &Limits::grp_tres_run_mins, "cpu"},
    {"maxtresperjob", &Limits::max_tres_per_job, ""},
    {"maxtres", &Limits::max_tres_per_job, ""},
    {"maxcpusperjob", &Limits::max_tres_per_job, "cpu"},
    {"maxcpus", &Limits::max_tres_per_job, "cpu"},
    {"maxnodesperjob", &Limits::max_tres_per_job, "node"},
    {"maxnodes", &Limits::max_tres_per_job, "node"},
    {"maxtrespernode", &Limits::max_tres_per_node, ""},
    {"maxtresminsperjob", &Limits::max_tres_mins_per_job, ""},
    {"maxtresmins", &Limits::max_tres_mins_per_job, ""},
    {"maxcpuminsperjob", &Limits::max_tres_mins_per_job, "cpu"},
    {"maxcpumins", &Limits::max_tres_mins_per_job, "cpu"},
    {"maxtresperuser", &Limits::max_tres_per_user, ""},
    {"maxtrespu", &Limits::max_tres_per_user, ""},
    {"maxcpusperuser", &Limits::max_tres_per_user, "cpu"},
    {"maxcpuspu", &Limits::max_tres_per_user, "cpu"},
    {"maxnodesperuser", &Limits::max_tres_per_user, "node"},
    {"maxnodespu", &Limits::max_tres_per_user, "node"},
    {"maxtresperaccount", &Limits::max_tres_per_account, ""},
    {"maxtresperacct", &Limits::max_tres_per_account, ""},
    {"maxtrespa", &Limits::max_tres_per_account, ""},
    {"mintresperjob", &Limits::min_tres_per_job, ""},
    {"mintres", &Limits::min_tres_per_job, ""},
    {"mincpusperjob", &Limits::min_tres_per_job, "cpu"},
    {"mincpus", &Limits::min_tres_per_job, "cpu"},
};

struct CountKey {
  std::string_view name;
  std::int64_t Limits::*member;
  bool wall = false;
};
constexpr CountKey kCountKeys[] = {
    {"grpjobs", &Limits::grp_jobs},
    {"grpsubmitjobs", &Limits::grp_submit_jobs},
    {"grpsubmit", &Limits::grp_submit_jobs},
    {"grpwall", &Limits::grp_wall_mins, true},
    {"maxwalldurationperjob", &Limits::max_wall_mins_per_job, true},
    {"maxwall", &Limits::max_wall_mins_per_job, true},
    {"maxjobs", &Limits::max_jobs},
    {"maxsubmitjobs", &Limits::max_submit_jobs},
    {"maxsubmit", &Limits::max_submit_jobs},
    {"maxjobsperuser", &Limits::max_jobs_per_user},
    {"maxjobspu", &Limits::max_jobs_per_user},
    {"maxjobsperaccount", &Limits::max_jobs_per_account},
    {"maxjobspa", &Limits::max_jobs_per_account},
    {"maxsubmitjobsperuser", &Limits::max_submit_jobs_per_user},
    {"maxsubmitjobspu", &Limits::max_submit_jobs_per_user},
    {"maxsubmitpu", &Limits::max_submit_jobs_per_user},
    {"maxsubmitjobsperaccount", &Limits::max_submit_jobs_per_account},
    {"maxsubmitjobspa", &Limits::max_submit_jobs_per_account},
    {"maxsubmitpa", &Limits::max_submit_jobs_per_account},
    {"minpriothreshold", &Limits::min_priority},
    {"minpriothresh", &Limits::min_priority},
};

struct QosFlag {
  std::string_view name;
  bool Qos::*member;
};
constexpr QosFlag kQosFlags[] = {
    {"DenyOnLimit", &Qos::deny_on_limit},
    {"EnforceUsageThreshold", &Qos::enforce_threshold},
    {"NoDecay", &Qos::no_decay},
    {"NoReserve", &Qos::no_reserve},
    {"OverPartQOS", &Qos::override_partition},
    {"PartitionMaxNodes", &Qos::partition_nodes_max},
    {"PartitionTimeLimit", &Qos::partition_time},
    {"RequiresReservation", &Qos::requires_reservation},
    {"Scavenger", &Qos::scavenger},
    {"UsageFactorSafe", &Qos::usage_factor_safe},
};

Result<void> read_wall(const KeyWord& word, std::int64_t& minutes) {
  if (word.value == "-1") {
    minutes = kNoLimit;
    return {};
  }
  const auto span = parse_time_limit(word.value);
  if (!span)
    return bad_value(word);
  minutes = *span >= kForever ? kNoLimit : (span->us + 59'999'999) / 60'000'000;
  return {};
}

Result<void> read_shares(const KeyWord& word, std::uint32_t& shares) {
  if (lower(word.value) == "parent") {
    shares = kParentShares;
    return {};
  }
  if (word.value == "-1") {
    shares = 1;
    return {};
  }
  const auto count = parse_count(word.value);
  if (!count)
    return bad_value(word);
  shares = *count;
  return {};
}

Result<void> read_spans(const KeyWord& word, Duration& span) {
  // A bare number is seconds for grace times.
  if (const auto number = parse_int(word.value); number && *number >= -1) {
    span = seconds(std::max<std::int64_t>(*number, 0));
    return {};
  }
  const auto parsed = parse_time_limit(word.value);
  if (!parsed)
    return bad_value(word);
  span = *parsed;
  return {};
}

Result<void> read_flags(Qos& qos, const KeyWord& word) {
  if (word.sign == 0)
    for (const QosFlag& flag : kQosFlags) qos.*flag.member = false;
  for (const std::string& name : split(word.value, ',')) {
    if (name.empty() || name == "-1")
      continue;
    const auto flag = std::find_if(std::begin(kQosFlags), std::end(kQosFlags),
                                   [&](const QosFlag& f) { return lower(f.name) == lower(name); });
    if (flag == std::end(kQosFlags))
      return Error{Errc::kUnsupported, format("Unknown QOS flag: {}", name), "flags"};
    qos.*flag->member = word.sign != '-';
  }
  return {};
}

Result<std::int64_t> milli_of(const KeyWord& word) {
  char* end = nullptr;
  const double value = std::strtod(word.value.c_str(), &end);
  if (word.value.empty() || *end != '\0' || !(value >= 0) || value > 1'000'000)
    return bad_value(word);
  return std::llround(value * 1000);
}

}  // namespace

KeyWord key_word(const std::string& word) {
  const auto at = word.find('=');
  if (at == std::string::npos || at == 0)
    return {"", 0, word};
  KeyWord out{lower(std::string_view(word).substr(0, at)), 0, word.substr(at + 1)};
  if (out.key.ends_with('+') || out.key.ends_with('-')) {
    out.sign = out.key.back();
    out.key.pop_back();
  }
  // Quotes that a shell left.
  if (out.value.size() >= 2 && out.value.front() == out.value.back() && (out.value[0] == '"' || out.value[0] == '\''))
    out.value = out.value.substr(1, out.value.size() - 2);
  return out;
}

void change_list(std::vector<std::string>& list, const KeyWord& word) {
  if (word.sign == 0)
    list.clear();
  for (const std::string& name : split(word.value, ',')) {
    const auto at = std::find(list.begin(), list.end(), name);
    if (word.sign == '-' && at != list.end())
      list.erase(at);
    if (word.sign != '-' && at == list.end() && !name.empty())
      list.push_back(name);
  }
  std::sort(list.begin(), list.end());
}

Result<bool> set_limit(Limits& limits, const KeyWord& word) {
  for (const TresKey& key : kTresKeys)
    if (key.name == word.key) {
      const std::string text = key.resource.empty() ? word.value : format("{}={}", key.resource, word.value);
      if (word.value == "-1" && key.resource.empty())
        limits.*key.member = {};
      else
        TRY(read_tres(text, limits.*key.member));
      return true;
    }
  for (const CountKey& key : kCountKeys)
    if (key.name == word.key) {
      if (key.wall) {
        TRY(read_wall(word, limits.*key.member));
        return true;
      }
      const auto count = parse_int(word.value);
      if (!count || *count < kNoLimit || *count > INT32_MAX)
        return bad_value(word);
      limits.*key.member = *count;
      return true;
    }
  return false;
}

Result<bool> set_account(Account& account, const KeyWord& word) {
  const std::string& key = word.key;
  if (key == "parent")
    account.parent = lower(word.value) == "root" ? "" : lower(word.value);
  else if (key == "fairshare" || key == "share" || key == "shares")
    TRY(read_shares(word, account.shares));
  else if (key == "description" || key == "descr")
    account.description = word.value;
  else if (key == "organization" || key == "org")
    account.organization = word.value;
  else if (key == "defaultqos")
    account.default_qos = word.value == "-1" ? "" : lower(word.value);
  else if (key == "qos" || key == "qoslevel")
    change_list(account.qos, word);
  else if (key == "quotatres" || key == "quota")
    TRY(read_tres(word.value, account.quota.nominal));
  else if (key == "borrowtres" || key == "borrow")
    TRY(read_tres(word.value, account.quota.borrow));
  else if (key == "lendtres" || key == "lend")
    TRY(read_tres(word.value, account.quota.lend));
  else
    return set_limit(account.limits, word);
  return true;
}

Result<bool> set_association(Association& association, const KeyWord& word) {
  const std::string& key = word.key;
  if (key == "fairshare" || key == "share" || key == "shares")
    TRY(read_shares(word, association.shares));
  else if (key == "defaultqos")
    association.default_qos = word.value == "-1" ? "" : lower(word.value);
  else if (key == "qos" || key == "qoslevel")
    change_list(association.qos, word);
  else if (key == "priority") {
    const auto priority = parse_int(word.value);
    if (!priority || *priority < -1 || *priority > UINT32_MAX)
      return bad_value(word);
    association.priority = std::max<std::int64_t>(*priority, 0);
  } else
    return set_limit(association.limits, word);
  return true;
}

Result<bool> set_qos(Qos& qos, const KeyWord& word) {
  const std::string& key = word.key;
  if (key == "description" || key == "descr") {
    qos.description = word.value;
  } else if (key == "priority") {
    const auto priority = parse_count(word.value);
    if (!priority)
      return bad_value(word);
    qos.priority = *priority;
  } else if (key == "usagefactor") {
    qos.usage_factor_milli = static_cast<std::uint32_t>(std::min<std::int64_t>(TRY(milli_of(word)), UINT32_MAX));
  } else if (key == "usagethreshold" || key == "usagethres") {
    qos.threshold_ppm = word.value == "-1" ? -1 : std::min<std::int64_t>(TRY(milli_of(word)) * 1000, 1'000'000);
  } else if (key == "preempt") {
    change_list(qos.preempts, word);
  } else if (key == "preemptmode") {
    const auto mode = parse_preempt_mode(word.value);
    if (!mode)
      return bad_value(word);
    qos.preempt_mode = *mode;
  } else if (key == "gracetime") {
    TRY(read_spans(word, qos.grace));
  } else if (key == "preemptexempttime") {
    TRY(read_spans(word, qos.preempt_exempt));
  } else if (key == "flags") {
    TRY(read_flags(qos, word));
  } else {
    return set_limit(qos.limits, word);
  }
  return true;
}

Result<bool> set_policy(Policy& policy, const KeyWord& word) {
  struct Weight {
    std::string_view name;
    std::uint32_t Policy::*member;
  };
  constexpr Weight kWeights[] = {
      {"priorityweightage", &Policy::weight_age},          {"priorityweightfairshare", &Policy::weight_fair_share},
      {"priorityweightjobsize", &Policy::weight_job_size}, {"priorityweightpartition", &Policy::weight_partition},
      {"priorityweightqos", &Policy::weight_qos},          {"priorityweightassoc", &Policy::weight_assoc}};
  for (const Weight& weight : kWeights)
    if (weight.name == word.key) {
      const auto value = parse_uint(word.value);
      if (!value || *value > UINT32_MAX)
        return bad_value(word);
      policy.*weight.member = static_cast<std::uint32_t>(*value);
      return true;
    }
  const std::string value = lower(word.value);
  if (word.key == "prioritymaxage" || word.key == "prioritydecayhalflife" || word.key == "prioritycalcperiod") {
    const auto span = value == "0" ? std::optional(Duration{}) : parse_time_limit(value);
    if (!span || *span >= kForever)
      return bad_value(word);
    (word.key == "prioritymaxage"          ? policy.age_max
     : word.key == "prioritydecayhalflife" ? policy.half_life
                                           : policy.calc_period) = *span;
  } else if (word.key == "priorityusageresetperiod") {
    constexpr std::string_view kResets[] = {"none", "now", "daily", "weekly", "monthly", "quarterly", "yearly"};
    const auto at = std::find(std::begin(kResets), std::end(kResets), value);
    if (at == std::end(kResets))
      return bad_value(word);
    policy.reset = static_cast<Policy::Reset>(at - std::begin(kResets));
  } else if (word.key == "preempttype") {
    if (value != "none" && value != "preempt/none" && value != "preempt/qos" && value != "preempt/partition_prio")
      return bad_value(word);
    policy.preempt_by_tier = value == "preempt/partition_prio";
  } else if (word.key == "preemptforquota") {
    const auto yes = parse_yes_no(word.value);
    if (!yes)
      return bad_value(word);
    policy.preempt_for_quota = *yes;
  } else if (word.key == "preemptmode") {
    const auto mode = parse_preempt_mode(value);
    if (!mode || *mode == PreemptMode::kCluster)
      return bad_value(word);
    policy.preempt_mode = *mode;
  } else if (word.key == "preemptexempttime") {
    TRY(read_spans(word, policy.preempt_exempt));
  } else if (word.key == "priorityfavorsmall") {
    const auto yes = parse_yes_no(word.value);
    if (!yes)
      return bad_value(word);
    policy.favor_small = *yes;
  } else if (word.key == "priorityweighttres") {
    policy.weight_tres.clear();
    for (const std::string& part : split(word.value, ',')) {
      const KeyWord weight = key_word(part);
      if (weight.key.empty())
        return bad_value(word);
      policy.weight_tres.push_back({weight.key, TRY(milli_of(weight))});
    }
  } else if (word.key == "accountingstorageenforce") {
    policy.enforce_associations = policy.enforce_qos = policy.enforce_safe = false;
    for (const std::string& name : split(value, ',')) {
      if (name == "none" || name == "0" || name.empty())
        continue;
      if (name != "associations" && name != "limits" && name != "qos" && name != "safe")
        return bad_value(word);
      policy.enforce_associations = true;
      policy.enforce_qos = policy.enforce_qos || name == "qos";
      policy.enforce_safe = policy.enforce_safe || name == "safe";
    }
  } else {
    return false;
  }
  return true;
}

std::string flags_text(const Qos& qos) {
  std::string out;
  for (const QosFlag& flag : kQosFlags)
    if (qos.*flag.member)
      out += format("{}{}", out.empty() ? "" : ",", flag.name);
  return out;
}

}  // namespace lockstep::slurm
