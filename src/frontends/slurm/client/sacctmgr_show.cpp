// sacctmgr show: accounts, users, associations, QOS, resources and the cluster's policy as tables.
#include <algorithm>
#include <functional>

#include "base/text.h"
#include "frontends/slurm/client/api.h"
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

const std::vector<ShowField>& fields() {
  using S = std::string;
  static const std::vector<ShowField> kFields = {
      {{"Account", 10, ""},
       [](const Line& l) { return l.association ? l.association->account
                                  : l.account   ? l.account->meta.name
                                                : S(); }},
      {{"AdminLevel", 9, ""}, [](const Line& l) { return S(l.user && l.user->admin ? "Administrator" : "None"); }},
      {{"Admin", 9, ""}, [](const Line& l) { return S(l.user && l.user->admin ? "Administrator" : "None"); }},
      {{"BorrowTRES", 13, ""}, [](const Line& l) { return l.account ? tres_text(l.account->quota.borrow) : S(); }},
      {{"Cluster", 10, ""}, [](const Line& l) { return l.cluster; }},
      {{"ClusterNodes", 20, ""}, [](const Line&) { return S(); }},
      {{"Coordinators", 20, ""}, [](const Line& l) { return l.account ? join(l.account->coordinators, ",") : S(); }},
      {{"Count", 6, ""}, [](const Line& l) { return l.licence ? std::to_string(l.licence->total) : S(); }},
      {{"DefaultAccount", 10, ""}, [](const Line& l) { return l.default_account; }},
      {{"DefaultQOS", 9, ""},
       [](const Line& l) {
         return l.association ? l.association->default_qos : l.account ? l.account->default_qos : S();
       }},
      {{"Description", 20, ""},
       [](const Line& l) { return l.account ? l.account->description
                                  : l.qos   ? l.qos->description
                                            : S(); }},
      {{"Fairshare", 9, ""},
       [](const Line& l) {
         return l.association ? shares_text(l.association->shares) : l.account ? shares_text(l.account->shares) : S();
       }},
      {{"Flags", 20, ""}, [](const Line& l) { return l.qos ? flags_text(*l.qos) : S(); }},
      {{"GraceTime", 10, ""}, [](const Line& l) { return l.qos ? span_text(l.qos->grace.seconds()) : S(); }},
      count_field("GrpJobs", 7, &Limits::grp_jobs),
      count_field("GrpSubmit", 9, &Limits::grp_submit_jobs),
      tres_field("GrpTRES", 13, &Limits::grp_tres),
      tres_field("GrpTRESMins", 13, &Limits::grp_tres_mins),
      tres_field("GrpTRESRunMins", 13, &Limits::grp_tres_run_mins),
      wall_field("GrpWall", 11, &Limits::grp_wall_mins),
      {{"ID", 6, ""}, [](const Line& l) { return l.id; }},
      {{"LendTRES", 13, ""}, [](const Line& l) { return l.account ? tres_text(l.account->quota.lend) : S(); }},
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
      {{"Name", 10, ""},
       [](const Line& l) {
         return l.qos ? l.qos->meta.name : l.licence ? l.licence->meta.name : !l.kind.empty() ? l.name : l.user_name;
       }},
      {{"Organization", 20, ""}, [](const Line& l) { return l.account ? l.account->organization : S(); }},
      {{"ParentName", 10, ""},
       [](const Line& l) {
         return l.association ? S() : l.account ? l.account->parent.empty() ? "root" : l.account->parent : S();
       }},
      {{"Partition", 10, ""}, [](const Line& l) { return l.association ? l.association->partition : S(); }},
      {{"Preempt", 10, ""}, [](const Line& l) { return l.qos ? join(l.qos->preempts, ",") : S(); }},
      {{"PreemptExemptTime", 19, ""},
       [](const Line& l) {
         return l.qos && l.qos->preempt_exempt.us ? span_text(l.qos->preempt_exempt.seconds()) : S();
       }},
      {{"PreemptMode", 11, ""},
       [](const Line& l) {
         constexpr const char* kModes[] = {"cluster", "off", "cancel", "requeue", "suspend", "gang", "checkpoint"};
         return l.qos ? S(kModes[static_cast<std::size_t>(l.qos->preempt_mode)]) : S();
       }},
      {{"Priority", 10, ""},
       [](const Line& l) {
         return l.qos                                      ? std::to_string(l.qos->priority)
                : l.association && l.association->priority ? std::to_string(l.association->priority)
                                                           : S();
       }},
      {{"QOS", 20, ""},
       [](const Line& l) {
         return l.association ? join(l.association->qos, ",") : l.account ? join(l.account->qos, ",") : S();
       }},
      {{"QuotaTRES", 13, ""}, [](const Line& l) { return l.account ? tres_text(l.account->quota.nominal) : S(); }},
      {{"Share", 9, ""},
       [](const Line& l) {
         return l.association ? shares_text(l.association->shares) : l.account ? shares_text(l.account->shares) : S();
       }},
      {{"Type", 8, ""}, [](const Line& l) { return l.licence ? S("License") : l.kind; }},
      {{"UsageFactor", 11, ""},
       [](const Line& l) { return l.qos ? format("{:.6f}", l.qos->usage_factor_milli / 1000.0) : S(); }},
      {{"UsageThres", 10, ""},
       [](const Line& l) {
         return l.qos && l.qos->threshold_ppm >= 0 ? format("{:.6f}", static_cast<double>(l.qos->threshold_ppm) / 1e6)
                                                   : S();
       }},
      {{"User", 10, ""}, [](const Line& l) { return l.user_name; }},
  };
  return kFields;
}

constexpr std::string_view kAssociation =
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
  for (const std::string& part : split(text, ',')) {
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

void print(const SacctmgrSession& session, const std::vector<ShowColumn>& columns, const std::vector<Line>& lines) {
  std::string body;
  std::vector<SacctColumn> shown;
  for (const ShowColumn& column : columns) shown.push_back(column.column);
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

Result<Filter> read_filter(const std::vector<std::string>& words, const std::string& entity) {
  Filter out;
  for (const std::string& text : words) {
    const KeyWord word = key_word(text);
    const std::string flag = lower(word.value);
    if (word.key.empty() && (flag == "where" || flag == "withdeleted" || flag == "wopinfo" || flag == "wopilimits" ||
                             flag == "tree" || flag == "onlydefaults"))
      continue;
    if (word.key.empty() && (flag == "withassoc" || flag == "withassociations")) {
      out.with_associations = true;
      continue;
    }
    if (word.key.empty() && (flag == "withcoord" || flag == "withcoordinators")) {
      out.with_coordinators = true;
      continue;
    }
    if (word.key == "format") {
      out.format = word.value;
      continue;
    }
    auto* list = word.key.empty() || word.key == "name" || word.key == "names" ? &out.names
                 : word.key.starts_with("user")                                ? &out.users
                 : word.key.starts_with("acc")                                 ? &out.accounts
                 : word.key.starts_with("partition")                           ? &out.partitions
                 : word.key.starts_with("qos")                                 ? &out.qos
                                                                               : nullptr;
    if (word.key == "cluster" || word.key == "clusters" || word.key == "type")
      continue;
    if (!list)
      return invalid(format(" Unknown condition: {}", text));
    for (const std::string& name : split(word.value, ','))
      if (!name.empty())
        list->push_back(lower(name));
  }
  if (entity == "account")
    out.accounts.insert(out.accounts.end(), out.names.begin(), out.names.end());
  if (entity == "user")
    out.users.insert(out.users.end(), out.names.begin(), out.names.end());
  if (entity == "qos")
    out.qos.insert(out.qos.end(), out.names.begin(), out.names.end());
  return out;
}

struct Loaded {
  std::vector<Ref<Account>> accounts;
  std::vector<Ref<Association>> associations;
  std::vector<Ref<User>> users;
  std::string cluster;
};

// The tree, depth first: root, and below each account its users and then its accounts.
std::vector<Line> association_lines(const Loaded& loaded, const Filter& filter, const Account& root) {
  std::vector<Line> out;
  const auto add_below = [&](const auto& self, const std::string& parent) -> void {
    for (const auto& a : loaded.associations)
      if (a->account == parent && Filter::in(filter.users, a->user) && Filter::in(filter.accounts, a->account) &&
          Filter::in(filter.partitions, a->partition)) {
        Line line;
        line.association = a.get();
        line.cluster = loaded.cluster;
        line.user_name = a->user;
        out.push_back(line);
      }
    for (const auto& account : loaded.accounts)
      if ((account->parent.empty() ? "root" : account->parent) == parent) {
        if (filter.users.empty() && Filter::in(filter.accounts, account->meta.name)) {
          Line line;
          line.account = account.get();
          line.cluster = loaded.cluster;
          out.push_back(line);
        }
        self(self, account->meta.name);
      }
  };
  if (filter.users.empty() && Filter::in(filter.accounts, "root")) {
    Line line;
    line.account = &root;
    line.cluster = loaded.cluster;
    out.push_back(line);
  }
  add_below(add_below, "root");
  return out;
}

std::vector<Line> user_lines(const Loaded& loaded, const Filter& filter, bool with_associations) {
  std::vector<Line> out;
  std::vector<std::string> names;
  for (const auto& user : loaded.users) names.push_back(user->meta.name);
  for (const auto& a : loaded.associations) names.push_back(a->user);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  for (const std::string& name : names) {
    if (!Filter::in(filter.users, name))
      continue;
    Line line;
    line.user_name = name;
    line.cluster = loaded.cluster;
    for (const auto& user : loaded.users)
      if (user->meta.name == name)
        line.user = user.get();
    bool any = false;
    for (const auto& a : loaded.associations)
      if (a->user == name && a->is_default)
        line.default_account = a->account;
    for (const auto& a : loaded.associations)
      if (a->user == name && with_associations && Filter::in(filter.accounts, a->account)) {
        Line own = line;
        own.association = a.get();
        out.push_back(own);
        any = true;
      }
    if (!any && filter.accounts.empty())
      out.push_back(line);
  }
  return out;
}

Result<void> show(const SacctmgrSession& session, const std::string& entity, const std::vector<std::string>& words) {
  Query query(session.context);
  Filter filter = TRY(read_filter(words, entity));
  const bool with_associations = filter.with_associations || session.with_associations;
  if (session.json) {
    const std::string path = entity == "account"    ? "/v1/accounts"
                             : entity == "user"     ? "/v1/users"
                             : entity == "qos"      ? "/v1/qos"
                             : entity == "resource" ? "/v1/licences"
                             : entity == "cluster"  ? "/v1/policy"
                                                    : "/v1/associations";
    say(TRY(query.get(path, {})) + "\n");
    return {};
  }
  Loaded loaded;
  loaded.cluster = TRY(decode_ping(TRY(query.get("/v1/ping", {})))).cluster;
  const std::string_view otherwise =
      entity == "account"    ? with_associations
                                   ? "Account,Description,Organization,Cluster,ParentName,User,Share,GrpJobs,"
                                     "GrpTRES,GrpSubmit,GrpWall,GrpTRESMins,MaxJobs,MaxTRES,MaxSubmit,"
                                     "MaxWall,QOS,DefaultQOS"
                               : filter.with_coordinators ? "Account,Description,Organization,Coordinators"
                                                          : "Account,Description,Organization"
      : entity == "user"     ? with_associations
                                   ? "User,DefaultAccount,Admin,Cluster,Account,Partition,Share,Priority,MaxJobs,MaxTRES,"
                                     "MaxSubmit,MaxWall,QOS,DefaultQOS"
                                   : "User,DefaultAccount,Admin"
      : entity == "qos"      ? kQosFormat
      : entity == "resource" ? "Name,Type,Count"
      : entity == "tres"     ? "Type,Name%15,ID"
      : entity == "cluster"  ? "Cluster"
                             : kAssociation;
  const auto columns = TRY(parse_format(filter.format.empty() ? otherwise : std::string_view(filter.format)));
  std::vector<Line> lines;
  std::vector<Ref<Qos>> qos;
  std::vector<Ref<Licence>> licences;
  Account root;
  root.meta.name = "root";
  root.description = "default root account";
  root.organization = "root";
  if (entity == "account" || entity == "user" || entity == "association" || entity == "coordinator") {
    loaded.accounts = TRY(records<Account>(query, "/v1/accounts", Kind::kAccount));
    loaded.associations = TRY(records<Association>(query, "/v1/associations", Kind::kAssociation));
  }
  if (entity == "user")
    loaded.users = TRY(records<User>(query, "/v1/users", Kind::kUser));
  if (entity == "association") {
    lines = association_lines(loaded, filter, root);
  } else if (entity == "user") {
    lines = user_lines(loaded, filter, with_associations);
  } else if (entity == "account" || entity == "coordinator") {
    const auto add = [&](const Account& account) {
      if (!Filter::in(filter.accounts, account.meta.name))
        return;
      Line line;
      line.account = &account;
      line.cluster = loaded.cluster;
      lines.push_back(line);
    };
    for (const auto& account : loaded.accounts) add(*account);
    add(root);
  } else if (entity == "qos") {
    qos = TRY(records<Qos>(query, "/v1/qos", Kind::kQos));
    for (const auto& one : qos)
      if (Filter::in(filter.qos, one->meta.name)) {
        Line line;
        line.qos = one.get();
        lines.push_back(line);
      }
  } else if (entity == "resource") {
    licences = TRY(records<Licence>(query, "/v1/licences", Kind::kLicence));
    for (const auto& one : licences)
      if (Filter::in(filter.names, one->meta.name)) {
        Line line;
        line.licence = one.get();
        lines.push_back(line);
      }
  } else if (entity == "tres") {
    constexpr std::pair<const char*, const char*> kTres[] = {{"cpu", ""},  {"mem", ""},     {"energy", ""},
                                                             {"node", ""}, {"billing", ""}, {"gres", "gpu"}};
    int id = 0;
    for (const auto& [kind, name] : kTres) {
      Line line;
      line.kind = kind;
      line.name = name;
      line.id = std::to_string(std::string_view(kind) == "gres" ? 1001 : ++id);
      lines.push_back(line);
    }
  } else {
    Line line;
    line.cluster = loaded.cluster;
    lines.push_back(line);
  }
  print(session, columns, lines);
  return {};
}

}  // namespace

int sacctmgr_show(const SacctmgrSession& session, const std::string& entity, const std::vector<std::string>& words) {
  const auto done = show(session, entity, words);
  if (!done)
    session.voice.error(done.error().message);
  return done ? 0 : 1;
}

}  // namespace lockstep::slurm
