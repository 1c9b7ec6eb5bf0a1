#include "rules/limits.h"

#include <algorithm>

#include "base/text.h"
#include "rules/limit_words.h"

namespace lockstep {

namespace {

constexpr std::int64_t kMinuteMs = 60'000;

// Everything that bounds one job, nearest first.
struct Level {
  std::string holder;
  const Limits* limits = nullptr;
  Use use;
  const Qos* qos = nullptr;  // of a QOS
  const Account* account = nullptr;
  const Association* association = nullptr;
};
struct Levels {
  std::vector<Level> qos, assoc;
  Use own;  // of the user in the account, whether or not there is a record
  std::string own_partition;
};

Levels levels_of(const Directory& directory, const Ledger& ledger, const LimitAsk& ask) {
  const JobSpec& spec = *ask.spec;
  Levels out;
  const auto add_qos = [&](const std::string& name) {
    const Qos* qos = name.empty() ? nullptr : directory.qos_named(name);
    if (qos && std::none_of(out.qos.begin(), out.qos.end(), [&](const Level& l) { return l.qos == qos; }))
      out.qos.push_back({"QOS " + name, &qos->limits, ledger.of_qos(name), qos, nullptr, nullptr});
  };
  const Qos* own = directory.qos_named(spec.qos);
  const bool own_first = own && own->override_partition;
  if (own_first)
    add_qos(spec.qos);
  if (ask.partition)
    add_qos(ask.partition->qos);
  add_qos(spec.qos);

  const std::string partition = ask.partition ? ask.partition->meta.name : "";
  const Association* a = directory.association(spec.account, spec.user, partition);
  if (a || directory.account(spec.account))
    out.own = ledger.of_association(directory, spec.account, spec.user, out.own_partition = a ? a->partition : "");
  if (a)
    out.assoc.push_back(
        {format("user {} in account {}", a->user, a->account), &a->limits, out.own, nullptr, nullptr, a});
  for (const Account* account : directory.chain_of(spec.account))
    out.assoc.push_back({"account " + account->meta.name, &account->limits, ledger.of_account(account->meta.name),
                         nullptr, account, nullptr});
  return out;
}

Denial denial(std::string_view word, const Level& level, const Excess& excess, bool lasting) {
  return {std::string(word), level.holder, excess, lasting};
}

// A bound on a plain number.
std::optional<Denial> over(std::string_view word, const Level& level, std::int64_t bound, std::int64_t in_use,
                           std::int64_t ask, std::string_view what, bool lasting) {
  if (bound == kNoLimit || in_use + ask <= bound)
    return std::nullopt;
  return denial(word, level, {std::string(what), bound, in_use, ask}, lasting);
}

// Names that a level before this one has bounded are its business no more.
void hide(TresLimit& limit, const TresLimit& by) {
  for (const TresField& field : kTresFields)
    if (by.*field.limit != kNoLimit)
      limit.*field.limit = kNoLimit;
  for (const NamedCount& other : by.others) set_bound(limit, other.name, kNoLimit);
}
void cover(TresLimit& sum, const TresLimit& by) {
  for (const TresField& field : kTresFields)
    if (sum.*field.limit == kNoLimit)
      sum.*field.limit = by.*field.limit;
  for (const NamedCount& other : by.others)
    if (bound_of(sum, other.name) == kNoLimit)
      set_bound(sum, other.name, other.count);
}

// One TRES limit over all levels. look(level, limit) gives the excess of what is left of the limit at a level.
// nearest: of associations only the first that bounds an amount counts.
template <class Look>
std::optional<Denial> each_level(const Levels& levels, TresLimit Limits::*member, LimitFamily qos_family,
                                 LimitFamily assoc_family, bool nearest, bool lasting, Look&& look) {
  TresLimit hidden;
  const auto at = [&](const Level& level, LimitFamily family, bool hides) -> std::optional<Denial> {
    const TresLimit& whole = level.limits->*member;
    if (bounds_nothing(whole))
      return std::nullopt;
    TresLimit limit = whole;
    hide(limit, hidden);
    if (hides)
      cover(hidden, whole);
    if (auto excess = look(level, limit))
      return denial(limit_word(family, excess->name), level, *excess, lasting);
    return std::nullopt;
  };
  for (const Level& level : levels.qos)
    if (auto no = at(level, qos_family, true))
      return no;
  for (const Level& level : levels.assoc)
    if (auto no = at(level, assoc_family, nearest))
      return no;
  return std::nullopt;
}

// The same for a plain number; bound kNoLimit = not set here.
template <class Look>
std::optional<Denial> each_number(const Levels& levels, std::int64_t Limits::*member, bool nearest, Look&& look) {
  for (const Level& level : levels.qos)
    if (level.limits->*member != kNoLimit)
      return look(level, level.limits->*member);  // the first hides the others
  for (const Level& level : levels.assoc)
    if (level.limits->*member != kNoLimit) {
      if (auto no = look(level, level.limits->*member))
        return no;
      if (nearest)
        return std::nullopt;
    }
  return std::nullopt;
}

// Without a limit so many that no bound allows them, and that a sum of a few is still a number.
std::int64_t minutes_of(Duration limit) {
  return limit >= kForever ? INT64_MAX / 4 : (limit.us + 59'999'999) / 60'000'000;
}

// What the job alone exceeds: it will not start until the limit or the job changes.
std::optional<Denial> own_size(const Levels& levels, const LimitAsk& ask, bool whole) {
  const auto alone = [&](const Level&, const TresLimit& limit) { return first_excess(limit, {}, ask.tres); };
  if (auto no = each_level(levels, &Limits::max_tres_per_job, LimitFamily::kQosMaxPerJob, LimitFamily::kAssocMaxPerJob,
                           true, true, alone))
    return no;
  if (ask.per_node)
    if (auto no = each_level(levels, &Limits::max_tres_per_node, LimitFamily::kQosMaxPerNode,
                             LimitFamily::kAssocMaxPerNode, true, false,
                             [&](const Level&, const TresLimit& l) { return first_excess(l, {}, *ask.per_node); }))
      return no;
  if (auto no = each_number(levels, &Limits::max_wall_mins_per_job, true, [&](const Level& level, std::int64_t bound) {
        const auto word = level.qos ? "QOSMaxWallDurationPerJobLimit" : "AssocMaxWallDurationPerJobLimit";
        return over(word, level, bound, 0, minutes_of(ask.limit), "minutes", true);
      }))
    return no;
  const Tres minutes = limit_minutes(ask.tres, ask.limit);
  if (auto no = each_level(levels, &Limits::max_tres_mins_per_job, LimitFamily::kQosMaxMinutesPerJob,
                           LimitFamily::kAssocMaxMinutesPerJob, true, true,
                           [&](const Level&, const TresLimit& l) { return first_excess(l, {}, minutes); }))
    return no;
  // What a place adds may make up for what the bare request lacks.
  for (const Level& level : levels.qos)
    if (auto less = !whole ? std::nullopt : first_shortfall(level.limits->min_tres_per_job, ask.tres))
      return denial(limit_word(LimitFamily::kQosMin, less->name), level, *less, true);
  return std::nullopt;
}

// A number of the user's own association; the nearest account gives it where the association says nothing.
std::optional<Denial> user_in_account(const Levels& levels, std::int64_t Limits::*member, std::string_view word,
                                      std::int64_t in_use, std::int64_t ask, bool lasting) {
  for (const Level& level : levels.assoc)
    if (level.limits->*member != kNoLimit)
      return over(word, level, level.limits->*member, in_use, ask, "jobs", lasting);
  return std::nullopt;
}

std::optional<NodesInUse> group_nodes(const Directory& directory, const Levels& levels, const Ledger& ledger,
                                      const Level& level, const JobSpec& spec) {
  if (level.limits->grp_tres.nodes == kNoLimit)
    return std::nullopt;
  if (level.qos)
    return ledger.nodes_of_qos(level.qos->meta.name);
  if (level.account)
    return ledger.nodes_of_account(level.account->meta.name);
  return ledger.nodes_of_association(directory, spec.account, spec.user, levels.own_partition);
}

// What is too much with what is in use. A node counts once, however many jobs share it; as long as no place is known,
// as many as possible are shared.
std::optional<Excess> group_excess(const TresLimit& limit, const Tres& in_use, const LimitAsk& ask,
                                   const std::optional<NodesInUse>& nodes) {
  if (limit.nodes == kNoLimit || !nodes)
    return first_excess(limit, in_use, ask.tres);
  Tres before = in_use, more = ask.tres;
  before.nodes = nodes->count();
  const std::int64_t with = ask.nodes.empty() ? std::max(before.nodes, more.nodes) : nodes->count_with(ask.nodes);
  more.nodes = with - before.nodes;
  return first_excess(limit, before, more);
}

// Bounds of groups: a QOS, an account, an association, with whatever their jobs have together.
std::optional<Denial> over_group(const Directory& directory, const Levels& levels, const Ledger& ledger,
                                 const LimitAsk& ask, bool fresh) {
  const Use none;
  const auto use_of = [&](const Level& level) -> const Use& { return fresh ? none : level.use; };
  if (auto no = each_number(levels, &Limits::grp_jobs, false, [&](const Level& level, std::int64_t bound) {
        return over(level.qos ? "QOSGrpJobsLimit" : "AssocGrpJobsLimit", level, bound, use_of(level).jobs, 1, "jobs",
                    fresh);
      }))
    return no;
  return each_level(levels, &Limits::grp_tres, LimitFamily::kQosGrp, LimitFamily::kAssocGrp, false, fresh,
                    [&](const Level& level, const TresLimit& limit) {
                      return group_excess(
                          limit, use_of(level).tres, ask,
                          fresh ? std::nullopt : group_nodes(directory, levels, ledger, level, *ask.spec));
                    });
}

// The bounds that several QOS put on one user, or one account, under each of them: the first QOS that says something of
// an amount is heard, those behind it are not.
class PerHolder {
 public:
  // Whether it is the first bound on how many there are.
  bool is_first(std::int64_t bound) { return bound != kNoLimit && !std::exchange(numbered_, true); }
  // What no earlier one covers; left_of() covers it from now on.
  TresLimit shown_of(const TresLimit& whole) const {
    TresLimit limit = whole;
    hide(limit, hidden_);
    return limit;
  }
  TresLimit left_of(const TresLimit& whole) {
    const TresLimit limit = shown_of(whole);
    cover(hidden_, whole);
    return limit;
  }
  bool is_numbered() const { return numbered_; }

 private:
  bool numbered_ = false;
  TresLimit hidden_;
};

// What is in use together with the job's own. fresh: as if nobody else used anything.
std::optional<Denial> together(const Directory& directory, const Levels& levels, const Ledger& ledger,
                               const LimitAsk& ask, bool fresh) {
  if (auto no = over_group(directory, levels, ledger, ask, fresh))
    return no;
  const JobSpec& spec = *ask.spec;
  PerHolder user, account;
  for (const Level& level : levels.qos) {
    const Limits& l = *level.limits;
    const std::string& name = level.qos->meta.name;
    const auto user_use = [&] { return fresh ? Use() : ledger.of_qos_user(name, spec.user); };
    const auto account_use = [&] { return fresh ? Use() : ledger.of_qos_account(name, spec.account); };
    if (user.is_first(l.max_jobs_per_user))
      if (auto no = over("QOSMaxJobsPerUserLimit", level, l.max_jobs_per_user, user_use().jobs, 1, "jobs", fresh))
        return no;
    if (account.is_first(l.max_jobs_per_account))
      if (auto no = over("MaxJobsPerAccount", level, l.max_jobs_per_account, account_use().jobs, 1, "jobs", fresh))
        return no;
    if (!bounds_nothing(l.max_tres_per_user))
      if (auto no = group_excess(user.left_of(l.max_tres_per_user), user_use().tres, ask,
                                 fresh ? std::nullopt : ledger.nodes_of_qos_user(name, spec.user)))
        return denial(limit_word(LimitFamily::kQosMaxPerUser, no->name), level, *no, fresh);
    if (!bounds_nothing(l.max_tres_per_account))
      if (auto no = group_excess(account.left_of(l.max_tres_per_account), account_use().tres, ask,
                                 fresh ? std::nullopt : ledger.nodes_of_qos_account(name, spec.account)))
        return denial(limit_word(LimitFamily::kMaxPerAccount, no->name), level, *no, fresh);
  }
  if (user.is_numbered())
    return std::nullopt;
  return user_in_account(levels, &Limits::max_jobs, "AssocMaxJobsLimit", fresh ? 0 : levels.own.jobs, 1, fresh);
}

Tres whole_minutes(const Spent& spent) {
  Tres out;
  for (const TresField& field : kTresFields) out.*field.count = spent.tres.*field.count / kMinuteMs;
  out.memory_mb = spent.tres.memory_mb / 60;
  for (const NamedCount& other : spent.tres.others)
    if (other.count >= kMinuteMs)
      out.others.push_back({other.name, other.count / kMinuteMs});
  return out;
}

Spent spent_by(const Directory& directory, const Spendings& spendings, const Level& level) {
  if (level.qos)
    return spendings.of_qos(level.qos->meta.name);
  if (level.account)
    return spendings.of_account(level.account->meta.name);
  return spendings.of_association(directory, *level.association);
}

// Minutes: past ones, and those that running jobs may still use.
std::optional<Denial> minutes(const Directory& directory, const Levels& levels, const LimitAsk& ask, Instant now,
                              const AskSpendings& spendings) {
  const Tres asked = limit_minutes(ask.tres, ask.limit);
  if (auto no = each_level(levels, &Limits::grp_tres_run_mins, LimitFamily::kQosGrpRunMinutes,
                           LimitFamily::kAssocGrpRunMinutes, false, false, [&](const Level& level, const TresLimit& l) {
                             return first_excess(l, run_minutes(level.use, now), asked);
                           }))
    return no;
  const bool safe = directory.policy().enforce_safe;
  if (auto no = each_level(levels, &Limits::grp_tres_mins, LimitFamily::kQosGrpMinutes, LimitFamily::kAssocGrpMinutes,
                           false, false, [&](const Level& level, const TresLimit& l) {
                             Tres in_use = whole_minutes(spent_by(directory, spendings(), level));
                             const bool factor = level.qos && level.qos->usage_factor_safe;
                             if (!safe && !factor) {
                               // It starts as long as anything is left.
                               Tres one = ask.tres;
                               for (const TresField& f : kTresFields)
                                 one.*f.count = std::min<std::int64_t>(1, one.*f.count);
                               for (NamedCount& other : one.others) other.count = 1;
                               return first_excess(l, in_use, one);
                             }
                             add(in_use, run_minutes(level.use, now));
                             return first_excess(l, in_use, asked);
                           }))
    return no;
  return each_number(levels, &Limits::grp_wall_mins, false, [&](const Level& level, std::int64_t bound) {
    const std::int64_t in_use = spent_by(directory, spendings(), level).wall_ms / kMinuteMs;
    return over(level.qos ? "QOSGrpWallLimit" : "AssocGrpWallLimit", level, bound, in_use,
                safe ? minutes_of(ask.limit) : 1, "minutes", false);
  });
}

}  // namespace

std::string Denial::message() const {
  if (excess.in_use > 0)
    return format("{}: {} allows {} {}, {} in use, {} asked for", reason, holder, excess.bound, excess.name,
                  excess.in_use, excess.ask);
  return format("{}: {} allows {} {}, {} asked for", reason, holder, excess.bound, excess.name, excess.ask);
}

std::optional<Denial> first_denial_to_start(const Directory& directory, const Ledger& ledger, const LimitAsk& ask,
                                            Instant now, const AskSpendings& spendings) {
  const Levels levels = levels_of(directory, ledger, ask);
  if (auto no = own_size(levels, ask, ask.per_node.has_value()))
    return no;
  if (auto no = together(directory, levels, ledger, ask, false)) {
    no->lasting = together(directory, levels, ledger, ask, true).has_value();
    return no;
  }
  if (auto no = minutes(directory, levels, ask, now, spendings))
    return no;
  if (auto excess = ledger.quotas().first_excess(ask.spec->account, ask.tres)) {
    const bool lasting = ledger.quotas().first_excess(ask.spec->account, ask.tres, true).has_value();
    return Denial{"AccountQuota", "account " + ask.spec->account, *excess, lasting};
  }
  return std::nullopt;
}

bool amounts_that_bind(const Directory& directory, const Ledger& ledger, const JobSpec& spec,
                       const Partition* partition, std::vector<std::int64_t>& out) {
  const Levels levels =
      levels_of(directory, ledger, {.spec = &spec, .partition = partition, .tres = {}, .per_node = {}});
  const auto look = [&](const TresLimit& limit, const Tres& in_use, const std::optional<NodesInUse>& nodes) {
    for (const TresField& field : kTresFields)
      if (limit.*field.limit != kNoLimit)
        out.push_back(field.limit == &TresLimit::nodes && nodes ? nodes->count() : in_use.*field.count);
    for (const NamedCount& other : limit.others) out.push_back(count_of(in_use, other.name));
  };
  bool minutes = false;
  const auto look_at = [&](const Level& level) {
    const Limits& l = *level.limits;
    minutes = minutes || !bounds_nothing(l.grp_tres_mins) || !bounds_nothing(l.grp_tres_run_mins) ||
              l.grp_wall_mins != kNoLimit;
    look(l.grp_tres, level.use.tres, group_nodes(directory, levels, ledger, level, spec));
    if (l.grp_jobs != kNoLimit)
      out.push_back(level.use.jobs);
    if (l.max_jobs != kNoLimit)
      out.push_back(levels.own.jobs);
  };
  for (const Level& level : levels.qos) {
    look_at(level);
    const Limits& l = *level.limits;
    const std::string& name = level.qos->meta.name;
    const Use& user = ledger.of_qos_user(name, spec.user);
    const Use& account = ledger.of_qos_account(name, spec.account);
    look(l.max_tres_per_user, user.tres, ledger.nodes_of_qos_user(name, spec.user));
    look(l.max_tres_per_account, account.tres, ledger.nodes_of_qos_account(name, spec.account));
    if (l.max_jobs_per_user != kNoLimit)
      out.push_back(user.jobs);
    if (l.max_jobs_per_account != kNoLimit)
      out.push_back(account.jobs);
  }
  for (const Level& level : levels.assoc) look_at(level);
  ledger.quotas().amounts_of(spec.account, out);
  return !minutes;
}

std::optional<Denial> first_denial_to_submit(const Directory& directory, const Ledger& ledger, const LimitAsk& ask,
                                             std::int64_t jobs) {
  const Levels levels = levels_of(directory, ledger, ask);
  const JobSpec& spec = *ask.spec;
  if (auto no = each_number(levels, &Limits::grp_submit_jobs, false, [&](const Level& level, std::int64_t bound) {
        return over(level.qos ? "QOSGrpSubmitJobsLimit" : "AssocGrpSubmitJobsLimit", level, bound, level.use.submitted,
                    jobs, "jobs", jobs > bound);
      }))
    return no;
  bool user_bound = false, account_bound = false;
  for (const Level& level : levels.qos) {
    const Limits& l = *level.limits;
    const std::string& name = level.qos->meta.name;
    if (l.max_submit_jobs_per_user != kNoLimit && !user_bound) {
      user_bound = true;
      if (auto no = over("QOSMaxSubmitJobPerUserLimit", level, l.max_submit_jobs_per_user,
                         ledger.of_qos_user(name, spec.user).submitted, jobs, "jobs", false))
        return no;
    }
    if (l.max_submit_jobs_per_account == kNoLimit || std::exchange(account_bound, true))
      continue;
    if (auto no = over("MaxSubmitJobsPerAccount", level, l.max_submit_jobs_per_account,
                       ledger.of_qos_account(name, spec.account).submitted, jobs, "jobs", false))
      return no;
  }
  if (!user_bound)
    if (auto no = user_in_account(levels, &Limits::max_submit_jobs, "AssocMaxSubmitJobLimit", levels.own.submitted,
                                  jobs, false))
      return no;
  if (std::any_of(levels.qos.begin(), levels.qos.end(), [](const Level& l) { return l.qos->deny_on_limit; })) {
    if (auto no = own_size(levels, ask, true))
      return no;
    if (auto no = together(directory, levels, ledger, ask, true))
      return no;
  }
  return std::nullopt;
}

std::vector<SharedBound> shared_bounds(const Directory& directory, const JobSpec& spec, const Partition* partition) {
  static const Ledger kNobody;
  const Levels levels =
      levels_of(directory, kNobody, {.spec = &spec, .partition = partition, .tres = {}, .per_node = {}});
  std::vector<SharedBound> out;
  const auto add_tres = [&](const std::string& holder, const TresLimit& limit) {
    for (const TresField& field : kTresFields)
      if (limit.*field.limit != kNoLimit && field.limit != &TresLimit::nodes)
        out.push_back({holder, std::string(field.name), limit.*field.limit});
    for (const NamedCount& other : limit.others) out.push_back({holder, other.name, other.count});
  };
  const auto add_jobs = [&](const std::string& holder, std::int64_t bound) {
    if (bound != kNoLimit)
      out.push_back({holder, "jobs", bound});
  };
  PerHolder group, user, account;
  for (const Level& level : levels.qos) {
    const Limits& l = *level.limits;
    add_tres(level.holder, group.left_of(l.grp_tres));
    if (group.is_first(l.grp_jobs))
      add_jobs(level.holder, l.grp_jobs);
    const std::string of_user = format("{}/user {}", level.holder, spec.user.value);
    const std::string of_account = format("{}/account {}", level.holder, spec.account.c_str());
    add_tres(of_user, user.left_of(l.max_tres_per_user));
    add_tres(of_account, account.left_of(l.max_tres_per_account));
    if (user.is_first(l.max_jobs_per_user))
      add_jobs(of_user, l.max_jobs_per_user);
    if (account.is_first(l.max_jobs_per_account))
      add_jobs(of_account, l.max_jobs_per_account);
  }
  // What accounts and associations bound adds up: each of them is heard, unless a QOS spoke before.
  for (const Level& level : levels.assoc) {
    add_tres(level.holder, group.shown_of(level.limits->grp_tres));
    if (!group.is_numbered())
      add_jobs(level.holder, level.limits->grp_jobs);
    if (user.is_first(level.limits->max_jobs))
      add_jobs(format("user {} in account {}", spec.user.value, spec.account.c_str()), level.limits->max_jobs);
  }
  return out;
}

std::vector<MinuteBound> minute_bounds(const Directory& directory, const JobSpec& spec, const Partition* partition) {
  static const Ledger kNobody;
  const LimitAsk ask{.spec = &spec, .partition = partition, .tres = {}, .per_node = {}};
  const Levels levels = levels_of(directory, kNobody, ask);
  std::vector<MinuteBound> out;
  const auto holder = [](const Level& level) {
    return level.association ? "association " + level.association->meta.name : level.holder;
  };
  const auto note = [&](bool per_job) {
    return [&, per_job](const Level& level, const TresLimit& limit) -> std::optional<Excess> {
      for (const TresField& field : kTresFields)
        if (limit.*field.limit != kNoLimit)
          out.push_back({holder(level), std::string(field.name), limit.*field.limit, per_job});
      for (const NamedCount& other : limit.others) out.push_back({holder(level), other.name, other.count, per_job});
      return std::nullopt;
    };
  };
  each_level(levels, &Limits::grp_tres_mins, LimitFamily::kQosGrpMinutes, LimitFamily::kAssocGrpMinutes, false, false,
             note(false));
  each_level(levels, &Limits::max_tres_mins_per_job, LimitFamily::kQosMaxMinutesPerJob,
             LimitFamily::kAssocMaxMinutesPerJob, true, true, note(true));
  each_number(levels, &Limits::grp_wall_mins, false,
              [&](const Level& level, std::int64_t bound) -> std::optional<Denial> {
                out.push_back({holder(level), "", bound, false});
                return std::nullopt;
              });
  return out;
}

std::optional<Denial> licence_denial(const Directory& directory, const Ledger& ledger, const Tres& tres,
                                     const std::vector<NamedCount>& reserved) {
  for (const NamedCount& other : tres.others) {
    if (!other.name.starts_with("license/"))
      continue;
    const std::string name = other.name.substr(8);
    const Licence* licence = directory.licence(name);
    const std::int64_t total = licence ? licence->total : 0;
    std::int64_t in_use = ledger.licences_in_use(name);
    for (const NamedCount& kept : reserved) in_use += kept.name == name ? kept.count : 0;
    if (in_use + other.count > total)
      return Denial{"Licenses", "licence " + name, {other.name, total, in_use, other.count}, other.count > total};
  }
  return std::nullopt;
}

namespace {

// The nearest list of allowed QOS, and the nearest default.
struct QosRights {
  const std::vector<std::string>* allowed = nullptr;
  std::string fallback;
};
QosRights qos_rights(const Directory& directory, const Association* own, const std::string& account) {
  QosRights out;
  const auto look = [&](const std::vector<std::string>& allowed, const std::string& fallback) {
    if (!out.allowed && !allowed.empty())
      out.allowed = &allowed;
    if (out.fallback.empty())
      out.fallback = fallback;
  };
  if (own)
    look(own->qos, own->default_qos);
  for (const Account* a : directory.chain_of(account)) look(a->qos, a->default_qos);
  if (out.fallback.empty() && out.allowed && out.allowed->size() == 1)
    out.fallback = out.allowed->front();
  return out;
}

}  // namespace

namespace {

// Slurm's accounts and QOS have no capitals, and it folds those that are written: so are they found here, where no name
// is spelt as it was written.
template <class Known>
std::string as_known(const std::string& written, Known&& known) {
  const std::string folded = lower(written);
  return !known(written) && known(folded) ? folded : written;
}

}  // namespace

namespace {

std::string account_of(const Directory& directory, const JobSpec& spec, const User* user) {
  const std::string named =
      as_known(spec.account, [&](const std::string& name) { return directory.account(name) != nullptr; });
  if (!named.empty() || !user)
    return named;
  const std::string fallback = directory.default_account(user->meta.name);
  return fallback.empty() ? std::string(user->account) : fallback;
}

std::string qos_of(const Directory& directory, const JobSpec& spec, const QosRights& rights) {
  const std::string named =
      as_known(spec.qos, [&](const std::string& name) { return directory.qos_named(name) != nullptr; });
  if (!named.empty())
    return named;
  return !rights.fallback.empty() ? rights.fallback : directory.qos_named("normal") ? "normal" : "";
}

Result<void> check_qos(const Directory& directory, const QosRights& rights, const Standing& standing) {
  const bool enforced = directory.policy().enforce_qos;
  if (standing.qos.empty())
    return enforced ? Result<void>(invalid("Invalid qos specification: a QOS is needed", "qos")) : Result<void>();
  if (!directory.qos_named(standing.qos) && !(directory.qos.empty() && !enforced))
    return invalid(format("Invalid qos specification: there is no QOS {}", standing.qos), "qos");
  if (rights.allowed &&
      std::find(rights.allowed->begin(), rights.allowed->end(), standing.qos) == rights.allowed->end())
    return invalid(
        format("Invalid qos specification: account {} allows {}", standing.account, join(*rights.allowed, ",")), "qos");
  return {};
}

}  // namespace

Result<Standing> standing_of(const Directory& directory, const JobSpec& spec) {
  const User* user = directory.user(spec.user);
  Standing out;
  out.account = account_of(directory, spec, user);
  const std::string partition = spec.partitions.empty() ? "" : spec.partitions.front();
  const Association* own = directory.association(out.account, spec.user, partition);
  // As in Slurm the administrator needs none: who keeps the cluster going must be able to try it.
  const bool is_root =
      user && user->uid == 0 && user->realm == "local" && (out.account.empty() || directory.account(out.account));
  if (directory.policy().enforce_associations && !own && !is_root)
    return invalid(
        format("Invalid account or account/partition combination specified: user {} has no association with "
               "account {}",
               user ? user->meta.name : std::to_string(spec.user.value), out.account.empty() ? "(none)" : out.account),
        "account");
  const QosRights rights = qos_rights(directory, own, out.account);
  out.qos = qos_of(directory, spec, rights);
  TRY(check_qos(directory, rights, out));
  return out;
}

std::optional<std::string> partition_refuses(const Partition& partition, const std::string& account,
                                             const std::string& qos) {
  const auto in = [](const std::vector<std::string>& list, const std::string& name) {
    return std::find(list.begin(), list.end(), name) != list.end();
  };
  if (partition.allow_accounts.empty() ? in(partition.deny_accounts, account) : !in(partition.allow_accounts, account))
    return "AccountNotAllowed";
  if (partition.allow_qos.empty() ? in(partition.deny_qos, qos) : !in(partition.allow_qos, qos))
    return "QOSNotAllowed";
  return std::nullopt;
}

std::optional<Partition> eased_for(const Directory& directory, const Partition& partition, const std::string& name) {
  const Qos* qos = directory.qos_named(name);
  if (!qos || (!qos->partition_time && !qos->partition_nodes_max))
    return std::nullopt;
  Partition eased = partition;
  if (qos->partition_time)
    eased.time_max = kForever;
  if (qos->partition_nodes_max)
    eased.nodes_max = 0;
  return eased;
}

std::int64_t min_priority_of(const Directory& directory, const JobSpec& spec, const Partition* partition) {
  if (partition)
    if (const Qos* qos = directory.qos_named(partition->qos); qos && qos->limits.min_priority != kNoLimit)
      return qos->limits.min_priority;
  if (const Qos* qos = directory.qos_named(spec.qos); qos && qos->limits.min_priority != kNoLimit)
    return qos->limits.min_priority;
  if (const Association* own = directory.association(spec.account, spec.user, partition ? partition->meta.name : ""))
    if (own->limits.min_priority != kNoLimit)
      return own->limits.min_priority;
  for (const Account* account : directory.chain_of(spec.account))
    if (account->limits.min_priority != kNoLimit)
      return account->limits.min_priority;
  return 0;
}

}  // namespace lockstep
