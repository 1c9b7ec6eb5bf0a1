#include "wire/cluster_keys.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "wire/json.h"

namespace lockstep::wire {

namespace {

template <auto kFirst, auto... kRest, class T>
auto& member_at(T& record) {
  if constexpr (sizeof...(kRest) == 0)
    return record.*kFirst;
  else
    return member_at<kRest...>(record.*kFirst);
}

// A row of one member, or of a member of a member.
template <class T, class Form, auto... kPath>
constexpr FileKey<T> key(std::string_view name, std::string_view also, std::string_view meaning, bool always = false) {
  return {name,
          also,
          &Form::row,
          meaning,
          [](const YamlNode& node, T& record) -> Result<void> { return Form::read(node, member_at<kPath...>(record)); },
          [](const T& record) { return Form::write(member_at<kPath...>(record)); },
          [](const T& from, T& into) { member_at<kPath...>(into) = member_at<kPath...>(from); },
          always};
}

// --- flags, several behind one key ---

template <class T>
struct FlagWord {
  std::string_view word;
  bool T::*member;
};

template <class T, auto kWords>
Result<void> read_flags(const YamlNode& node, T& record) {
  std::vector<std::string_view> known;
  for (const FlagWord<T>& flag : *kWords) known.push_back(flag.word);
  T read = record;
  for (const FlagWord<T>& flag : *kWords) read.*flag.member = false;
  for (const std::string& text : TRY(texts_of(node))) {
    YamlNode one = node;
    one.shape = YamlNode::Shape::kScalar;
    one.text = text;
    read.*(*kWords)[TRY(word_of(one, known))].member = true;
  }
  record = std::move(read);
  return {};
}

template <class T, auto kWords>
FileValue write_flags(const T& record) {
  std::vector<std::string> words;
  for (const FlagWord<T>& flag : *kWords)
    if (record.*flag.member)
      words.emplace_back(flag.word);
  return FileValue::list(words);
}

template <class T, auto kWords>
void take_flags(const T& from, T& into) {
  for (const FlagWord<T>& flag : *kWords) into.*flag.member = from.*flag.member;
}

template <class T, auto kWords>
constexpr FileKey<T> flags(const FormRow& form, std::string_view name, std::string_view also,
                           std::string_view meaning) {
  return {name, also, &form, meaning, read_flags<T, kWords>, write_flags<T, kWords>, take_flags<T, kWords>};
}

constexpr std::array<FlagWord<Qos>, 9> kQosFlagWords{{{"deny_on_limit", &Qos::deny_on_limit},
                                                      {"enforce_usage_threshold", &Qos::enforce_threshold},
                                                      {"no_decay", &Qos::no_decay},
                                                      {"no_reserve", &Qos::no_reserve},
                                                      {"over_part_qos", &Qos::override_partition},
                                                      {"partition_max_nodes", &Qos::partition_nodes_max},
                                                      {"partition_time_limit", &Qos::partition_time},
                                                      {"requires_reservation", &Qos::requires_reservation},
                                                      {"usage_factor_safe", &Qos::usage_factor_safe}}};
constexpr FormRow kQosFlagForm{
    "QOS flags",
    R"({"type":"array","items":{"enum":["deny_on_limit","enforce_usage_threshold","no_decay","no_reserve","over_part_qos","partition_max_nodes","partition_time_limit","requires_reservation","usage_factor_safe"]}})",
    "a list of `deny_on_limit`, `enforce_usage_threshold`, `no_decay`, `no_reserve`, `over_part_qos`, "
    "`partition_max_nodes`, `partition_time_limit`, `requires_reservation`, `usage_factor_safe`"};

constexpr std::array<FlagWord<Reservation>, 13> kReservationFlagWords{
    {{"maint", &Reservation::maint},
     {"overlap", &Reservation::overlap},
     {"ignore_jobs", &Reservation::ignore_jobs},
     {"flex", &Reservation::flex},
     {"any_nodes", &Reservation::any_nodes},
     {"spec_nodes", &Reservation::spec_nodes},
     {"part_nodes", &Reservation::part_nodes},
     {"magnetic", &Reservation::magnetic},
     {"replace", &Reservation::replace},
     {"replace_down", &Reservation::replace_down},
     {"static_alloc", &Reservation::static_alloc},
     {"no_hold_jobs_after", &Reservation::no_hold_jobs_after},
     {"purge_comp", &Reservation::purge_comp}}};
constexpr FormRow kReservationFlagForm{
    "reservation flags",
    R"({"type":"array","items":{"enum":["maint","overlap","ignore_jobs","flex","any_nodes","spec_nodes","part_nodes","magnetic","replace","replace_down","static_alloc","no_hold_jobs_after","purge_comp"]}})",
    "a list of `maint`, `overlap`, `ignore_jobs`, `flex`, `any_nodes`, `spec_nodes`, `part_nodes`, `magnetic`, "
    "`replace`, `replace_down`, `static_alloc`, `no_hold_jobs_after`, `purge_comp`"};

constexpr std::array<FlagWord<Policy>, 3> kEnforceWords{
    {{"associations", &Policy::enforce_associations}, {"qos", &Policy::enforce_qos}, {"safe", &Policy::enforce_safe}}};
constexpr FormRow kEnforceForm{"enforced", R"({"type":"array","items":{"enum":["associations","qos","safe"]}})",
                               "a list of `associations`, `qos`, `safe`"};

// --- what records share ---

// Of accounts, associations and QOS. The last block binds users and accounts within a QOS only.
template <class T>
constexpr std::array kLimitKeys = {
    key<T, TresForm, &T::limits, &Limits::grp_tres>("grp_tres", "", "in use at once by all jobs together"),
    key<T, TresForm, &T::limits, &Limits::grp_tres_mins>("grp_tres_mins", "",
                                                         "amounts times minutes of past (fading) and running jobs"),
    key<T, TresForm, &T::limits, &Limits::grp_tres_run_mins>("grp_tres_run_mins", "",
                                                             "amounts times minutes that running jobs may still use"),
    key<T, LimitForm, &T::limits, &Limits::grp_jobs>("grp_jobs", "", "jobs that run at once"),
    key<T, LimitForm, &T::limits, &Limits::grp_submit_jobs>("grp_submit_jobs", "grpsubmit",
                                                            "jobs that wait or run at once"),
    key<T, MinutesForm, &T::limits, &Limits::grp_wall_mins>("grp_wall", "",
                                                            "wall time of past (fading) and running jobs"),
    key<T, TresForm, &T::limits, &Limits::max_tres_per_job>("max_tres_per_job", "maxtres", "of one job"),
    key<T, TresForm, &T::limits, &Limits::max_tres_per_node>("max_tres_per_node", "", "of one job on one node"),
    key<T, TresForm, &T::limits, &Limits::max_tres_mins_per_job>("max_tres_mins_per_job", "maxtresmins",
                                                                 "amounts times minutes of one job"),
    key<T, MinutesForm, &T::limits, &Limits::max_wall_mins_per_job>("max_wall_per_job", "maxwall maxwalldurationperjob",
                                                                    "the longest time limit of a job"),
    key<T, LimitForm, &T::limits, &Limits::max_jobs>("max_jobs", "", "running jobs of one association"),
    key<T, LimitForm, &T::limits, &Limits::max_submit_jobs>("max_submit_jobs", "maxsubmit",
                                                            "waiting and running jobs of one association"),
    key<T, TresForm, &T::limits, &Limits::max_tres_per_user>("max_tres_per_user", "maxtrespu",
                                                             "in use at once by one user's jobs"),
    key<T, TresForm, &T::limits, &Limits::max_tres_per_account>("max_tres_per_account", "maxtrespa maxtresperacct",
                                                                "in use at once by one account's jobs"),
    key<T, LimitForm, &T::limits, &Limits::max_jobs_per_user>("max_jobs_per_user", "maxjobspu",
                                                              "running jobs of one user"),
    key<T, LimitForm, &T::limits, &Limits::max_jobs_per_account>("max_jobs_per_account", "maxjobspa maxjobsperacct",
                                                                 "running jobs of one account"),
    key<T, LimitForm, &T::limits, &Limits::max_submit_jobs_per_user>(
        "max_submit_jobs_per_user", "maxsubmitjobspu maxsubmitpu", "waiting and running jobs of one user"),
    key<T, LimitForm, &T::limits, &Limits::max_submit_jobs_per_account>(
        "max_submit_jobs_per_account", "maxsubmitjobspa maxsubmitpa maxsubmitjobsperacct",
        "waiting and running jobs of one account"),
    key<T, TresForm, &T::limits, &Limits::min_tres_per_job>("min_tres_per_job", "mintres",
                                                            "a job asks for that much at least"),
    key<T, LimitForm, &T::limits, &Limits::min_priority>("min_priority", "minpriothreshold minpriothresh",
                                                         "below it a job gets no promise of a start"),
};

template <class T, std::size_t kOwn>
constexpr auto with_limits(const std::array<FileKey<T>, kOwn>& own) {
  std::array<FileKey<T>, kOwn + kLimitKeys<T>.size()> out{};
  std::copy(own.begin(), own.end(), out.begin());
  std::copy(kLimitKeys<T>.begin(), kLimitKeys<T>.end(), out.begin() + kOwn);
  return out;
}

// --- the kinds ---

constexpr std::array kNodeClassKeys = {
    key<NodeClass, HostsForm, &NodeClass::nodes>("nodes", "", "which nodes; each is in one class at most", true),
    key<NodeClass, NamesForm, &NodeClass::features>("features", "feature",
                                                    "for `--constraint`, besides those that the agents tell"),
    key<NodeClass, CountForm, &NodeClass::weight>("weight", "",
                                                  "lighter nodes are taken first; 0: as the node itself has it"),
    key<NodeClass, CountForm, &NodeClass::cores>("cores", "cpus",
                                                 "each ought to have so many; `lockstep diff` shows which has less"),
    key<NodeClass, MemoryForm, &NodeClass::memory_mb>("memory", "realmemory", "the same of memory"),
    key<NodeClass, CountForm, &NodeClass::gpus>("gpus", "gpu", "the same of GPUs"),
    key<NodeClass, TextForm, &NodeClass::gpu_type>("gpu_type", "", "of this type"),
};

constexpr std::array kPartitionKeys = {
    key<Partition, HostsForm, &Partition::nodes>("nodes", "", "its nodes; `[]`: none yet", true),
    key<Partition, FlagForm, &Partition::is_default>("default", "", "jobs that name no partition go here; one has it"),
    key<Partition, UpForm, &Partition::up>("state", "", "`down`: jobs wait, and none starts"),
    key<Partition, FlagForm, &Partition::closed>("closed", "", "takes no new jobs; those that wait start"),
    key<Partition, CountForm, &Partition::tier>("tier", "prioritytier",
                                                "jobs of a higher tier go first, whatever their priority"),
    key<Partition, CountForm, &Partition::priority>("priority", "priorityjobfactor",
                                                    "for the policy's `weight_partition`"),
    key<Partition, SpanForm, &Partition::time_default>("time_default", "defaulttime defaulttimelimit",
                                                       "time limit of jobs that name none; 0: `time_max`"),
    key<Partition, SpanForm, &Partition::time_max>("time_max", "maxtime", "the longest time limit"),
    key<Partition, BoundForm, &Partition::nodes_max>("nodes_max", "maxnodes", "the most nodes of one job"),
    key<Partition, MemoryForm, &Partition::memory_per_core_mb>("memory_per_core", "defmempercpu",
                                                               "of jobs that name none"),
    key<Partition, NamesForm, &Partition::allow_accounts>("allow_accounts", "", "whose jobs may run here; none: all"),
    key<Partition, NamesForm, &Partition::deny_accounts>("deny_accounts", "",
                                                         "whose may not, where `allow_accounts` names none"),
    key<Partition, NamesForm, &Partition::allow_qos>("allow_qos", "", "the same by QOS"),
    key<Partition, NamesForm, &Partition::deny_qos>("deny_qos", "", "the same by QOS"),
    key<Partition, TextForm, &Partition::qos>("qos", "", "a QOS whose limits bind every job here"),
    key<Partition, WeightsForm, &Partition::billing>("billing", "tresbillingweights",
                                                     "what amounts are billed; none: a core counts 1"),
    key<Partition, PreemptForm, &Partition::preempt_mode>("preempt_mode", "",
                                                          "of jobs here, where their QOS says nothing"),
    key<Partition, SpanForm, &Partition::grace>("grace", "gracetime", "from the warning to the stop, likewise"),
    key<Partition, CountForm, &Partition::segment>("segment", "",
                                                   "nodes that jobs here want together in one block; 0: none"),
};

constexpr auto kQosKeys = with_limits(std::array{
    key<Qos, TextForm, &Qos::description>("description", "descr", "for people"),
    key<Qos, CountForm, &Qos::priority>("priority", "", "for the policy's `weight_qos`"),
    key<Qos, FactorForm, &Qos::usage_factor_milli>("usage_factor", "", "what its jobs use counts so many times"),
    key<Qos, ShareForm, &Qos::threshold_ppm>(
        "usage_threshold", "usagethres", "the lowest fair-share factor that may submit (`enforce_usage_threshold`)"),
    key<Qos, NamesForm, &Qos::preempts>("preempts", "preempt", "QOS whose jobs it may stop"),
    key<Qos, PreemptForm, &Qos::preempt_mode>("preempt_mode", "",
                                              "what happens to its jobs that are stopped for others"),
    key<Qos, SpanForm, &Qos::grace>("grace", "gracetime", "from the warning to the stop of such a job"),
    key<Qos, SpanForm, &Qos::preempt_exempt>("preempt_exempt", "preemptexempttime",
                                             "such a job has run so long before"),
    key<Qos, FlagForm, &Qos::scavenger>("scavenger", "",
                                        "its jobs run on what nobody else wants, and everybody may stop them"),
    flags<Qos, &kQosFlagWords>(kQosFlagForm, "flags", "", "Slurm's flags of a QOS"),
});

constexpr auto kAccountKeys = with_limits(std::array{
    key<Account, TextForm, &Account::description>("description", "descr", "for people"),
    key<Account, TextForm, &Account::organization>("organization", "org", "for people"),
    key<Account, SharesForm, &Account::shares>("shares", "fairshare share",
                                               "its part of what the account above has, beside its siblings'"),
    key<Account, TextForm, &Account::default_qos>("default_qos", "", "of jobs that name none"),
    key<Account, NamesForm, &Account::qos>("qos", "qoslevel", "allowed ones; none: those of the account above"),
    key<Account, NamesForm, &Account::coordinators>("coordinators", "", "users who may manage it and what is below"),
    key<Account, TresForm, &Account::quota, &Quota::nominal>("quota", "quotatres", "guaranteed to it"),
    key<Account, TresForm, &Account::quota, &Quota::borrow>("borrow", "borrowtres",
                                                            "the most beyond that; none: whatever is free"),
    key<Account, TresForm, &Account::quota, &Quota::lend>(
        "lend", "lendtres", "the most of what it does not use that goes to others; none: all"),
});

constexpr auto kAssociationKeys = with_limits(std::array{
    key<Association, FlagForm, &Association::is_default>("default", "",
                                                         "the account of this user's jobs that name none"),
    key<Association, SharesForm, &Association::shares>("shares", "fairshare share", "the user's part of the account"),
    key<Association, TextForm, &Association::default_qos>("default_qos", "", "of jobs that name none"),
    key<Association, NamesForm, &Association::qos>("qos", "qoslevel", "allowed ones; none: the account's"),
    key<Association, CountForm, &Association::priority>("priority", "", "for the policy's `weight_assoc`"),
});

constexpr std::array kLicenceKeys = {
    key<Licence, CountForm, &Licence::total>("total", "count", "how many there are", true),
};

constexpr FileKey<Reservation> start_key() {
  return {"start",
          "starttime",
          &MomentForm::row,
          "when it begins, the first time; its zone is also that of its weekdays",
          [](const YamlNode& node, Reservation& r) { return MomentForm::read(node, r.start, r.zone_s); },
          [](const Reservation& r) { return MomentForm::write(r.start, r.zone_s); },
          [](const Reservation& from, Reservation& into) {
            into.start = from.start;
            into.zone_s = from.zone_s;
          },
          true};
}

constexpr std::array kReservationKeys = {
    start_key(),
    key<Reservation, SpanForm, &Reservation::duration>("duration", "", "how long it lasts", true),
    key<Reservation, RecurrenceForm, &Reservation::recurrence>("repeats", "recurrence", "how often it comes again"),
    key<Reservation, HostsForm, &Reservation::nodes>("nodes", "", "its nodes by name"),
    key<Reservation, CountForm, &Reservation::node_count>("node_count", "nodecnt",
                                                          "instead of names: so many, which the controller chooses"),
    key<Reservation, TresForm, &Reservation::tres>("tres", "", "the same by amounts of `cpu` and `gpu`"),
    key<Reservation, TextForm, &Reservation::partition>("partition", "partitionname",
                                                        "nodes are chosen here; none: in the default one"),
    key<Reservation, TextForm, &Reservation::features>("features", "", "and satisfy this constraint"),
    key<Reservation, CountsForm, &Reservation::licenses>("licences", "licenses", "licences that it keeps"),
    key<Reservation, NamesForm, &Reservation::users>("users", "user", "who may use it; `-name`: everybody else"),
    key<Reservation, NamesForm, &Reservation::accounts>("accounts", "account", "the same by account"),
    key<Reservation, NamesForm, &Reservation::groups>("groups", "group", "the same by group"),
    key<Reservation, NamesForm, &Reservation::qos>("qos", "", "the same by QOS"),
    flags<Reservation, &kReservationFlagWords>(kReservationFlagForm, "flags", "", "Slurm's flags of a reservation"),
    key<Reservation, SpanForm, &Reservation::purge_after>("purge_after", "purgecomp",
                                                          "`purge_comp`: removed when unused for so long"),
    key<Reservation, SpanForm, &Reservation::start_delay_max>("start_delay_max", "maxstartdelay",
                                                              "jobs may be delayed so long to use it"),
};

constexpr std::array kPolicyKeys = {
    key<Policy, CountForm, &Policy::weight_age>("weight_age", "priorityweightage", "of the time that a job has waited"),
    key<Policy, CountForm, &Policy::weight_fair_share>("weight_fair_share", "priorityweightfairshare",
                                                       "of the fair-share factor"),
    key<Policy, CountForm, &Policy::weight_job_size>("weight_job_size", "priorityweightjobsize", "of a job's size"),
    key<Policy, CountForm, &Policy::weight_partition>("weight_partition", "priorityweightpartition",
                                                      "of the partition's `priority`"),
    key<Policy, CountForm, &Policy::weight_qos>("weight_qos", "priorityweightqos", "of the QOS' `priority`"),
    key<Policy, CountForm, &Policy::weight_assoc>("weight_assoc", "priorityweightassoc",
                                                  "of the association's `priority`"),
    key<Policy, WeightsForm, &Policy::weight_tres>("weight_tres", "priorityweighttres",
                                                   "of what a job asks for, at the largest job of the cluster"),
    key<Policy, SpanForm, &Policy::age_max>("age_max", "prioritymaxage", "waiting longer gives no more"),
    key<Policy, SpanForm, &Policy::half_life>("half_life", "prioritydecayhalflife",
                                              "past use counts half after so long; 0: it never fades"),
    key<Policy, ResetForm, &Policy::reset>("reset", "priorityusageresetperiod", "when past use is forgotten"),
    key<Policy, MomentForm, &Policy::reset_at>("reset_at", "", "`reset: now`: use before this moment is forgotten"),
    key<Policy, FlagForm, &Policy::favor_small>("favor_small", "priorityfavorsmall",
                                                "small jobs go first, not large ones"),
    key<Policy, SpanForm, &Policy::calc_period>("calc_period", "prioritycalcperiod",
                                                "ages and factors are looked at this often"),
    flags<Policy, &kEnforceWords>(kEnforceForm, "enforce", "accountingstorageenforce",
                                  "who has no association may not submit; who has no QOS; jobs start only if their "
                                  "minutes last"),
    key<Policy, FlagForm, &Policy::preempt_by_tier>("preempt_by_tier", "",
                                                    "jobs of a partition of higher tier stop others"),
    key<Policy, FlagForm, &Policy::preempt_for_quota>("preempt_for_quota", "",
                                                      "jobs within their guarantee stop those that borrow it"),
    key<Policy, PreemptForm, &Policy::preempt_mode>("preempt_mode", "", "what `cluster` stands for"),
    key<Policy, SpanForm, &Policy::preempt_exempt>("preempt_exempt", "preemptexempttime",
                                                   "no job is stopped before it ran so long"),
};

constexpr std::array kTopologyKeys = {
    key<Topology, NamesForm, &Topology::levels>("levels", "", "names of the levels, outermost first", true),
    key<Topology, FlagForm, &Topology::blocks>("blocks", "",
                                               "innermost domains are blocks of NVLink: no segment leaves one"),
};

constexpr std::array kHealthCheckKeys = {
    key<HealthCheck, HostsForm, &HealthCheck::nodes>("nodes", "", "its nodes; `ALL`: every one", true),
    key<HealthCheck, TextForm, &HealthCheck::node_class>("class", "", "of them only those of this class of `nodes`"),
    key<HealthCheck, TextForm, &HealthCheck::partition>("partition", "",
                                                        "of them only those of this partition, where it runs; none: "
                                                        "in any that has the node"),
    key<HealthCheck, TextForm, &HealthCheck::user>("user", "", "the ordinary user that it runs as", true),
    key<HealthCheck, TextForm, &HealthCheck::account>("account", "", "on which account; none: the user's default one"),
    key<HealthCheck, TextForm, &HealthCheck::script>("script", "",
                                                     "what runs; exit code 0: the node is healthy. A first line "
                                                     "`#!PROGRAM` names another shell than `/bin/sh`",
                                                     true),
    key<HealthCheck, FlagForm, &HealthCheck::gpus>("gpus", "gpu", "with all GPUs of the node"),
    key<HealthCheck, SpanForm, &HealthCheck::every>("every", "", "from the end of a run to the start of the next"),
    key<HealthCheck, SpanForm, &HealthCheck::time_limit>("time_limit", "", "longer is a failure"),
    key<HealthCheck, OnUnhealthyForm, &HealthCheck::on_failure>(
        "on_failure", "", "`drain`: the node takes no work until the check passes; `tell`: it is told only"),
    key<HealthCheck, TextForm, &HealthCheck::output>(
        "output", "", "file on the node, written as the user; `%N` is the node, `%x` the check; none: nowhere"),
};

constexpr SectionRow kSections[] = {
    {"nodes", Kind::kNodeClass, "node class",
     "Classes of nodes by name: what is said of nodes before or after they join."},
    {"partitions", Kind::kPartition, "partition", "Partitions by name."},
    {"qos", Kind::kQos, "QOS", "QOS by name."},
    {"accounts", Kind::kAccount, "account",
     "Accounts by name. `accounts` in an account holds those below it, `users` its users; `parent` names the account "
     "above one that stands at the top."},
    {"licences", Kind::kLicence, "licence", "Licences by name; `matlab: 50` is `matlab: {total: 50}`."},
    {"reservations", Kind::kReservation, "reservation", "Reservations by name."},
    {"health_checks", Kind::kHealthCheck, "health check",
     "Checks of nodes that run as jobs while a node is idle, by name (docs/hooks.md)."},
    {"policy", Kind::kPolicy, "policy", "How jobs are ordered and what is enforced."},
    {"topology", Kind::kTopology, "topology",
     "`tree` holds names within names, one for each level, and the nodes of each innermost one."},
};

}  // namespace

template <>
std::span<const FileKey<NodeClass>> file_keys() {
  return kNodeClassKeys;
}
template <>
std::span<const FileKey<Partition>> file_keys() {
  return kPartitionKeys;
}
template <>
std::span<const FileKey<Qos>> file_keys() {
  return kQosKeys;
}
template <>
std::span<const FileKey<Account>> file_keys() {
  return kAccountKeys;
}
template <>
std::span<const FileKey<Association>> file_keys() {
  return kAssociationKeys;
}
template <>
std::span<const FileKey<Licence>> file_keys() {
  return kLicenceKeys;
}
template <>
std::span<const FileKey<Reservation>> file_keys() {
  return kReservationKeys;
}
template <>
std::span<const FileKey<HealthCheck>> file_keys() {
  return kHealthCheckKeys;
}
template <>
std::span<const FileKey<Policy>> file_keys() {
  return kPolicyKeys;
}
template <>
std::span<const FileKey<Topology>> file_keys() {
  return kTopologyKeys;
}

std::span<const SectionRow> file_sections() { return kSections; }

const SectionRow& section_of(Kind kind) {
  for (const SectionRow& section : kSections)
    if (section.kind == kind)
      return section;
  CHECK(false, "a kind that stands in no section");
  return kSections[0];
}

}  // namespace lockstep::wire
