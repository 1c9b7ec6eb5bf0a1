// sacctmgr show: accounts, users, associations, QOS, resources and the cluster's policy as tables.
#include <algorithm>
#include <functional>

#include "base/items.h"
#include "base/text.h"
#include "frontends/slurm/client/api.h"
#include "frontends/slurm/client/key_rows.h"
#include "frontends/slurm/client/sacctmgr.h"
#include "frontends/slurm/client/sacctmgr_words.h"
#include "model/tres_names.h"
#include "wire/api.h"
#include "wire/codec.h"

namespace lockstep::slurm {

namespace {

// One line: whatever of these there is.
struct Line {
  const Account* account = nullptr;
  const Association* association = nullptr;
  const Qos* qos = nullptr;
  const User* user = nullptr;
  const Licence* licence = nullptr;
  const Policy* policy = nullptr;
  std::string cluster, user_name, default_account;
  std::string id, name, kind;  // of TRES

  const Limits* limits() const {
    return association ? &association->limits : qos ? &qos->limits : account ? &account->limits : nullptr;
  }
};

struct ShowField {
  SacctField field;
  std::function<std::string(const Line&)> cell;
};

std::string count_text(std::int64_t count) { return count == kNoLimit ? "" : std::to_string(count); }
std::string shares_text(std::uint32_t shares) { return shares == kParentShares ? "parent" : std::to_string(shares); }
std::string span_text(std::int64_t total_s) {
  const std::int64_t days = total_s / 86400, rest = total_s % 86400;
  const std::string clock = format("{:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60);
  return days > 0 ? format("{}-{}", days, clock) : clock;
}

ShowField tres_field(std::string_view name, int width, TresLimit Limits::*member) {
  return {{name, width, name}, [member](const Line& l) { return l.limits() ? tres_text(l.limits()->*member) : ""; }};
}
ShowField count_field(std::string_view name, int width, std::int64_t Limits::*member) {
  return {{name, width, name}, [member](const Line& l) { return l.limits() ? count_text(l.limits()->*member) : ""; }};
}
ShowField wall_field(std::string_view name, int width, std::int64_t Limits::*member) {
  return {{name, width, name}, [member](const Line& l) -> std::string {
            const std::int64_t minutes = l.limits() ? l.limits()->*member : kNoLimit;
            return minutes == kNoLimit ? "" : span_text(minutes * 60);
          }};
}

// What one kind of record says; nothing where the line has none.
template <class T>
ShowField of(std::string_view name, int width, const T* Line::*who,
             std::type_identity_t<std::string (*)(const T&)> text) {
  return {{name, width, ""}, [who, text](const Line& l) { return l.*who ? text(*(l.*who)) : std::string(); }};
}
// The same of two kinds: the first that there is says it.
template <class First, class Second>
ShowField of(std::string_view name, int width, const First* Line::*first,
             std::type_identity_t<std::string (*)(const First&)> text, const Second* Line::*second,
             std::type_identity_t<std::string (*)(const Second&)> other) {
  return {{name, width, ""}, [=](const Line& l) {
            return l.*first ? text(*(l.*first)) : l.*second ? other(*(l.*second)) : std::string();
          }};
}
ShowField of_line(std::string_view name, int width, std::string (*text)(const Line&)) {
  return {{name, width, ""}, text};
}

std::string name_text(const Line& l) {
  return l.qos ? l.qos->meta.name : l.licence ? l.licence->meta.name : !l.kind.empty() ? l.name : l.user_name;
}
std::string level_text(const Line& l) { return l.user && l.user->admin ? "Administrator" : "None"; }
std::string parent_text(const Line& l) {
  if (!l.account || l.association)
    return {};
  return l.account->parent.empty() ? "root" : l.account->parent;
}
std::string priority_text(const Association& a) { return a.priority ? std::to_string(a.priority) : ""; }
std::string exempt_text(const Qos& q) { return q.preempt_exempt.us ? span_text(q.preempt_exempt.seconds()) : ""; }
std::string mode_text(const Qos& q) {
  constexpr const char* kModes[] = {"cluster", "off", "cancel", "requeue", "suspend", "gang", "checkpoint"};
  return kModes[static_cast<std::size_t>(q.preempt_mode)];
}
std::string threshold_text(const Qos& q) {
  return q.threshold_ppm >= 0 ? format("{:.6f}", static_cast<double>(q.threshold_ppm) / 1e6) : "";
}

const std::vector<ShowField>& fields() {
  constexpr auto kAssociation = &Line::association;
  constexpr auto kAccount = &Line::account;
  constexpr auto kQos = &Line::qos;
  const auto share_of_association = [](const Association& a) { return shares_text(a.shares); };
  const auto share_of_account = [](const Account& a) { return shares_text(a.shares); };
  static const std::vector<ShowField> kFields = {
      of(
          "Account", 10, kAssociation, [](const Association& a) { return a.account; }, kAccount,
          [](const Account& a) { return a.meta.name; }),
      of_line("AdminLevel", 9, level_text),
      of_line("Admin", 9, level_text),
      of("BorrowTRES", 13, kAccount, [](const Account& a) { return tres_text(a.quota.borrow); }),
      of_line("Cluster", 10, [](const Line& l) { return l.cluster; }),
      of_line("ClusterNodes", 20, [](const Line&) { return std::string(); }),
      of("Coordinators", 20, kAccount, [](const Account& a) { return join(a.coordinators, ","); }),
      of("Count", 6, &Line::licence, [](const Licence& one) { return std::to_string(one.total); }),
      of_line("DefaultAccount", 10, [](const Line& l) { return l.default_account; }),
      of(
          "DefaultQOS", 9, kAssociation, [](const Association& a) { return a.default_qos; }, kAccount,
          [](const Account& a) { return a.default_qos; }),
      of(
          "Description", 20, kAccount, [](const Account& a) { return a.description; }, kQos,
          [](const Qos& q) { return q.description; }),
      of("Fairshare", 9, kAssociation, share_of_association, kAccount, share_of_account),
      of("Flags", 20, kQos, flags_text),
      of("GraceTime", 10, kQos, [](const Qos& q) { return span_text(q.grace.seconds()); }),
      count_field("GrpJobs", 7, &Limits::grp_jobs),
      count_field("GrpSubmit", 9, &Limits::grp_submit_jobs),
      tres_field("GrpTRES", 13, &Limits::grp_tres),
      tres_field("GrpTRESMins", 13, &Limits::grp_tres_mins),
      tres_field("GrpTRESRunMins", 13, &Limits::grp_tres_run_mins),
      wall_field("GrpWall", 11, &Limits::grp_wall_mins),
      of_line("ID", 6, [](const Line& l) { return l.id; }),
      of("LendTRES", 13, kAccount, [](const Account& a) { return tres_text(a.quota.lend); }),
      count_field("MaxJobs", 7, &Limits::max_jobs),
      count_field("MaxJobsPA", 9, &Limits::max_jobs_per_account),
      count_field("MaxJobsPU", 9, &Limits::max_jobs_per_user),
      count_field("MaxSubmit", 9, &Limits::max_submit_jobs),
      count_field("MaxSubmitPA", 11, &Limits::max_submit_jobs_per_account),
      count_field("MaxSubmitPU", 11, &Limits::max_submit_jobs_per_user),
      tres_field("MaxTRES", 13, &Limits::max_tres_per_job),
      tres_field("MaxTRESMins", 13, &Limits::max_tres_mins_per_job),
      tres_field("MaxTRESPA", 13, &Limits::max_tres_per_account),
      tres_field("MaxTRESPerNode", 14, &Limits::max_tres_per_node),
      tres_field("MaxTRESPU", 13, &Limits::max_tres_per_user),
      wall_field("MaxWall", 11, &Limits::max_wall_mins_per_job),
      count_field("MinPrioThreshold", 16, &Limits::min_priority),
      tres_field("MinTRES", 13, &Limits::min_tres_per_job),
      of_line("Name", 10, name_text),
      of("Organization", 20, kAccount, [](const Account& a) { return a.organization; }),
      of_line("ParentName", 10, parent_text),
      of("Partition", 10, kAssociation, [](const Association& a) { return a.partition; }),
      of("Preempt", 10, kQos, [](const Qos& q) { return join(q.preempts, ","); }),
      of("PreemptExemptTime", 19, kQos, exempt_text),
      of("PreemptMode", 11, kQos, mode_text),
      of(
          "Priority", 10, kQos, [](const Qos& q) { return std::to_string(q.priority); }, kAssociation, priority_text),
      of(
          "QOS", 20, kAssociation, [](const Association& a) { return join(a.qos, ","); }, kAccount,
          [](const Account& a) { return join(a.qos, ","); }),
      of("QuotaTRES", 13, kAccount, [](const Account& a) { return tres_text(a.quota.nominal); }),
      of("Share", 9, kAssociation, share_of_association, kAccount, share_of_account),
      of_line("Type", 8, [](const Line& l) { return l.licence ? std::string("License") : l.kind; }),
      of("UsageFactor", 11, kQos, [](const Qos& q) { return format("{:.6f}", q.usage_factor_milli / 1000.0); }),
      of("UsageThres", 10, kQos, threshold_text),
      of_line("User", 10, [](const Line& l) { return l.user_name; }),
  };
  return kFields;
}

constexpr std::string_view kAssociationFormat =
    "Cluster,Account,User,Partition,Share,Priority,GrpJobs,GrpTRES,GrpSubmit,GrpWall,GrpTRESMins,MaxJobs,MaxTRES,"
    "MaxTRESPerNode,MaxSubmit,MaxWall,MaxTRESMins,QOS%20,DefaultQOS,GrpTRESRunMins";
constexpr std::string_view kQosFormat =
    "Name,Priority,GraceTime,Preempt,PreemptExemptTime,PreemptMode,Flags%40,UsageThres,UsageFactor,GrpTRES,GrpTRESMins,"
    "GrpTRESRunMins,GrpJobs,GrpSubmit,GrpWall,MaxTRES,MaxTRESPerNode,MaxTRESMins,MaxWall,MaxTRESPU,MaxJobsPU,"
    "MaxSubmitPU,MaxTRESPA,MaxJobsPA,MaxSubmitPA,MinTRES";

struct ShowColumn {
  const ShowField* field = nullptr;
  SacctColumn column;
};

// Names in any case; a unique beginning is enough ("format=acc,us%20").
Result<std::vector<ShowColumn>> parse_format(std::string_view text) {
  std::vector<ShowColumn> out;
  for (const std::string& part : items_of(text)) {
    const auto percent = part.find('%');
    const std::string name = lower(trim(std::string_view(part).substr(0, percent)));
    const ShowField* found = nullptr;
    for (const ShowField& field : fields()) {
      const std::string known = lower(field.field.name);
      if (known == name) {
        found = &field;
        break;
      }
      if (!found && !name.empty() && known.starts_with(name))
        found = &field;
    }
    if (!found)
      return invalid(format("Unknown field '{}'", part));
    int width = found->field.width;
    if (percent != std::string::npos) {
      const auto given = parse_int(std::string_view(part).substr(percent + 1));
      if (!given || *given < -10000 || *given > 10000)
        return invalid(format("Invalid width: \"{}\"", part));
      width = static_cast<int>(*given);
    }
    out.push_back({found, {&found->field, width}});
  }
  return out;
}

// What sacctmgr writes above a column whose field has a different name.
std::string_view head_of(std::string_view field) {
  constexpr std::pair<std::string_view, std::string_view> kHeads[] = {
      {"AdminLevel", "Admin"},   {"Coordinators", "Coord Accounts"}, {"DefaultAccount", "Def Acct"},
      {"DefaultQOS", "Def QOS"}, {"Description", "Descr"},           {"Organization", "Org"},
      {"ParentName", "Par Name"}};
  const auto at =
      std::find_if(std::begin(kHeads), std::end(kHeads), [&](const auto& row) { return row.first == field; });
  return at == std::end(kHeads) ? field : at->second;
}

void print(const SacctmgrSession& session, const std::vector<ShowColumn>& columns, const std::vector<Line>& lines) {
  std::string body;
  std::vector<SacctField> heads;
  for (const ShowColumn& column : columns) {
    heads.push_back(*column.column.field);
    heads.back().name = head_of(heads.back().name);
  }
  std::vector<SacctColumn> shown;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    shown.push_back(columns[c].column);
    shown.back().field = &heads[c];
  }
  for (const Line& line : lines) {
    for (std::size_t c = 0; c < columns.size(); ++c) {
      std::string cell = columns[c].field->cell(line);
      std::replace(cell.begin(), cell.end(), '\t', ' ');
      std::replace(cell.begin(), cell.end(), '\n', ' ');
      (body += c ? "\t" : "") += cell;
    }
    body += '\n';
  }
  const Rows rows(std::move(body), columns.size());
  say(write_sacct(shown, rows, session.look));
}

struct Filter {
  std::vector<std::string> names, users, accounts, partitions, qos;
  std::string format;
  bool with_associations = false, with_coordinators = false;

  static bool in(const std::vector<std::string>& list, const std::string& name) {
    return list.empty() || std::find(list.begin(), list.end(), name) != list.end();
  }
};

// Words that change nothing here.
constexpr std::string_view kIdleWords = "where withdeleted wopinfo wopilimits tree onlydefaults";
constexpr std::string_view kIdleKeys = "cluster clusters type";

// False: the bare word is none that stands for itself, so it is a name.
bool take_plain_word(Filter& filter, std::string_view word) {
  if (is_among("withassoc withassociations", word))
    return filter.with_associations = true;
  if (is_among("withcoord withcoordinators", word))
    return filter.with_coordinators = true;
  return is_among(kIdleWords, word);
}

std::vector<std::string>* list_of(Filter& filter, std::string_view key) {
  if (key.empty() || is_among("name names", key))
    return &filter.names;
  return key.starts_with("user")        ? &filter.users
         : key.starts_with("acc")       ? &filter.accounts
         : key.starts_with("partition") ? &filter.partitions
         : key.starts_with("qos")       ? &filter.qos
                                        : nullptr;
}

Result<void> take_condition(Filter& filter, const KeyWord& word, const std::string& text) {
  if (word.key.empty() && take_plain_word(filter, lower(word.value)))
    return {};
  if (word.key == "format") {
    filter.format = word.value;
    return {};
  }
  if (!word.key.empty() && is_among(kIdleKeys, word.key))
    return {};
  auto* const list = list_of(filter, word.key);
  if (!list)
    return invalid(format(" Unknown condition: {}", text));
  for (const std::string& name : items_of(word.value)) list->push_back(lower(name));
  return {};
}

Result<Filter> read_filter(const std::vector<std::string>& words, const std::string& entity) {
  Filter out;
  for (const std::string& text : words) TRY(take_condition(out, key_word(text), text));
  // Bare names are those of what is shown.
  auto* const own = entity == "account" ? &out.accounts
                    : entity == "user"  ? &out.users
                    : entity == "qos"   ? &out.qos
                                        : nullptr;
  if (own)
    own->insert(own->end(), out.names.begin(), out.names.end());
  return out;
}

// What lines point to.
struct Loaded {
  std::vector<Ref<Account>> accounts;
  std::vector<Ref<Association>> associations;
  std::vector<Ref<User>> users;
  std::vector<Ref<Qos>> qos;
  std::vector<Ref<Licence>> licences;
  Account root;
  std::string cluster;
};

Result<void> load_tree(Query& query, Loaded& loaded) {
  loaded.accounts = TRY(records<Account>(query, "/v1/accounts", Kind::kAccount));
  loaded.associations = TRY(records<Association>(query, "/v1/associations", Kind::kAssociation));
  return {};
}

Line account_line(const Loaded& loaded, const Account& account) {
  Line line;
  line.account = &account;
  line.cluster = loaded.cluster;
  return line;
}

Line association_line(const Loaded& loaded, const Association& association) {
  Line line;
  line.association = &association;
  line.cluster = loaded.cluster;
  line.user_name = association.user;
  return line;
}

void add_below(const Loaded& loaded, const Filter& filter, const std::string& parent, std::vector<Line>& out) {
  for (const auto& a : loaded.associations)
    if (a->account == parent && Filter::in(filter.users, a->user) && Filter::in(filter.accounts, a->account) &&
        Filter::in(filter.partitions, a->partition))
      out.push_back(association_line(loaded, *a));
  for (const auto& account : loaded.accounts) {
    if ((account->parent.empty() ? "root" : account->parent) != parent)
      continue;
    if (filter.users.empty() && Filter::in(filter.accounts, account->meta.name))
      out.push_back(account_line(loaded, *account));
    add_below(loaded, filter, account->meta.name, out);
  }
}

// The tree, depth first: root, and below each account its users and then its accounts.
Result<std::vector<Line>> association_lines(Query& query, const Filter& filter, Loaded& loaded) {
  TRY(load_tree(query, loaded));
  std::vector<Line> out;
  if (filter.users.empty() && Filter::in(filter.accounts, "root"))
    out.push_back(account_line(loaded, loaded.root));
  add_below(loaded, filter, "root", out);
  return out;
}

// Whoever has a record or an association.
std::vector<std::string> names_of_users(const Loaded& loaded) {
  std::vector<std::string> names;
  for (const auto& user : loaded.users) names.push_back(user->meta.name);
  for (const auto& a : loaded.associations) names.push_back(a->user);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

Line user_line(const Loaded& loaded, const std::string& name) {
  Line line;
  line.user_name = name;
  line.cluster = loaded.cluster;
  for (const auto& user : loaded.users)
    if (user->meta.name == name)
      line.user = user.get();
  for (const auto& a : loaded.associations)
    if (a->user == name && a->is_default)
      line.default_account = a->account;
  return line;
}

Result<std::vector<Line>> user_lines(Query& query, const Filter& filter, Loaded& loaded) {
  TRY(load_tree(query, loaded));
  loaded.users = TRY(records<User>(query, "/v1/users", Kind::kUser));
  std::vector<Line> out;
  for (const std::string& name : names_of_users(loaded)) {
    if (!Filter::in(filter.users, name))
      continue;
    const Line line = user_line(loaded, name);
    const std::size_t before = out.size();
    for (const auto& a : loaded.associations)
      if (filter.with_associations && a->user == name && Filter::in(filter.accounts, a->account))
        out.emplace_back(line).association = a.get();
    if (out.size() == before && filter.accounts.empty())
      out.push_back(line);
  }
  return out;
}

Result<std::vector<Line>> account_lines(Query& query, const Filter& filter, Loaded& loaded) {
  TRY(load_tree(query, loaded));
  std::vector<Line> out;
  const auto add = [&](const Account& account) {
    if (Filter::in(filter.accounts, account.meta.name))
      out.push_back(account_line(loaded, account));
  };
  for (const auto& account : loaded.accounts) add(*account);
  add(loaded.root);
  return out;
}

Result<std::vector<Line>> qos_lines(Query& query, const Filter& filter, Loaded& loaded) {
  loaded.qos = TRY(records<Qos>(query, "/v1/qos", Kind::kQos));
  std::vector<Line> out;
  for (const auto& one : loaded.qos)
    if (Filter::in(filter.qos, one->meta.name))
      out.emplace_back().qos = one.get();
  return out;
}

Result<std::vector<Line>> licence_lines(Query& query, const Filter& filter, Loaded& loaded) {
  loaded.licences = TRY(records<Licence>(query, "/v1/licences", Kind::kLicence));
  std::vector<Line> out;
  for (const auto& one : loaded.licences)
    if (Filter::in(filter.names, one->meta.name))
      out.emplace_back().licence = one.get();
  return out;
}

Result<std::vector<Line>> tres_lines(Query&, const Filter&, Loaded&) {
  struct Tres {
    const char *id, *kind, *name;
  };
  constexpr Tres kTres[] = {{"1", "cpu", ""},  {"2", "mem", ""},     {"3", "energy", ""},
                            {"4", "node", ""}, {"5", "billing", ""}, {"1001", "gres", "gpu"}};
  std::vector<Line> out;
  for (const Tres& tres : kTres) {
    Line& line = out.emplace_back();
    line.id = tres.id;
    line.kind = tres.kind;
    line.name = tres.name;
  }
  return out;
}

Result<std::vector<Line>> cluster_lines(Query&, const Filter&, Loaded& loaded) {
  std::vector<Line> out(1);
  out[0].cluster = loaded.cluster;
  return out;
}

struct Shown {
  std::string_view entity;
  std::string_view path;  // of its records, for --json
  std::string_view format;
  std::string_view format_with_associations;  // "" = the same
  Result<std::vector<Line>> (*lines)(Query&, const Filter&, Loaded&);
};
constexpr Shown kShown[] = {
    {"account", "/v1/accounts", "Account,Description,Organization",
     "Account,Description,Organization,Cluster,ParentName,User,Share,GrpJobs,GrpTRES,GrpSubmit,GrpWall,GrpTRESMins,"
     "MaxJobs,MaxTRES,MaxSubmit,MaxWall,QOS,DefaultQOS",
     account_lines},
    {"association", "/v1/associations", kAssociationFormat, "", association_lines},
    {"cluster", "/v1/policy", "Cluster", "", cluster_lines},
    {"coordinator", "/v1/associations", kAssociationFormat, "", account_lines},
    {"qos", "/v1/qos", kQosFormat, "", qos_lines},
    {"resource", "/v1/licences", "Name,Type,Count", "", licence_lines},
    {"tres", "/v1/associations", "Type,Name%15,ID", "", tres_lines},
    {"user", "/v1/users", "User,DefaultAccount,Admin",
     "User,DefaultAccount,Admin,Cluster,Account,Partition,Share,Priority,MaxJobs,MaxTRES,MaxSubmit,MaxWall,QOS,"
     "DefaultQOS",
     user_lines}};

const Shown& shown_of(std::string_view entity) {
  const auto found =
      std::find_if(std::begin(kShown), std::end(kShown), [&](const Shown& one) { return one.entity == entity; });
  CHECK(found != std::end(kShown), entity);
  return *found;
}

std::string format_of(const Shown& shown, const Filter& filter) {
  if (!filter.format.empty())
    return filter.format;
  if (filter.with_associations && !shown.format_with_associations.empty())
    return std::string(shown.format_with_associations);
  const bool coordinators = shown.entity == "account" && filter.with_coordinators;
  return format("{}{}", shown.format, coordinators ? ",Coordinators" : "");
}

Result<void> show(const SacctmgrSession& session, const std::string& entity, const std::vector<std::string>& words) {
  Query query(session.context);
  const Shown& shown = shown_of(entity);
  Filter filter = TRY(read_filter(words, entity));
  filter.with_associations |= session.with_associations;
  if (session.json) {
    say(TRY(query.get(shown.path, {})) + "\n");
    return {};
  }
  Loaded loaded;
  loaded.root.meta.name = "root";
  loaded.root.description = "default root account";
  loaded.root.organization = "root";
  loaded.cluster = TRY(decode_ping(TRY(query.get("/v1/ping", {})))).cluster;
  const auto columns = TRY(parse_format(format_of(shown, filter)));
  print(session, columns, TRY(shown.lines(query, filter, loaded)));
  return {};
}

}  // namespace

int sacctmgr_show(const SacctmgrSession& session, const std::string& entity, const std::vector<std::string>& words) {
  const auto done = show(session, entity, words);
  if (!done && !say_unreached(session.voice, kNoDatabase, done.error()))
    session.voice.error(done.error().message);
  return done ? 0 : 1;
}

}  // namespace lockstep::slurm
