#include "frontends/slurm/client/sacctmgr_words.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <span>

#include "base/items.h"
#include "base/text.h"
#include "frontends/slurm/client/key_rows.h"
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
    {"minpriothres", &Limits::min_priority},  // as `sacctmgr -P show qos` heads its column
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
  // "00:00:00", as sacctmgr prints it: no time, while as a time limit it is no limit.
  const bool is_nothing = word.value.find_first_not_of("0:-") == std::string::npos;
  span = is_nothing ? Duration{} : *parsed;
  return {};
}

Result<void> read_flags(Qos& qos, const KeyWord& word) {
  if (word.sign == 0)
    for (const QosFlag& flag : kQosFlags) qos.*flag.member = false;
  for (const std::string& name : items_of(word.value)) {
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
  for (const std::string& name : items_of(word.value)) {
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

namespace {

// Of accounts and associations alike.
template <class Record>
Result<void> set_shares(Record& record, const KeyWord& word) {
  return read_shares(word, record.shares);
}

template <class Record>
Result<void> set_default_qos(Record& record, const KeyWord& word) {
  record.default_qos = word.value == "-1" ? "" : lower(word.value);
  return {};
}

template <class Record>
Result<void> set_qos_list(Record& record, const KeyWord& word) {
  change_list(record.qos, word);
  return {};
}

template <auto kText, class Record>
Result<void> set_text(Record& record, const KeyWord& word) {
  record.*kText = word.value;
  return {};
}

template <auto kFlag, class Record>
Result<void> set_yes_no(Record& record, const KeyWord& word) {
  const auto yes = parse_yes_no(word.value);
  if (!yes)
    return bad_value(word);
  record.*kFlag = *yes;
  return {};
}

template <auto kSpan, class Record>
Result<void> set_span(Record& record, const KeyWord& word) {
  return read_spans(word, record.*kSpan);
}

// A bare number is minutes here, as in a time limit.
template <auto kSpan, class Record>
Result<void> set_exempt(Record& record, const KeyWord& word) {
  const auto number = parse_int(word.value);
  return read_spans(number && *number >= 0 ? KeyWord{word.key, word.sign, format("{}:00", *number)} : word,
                    record.*kSpan);
}

Result<void> set_parent(Account& account, const KeyWord& word) {
  account.parent = lower(word.value) == "root" ? "" : lower(word.value);
  return {};
}

template <TresLimit Quota::*kPart>
Result<void> set_quota(Account& account, const KeyWord& word) {
  return read_tres(word.value, account.quota.*kPart);
}

constexpr KeyRow<Account, KeyWord> kAccountKeys[] = {{"parent", set_parent},
                                                     {"fairshare share shares", set_shares<Account>},
                                                     {"description descr", set_text<&Account::description>},
                                                     {"organization org", set_text<&Account::organization>},
                                                     {"defaultqos", set_default_qos<Account>},
                                                     {"qos qoslevel", set_qos_list<Account>},
                                                     {"quotatres quota", set_quota<&Quota::nominal>},
                                                     {"borrowtres borrow", set_quota<&Quota::borrow>},
                                                     {"lendtres lend", set_quota<&Quota::lend>}};

Result<void> set_association_priority(Association& association, const KeyWord& word) {
  const auto priority = parse_int(word.value);
  if (!priority || *priority < -1 || *priority > UINT32_MAX)
    return bad_value(word);
  association.priority = std::max<std::int64_t>(*priority, 0);
  return {};
}

constexpr KeyRow<Association, KeyWord> kAssociationKeys[] = {{"fairshare share shares", set_shares<Association>},
                                                             {"defaultqos", set_default_qos<Association>},
                                                             {"qos qoslevel", set_qos_list<Association>},
                                                             {"priority", set_association_priority}};

Result<void> set_qos_priority(Qos& qos, const KeyWord& word) {
  const auto priority = parse_count(word.value);
  if (!priority)
    return bad_value(word);
  qos.priority = *priority;
  return {};
}

Result<void> set_usage_factor(Qos& qos, const KeyWord& word) {
  qos.usage_factor_milli = static_cast<std::uint32_t>(std::min<std::int64_t>(TRY(milli_of(word)), UINT32_MAX));
  return {};
}

Result<void> set_usage_threshold(Qos& qos, const KeyWord& word) {
  qos.threshold_ppm = word.value == "-1" ? -1 : std::min<std::int64_t>(TRY(milli_of(word)) * 1000, 1'000'000);
  return {};
}

Result<void> set_preempted(Qos& qos, const KeyWord& word) {
  change_list(qos.preempts, word);
  return {};
}

Result<void> set_preempt_mode(Qos& qos, const KeyWord& word) {
  const auto mode = parse_preempt_mode(word.value);
  if (!mode)
    return bad_value(word);
  qos.preempt_mode = *mode;
  return {};
}

constexpr KeyRow<Qos, KeyWord> kQosKeys[] = {{"description descr", set_text<&Qos::description>},
                                             {"priority", set_qos_priority},
                                             {"usagefactor", set_usage_factor},
                                             {"usagethreshold usagethres", set_usage_threshold},
                                             {"preempt", set_preempted},
                                             {"preemptmode", set_preempt_mode},
                                             {"gracetime", set_span<&Qos::grace>},
                                             {"preemptexempttime", set_exempt<&Qos::preempt_exempt>},
                                             {"flags", read_flags}};

template <std::uint32_t Policy::*kWeight>
Result<void> set_weight(Policy& policy, const KeyWord& word) {
  const auto value = parse_uint(word.value);
  if (!value || *value > UINT32_MAX)
    return bad_value(word);
  policy.*kWeight = static_cast<std::uint32_t>(*value);
  return {};
}

template <Duration Policy::*kSpan>
Result<void> set_period(Policy& policy, const KeyWord& word) {
  const auto span = word.value == "0" ? std::optional(Duration{}) : parse_time_limit(word.value);
  if (!span || *span >= kForever)
    return bad_value(word);
  policy.*kSpan = *span;
  return {};
}

Result<void> set_reset_period(Policy& policy, const KeyWord& word) {
  constexpr std::string_view kResets[] = {"none", "now", "daily", "weekly", "monthly", "quarterly", "yearly"};
  const auto at = std::find(std::begin(kResets), std::end(kResets), lower(word.value));
  if (at == std::end(kResets))
    return bad_value(word);
  policy.reset = static_cast<Policy::Reset>(at - std::begin(kResets));
  return {};
}

Result<void> set_preempt_type(Policy& policy, const KeyWord& word) {
  const std::string value = lower(word.value);
  if (!is_among("none preempt/none preempt/qos preempt/partition_prio", value))
    return bad_value(word);
  policy.preempt_by_tier = value == "preempt/partition_prio";
  return {};
}

Result<void> set_policy_preempt_mode(Policy& policy, const KeyWord& word) {
  const auto mode = parse_preempt_mode(word.value);
  if (!mode || *mode == PreemptMode::kCluster)
    return bad_value(word);
  policy.preempt_mode = *mode;
  return {};
}

Result<void> set_tres_weights(Policy& policy, const KeyWord& word) {
  policy.weight_tres.clear();
  for (const std::string& part : items_of(word.value)) {
    const KeyWord weight = key_word(part);
    if (weight.key.empty())
      return bad_value(word);
    policy.weight_tres.push_back({weight.key, TRY(milli_of(weight))});
  }
  return {};
}

Result<void> set_enforced(Policy& policy, const KeyWord& word) {
  policy.enforce_associations = policy.enforce_qos = policy.enforce_safe = false;
  for (const std::string& name : items_of(lower(word.value))) {
    if (name.empty() || is_among("none 0", name))
      continue;
    if (!is_among("associations limits qos safe", name))
      return bad_value(word);
    policy.enforce_associations = true;
    policy.enforce_qos = policy.enforce_qos || name == "qos";
    policy.enforce_safe = policy.enforce_safe || name == "safe";
  }
  return {};
}

constexpr KeyRow<Policy, KeyWord> kPolicyKeys[] = {{"priorityweightage", set_weight<&Policy::weight_age>},
                                                   {"priorityweightfairshare", set_weight<&Policy::weight_fair_share>},
                                                   {"priorityweightjobsize", set_weight<&Policy::weight_job_size>},
                                                   {"priorityweightpartition", set_weight<&Policy::weight_partition>},
                                                   {"priorityweightqos", set_weight<&Policy::weight_qos>},
                                                   {"priorityweightassoc", set_weight<&Policy::weight_assoc>},
                                                   {"prioritymaxage", set_period<&Policy::age_max>},
                                                   {"prioritydecayhalflife", set_period<&Policy::half_life>},
                                                   {"prioritycalcperiod", set_period<&Policy::calc_period>},
                                                   {"priorityusageresetperiod", set_reset_period},
                                                   {"preempttype", set_preempt_type},
                                                   {"preemptforquota", set_yes_no<&Policy::preempt_for_quota>},
                                                   {"preemptmode", set_policy_preempt_mode},
                                                   {"preemptexempttime", set_exempt<&Policy::preempt_exempt>},
                                                   {"priorityfavorsmall", set_yes_no<&Policy::favor_small>},
                                                   {"priorityweighttres", set_tres_weights},
                                                   {"accountingstorageenforce", set_enforced}};

}  // namespace

Result<bool> set_account(Account& account, const KeyWord& word) {
  return TRY(set_by_key(kAccountKeys, account, word.key, word)) || TRY(set_limit(account.limits, word));
}

Result<bool> set_association(Association& association, const KeyWord& word) {
  return TRY(set_by_key(kAssociationKeys, association, word.key, word)) || TRY(set_limit(association.limits, word));
}

Result<bool> set_qos(Qos& qos, const KeyWord& word) {
  return TRY(set_by_key(kQosKeys, qos, word.key, word)) || TRY(set_limit(qos.limits, word));
}

Result<bool> set_policy(Policy& policy, const KeyWord& word) { return set_by_key(kPolicyKeys, policy, word.key, word); }

std::string flags_text(const Qos& qos) {
  std::string out;
  for (const QosFlag& flag : kQosFlags)
    if (qos.*flag.member)
      out += format("{}{}", out.empty() ? "" : ",", flag.name);
  return out;
}

}  // namespace lockstep::slurm
