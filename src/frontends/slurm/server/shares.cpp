#include "frontends/slurm/server/shares.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "base/items.h"
#include "base/text.h"
#include "frontends/slurm/server/job_facts.h"
#include "frontends/slurm/server/job_filter.h"
#include "frontends/slurm/server/row_text.h"
#include "frontends/slurm/server/slurm_json.h"
#include "model/tres_names.h"
#include "rules/ledger.h"
#include "rules/tres.h"
#include "views/priority_view.h"
#include "views/selectors.h"

namespace lockstep::slurm {

namespace {

using NameSet = std::set<std::string, std::less<>>;

NameSet names_of(const PageRequest& request, std::string_view parameter) {
  const auto words = items_of(query_of(request, parameter));
  return {words.begin(), words.end()};
}

// Login names; those of uids beside them.
NameSet users_of(const ReadContext& context, const PageRequest& request) {
  NameSet out = names_of(request, "users");
  for (const UserId id : users_named(context.tables, {out.begin(), out.end()}))
    out.insert(context.tables.user(id)->meta.name);
  return out;
}

bool in(const NameSet& names, const std::string& name) { return names.empty() || names.contains(name); }

// One row after the other, cell by cell as columns ask; an unknown column is an error.
template <class Row>
struct Column {
  std::string_view name;
  std::function<std::string(const Row&)> cell;
  bool number = false;
};

template <class Row>
Result<std::vector<const Column<Row>*>> chosen(const std::vector<Column<Row>>& known, const PageRequest& request) {
  std::vector<const Column<Row>*> out;
  for (const std::string& name : TRY(columns_of(request))) {
    const auto it = std::find_if(known.begin(), known.end(), [&](const auto& c) { return c.name == name; });
    if (it == known.end())
      return invalid(format("there is no column {}", name));
    out.push_back(&*it);
  }
  return out;
}

template <class Row>
PageReply rows_page(const std::vector<Column<Row>>& known, const std::vector<Row>& rows, const PageRequest& request) {
  const auto columns = chosen(known, request);
  if (!columns)
    return refusal(400, columns.error().message);
  std::string out;
  for (const Row& row : rows) {
    for (std::size_t c = 0; c < columns->size(); ++c) {
      if (c)
        out += '\t';
      append_field_text(out, (*columns)[c]->cell(row));
    }
    out += '\n';
  }
  return {200, "text/plain; charset=utf-8", std::move(out), {}};
}

template <class Row>
PageReply json_page(std::string_view key, const std::vector<Column<Row>>& known, const std::vector<Row>& rows) {
  SlurmJson json;
  json.open('{').key(key).open('[');
  for (const Row& row : rows) {
    json.open('{');
    for (const Column<Row>& column : known) {
      const std::string cell = column.cell(row);
      const bool digits = cell.find_first_not_of("-.0123456789") == std::string::npos;
      json.key(column.name);
      if (column.number && !cell.empty() && digits)
        json.literal(cell);
      else
        json.text(cell);
    }
    json.close('}');
  }
  json.close(']').tail();
  json.close('}');
  return {200, "application/json", json.take(), {}};
}

// --- sshare ---

struct ShareRow {
  const FairShares::Row* row = nullptr;
  const FairShares* all = nullptr;
  const ReadContext* context = nullptr;
  Tres minutes;  // that running jobs may still use, where the columns ask for it
};

std::string decimals(double value) { return std::isinf(value) ? "inf" : format("{:.6f}", value); }

const std::vector<Column<ShareRow>>& share_columns() {
  static const std::vector<Column<ShareRow>> kColumns = {
      {"account",
       [](const ShareRow& r) {
         const std::string name = r.row->account.empty() ? "root" : r.row->account;
         return std::string(r.row->depth, ' ') + name;
       }},
      {"user", [](const ShareRow& r) { return r.row->user; }},
      {"partition", [](const ShareRow& r) { return r.row->partition; }},
      {"rawshares",
       [](const ShareRow& r) -> std::string {
         if (r.row->depth == 0)
           return "";
         return r.row->raw_shares == kParentShares ? "parent" : std::to_string(r.row->raw_shares);
       },
       true},
      {"normshares",
       [](const ShareRow& r) { return r.row->depth == 0 ? decimals(0) : decimals(r.row->share.shares_norm); }, true},
      {"rawusage", [](const ShareRow& r) { return std::to_string(r.row->raw_use / 1000); }, true},
      {"normusage",
       [](const ShareRow& r) {
         const double all = static_cast<double>(r.all->use_of_all());
         return decimals(all > 0 ? static_cast<double>(r.row->raw_use) / all : 0);
       },
       true},
      {"effectvusage",
       [](const ShareRow& r) { return r.row->depth == 0 ? decimals(1) : decimals(r.row->share.use_norm); }, true},
      {"fairshare",
       [](const ShareRow& r) { return r.row->user.empty() ? std::string() : decimals(r.row->share.factor); }, true},
      {"levelfs", [](const ShareRow& r) { return r.row->depth == 0 ? std::string() : decimals(r.row->share.level); },
       true},
      {"grptresmins",
       [](const ShareRow& r) {
         const Tables& tables = r.context->tables;
         if (r.row->user.empty()) {
           const Account* account = tables.account(r.row->account);
           return account ? tres_text(account->limits.grp_tres_mins) : "";
         }
         const auto it = tables.associations.find(association_name(r.row->account, r.row->user, r.row->partition));
         return it == tables.associations.end() ? "" : tres_text(it->second->limits.grp_tres_mins);
       }},
      {"tresrunmins",
       [](const ShareRow& r) {
         const Tres& minutes = r.minutes;
         return format("cpu={},mem={},energy=0,node={},billing={},fs/disk=0,vmem=0,pages=0,gres/gpu={}", minutes.cpu,
                       minutes.memory_mb, minutes.nodes, minutes.billing, minutes.gpus);
       }},
  };
  return kColumns;
}

// What running jobs may still use, by account and user, and by account with those below it. One pass over the jobs: a
// pass for every row would take minutes with a thousand users.
class RunMinutes {
 public:
  explicit RunMinutes(const ReadContext& context) {
    for (const auto& [id, job] : context.tables.jobs) {
      if (!holds_allocation(job->state) || !job->limit_end || job->limit_end <= context.now)
        continue;
      const Tres minutes =
          limit_minutes(job->allocation->tres, job->limit_end >= kNever ? kForever : job->limit_end - context.now);
      const std::string& account = job->spec->account;
      add(of_user_[{account, user_name(context, job->spec->user)}], minutes);
      add(of_all_, minutes);
      const auto chain = context.tables.chain_of(account);
      if (chain.empty())
        add(of_account_[account], minutes);
      for (const Account* each : chain) add(of_account_[each->meta.name], minutes);
    }
  }
  Tres of(const FairShares::Row& row) const {
    if (row.depth == 0)
      return of_all_;
    if (row.user.empty())
      return found(of_account_, row.account);
    return found(of_user_, std::pair(row.account, row.user));
  }

 private:
  template <class Map, class Key>
  static Tres found(const Map& map, const Key& key) {
    const auto at = map.find(key);
    return at == map.end() ? Tres{} : at->second;
  }
  std::map<std::pair<std::string, std::string>, Tres> of_user_;
  std::map<std::string, Tres> of_account_;
  Tres of_all_;
};

std::vector<ShareRow> share_rows(const ReadContext& context, const Priorities& priorities, const PageRequest& request) {
  const auto accounts = names_of(request, "accounts");
  auto users = users_of(context, request);
  const bool all = flag_of(request, "all") || !users.empty();
  if (!all && context.caller)
    users = {context.caller->meta.name};
  const RunMinutes minutes(context);
  std::vector<ShareRow> out;
  for (const FairShares::Row& row : priorities.shares().rows()) {
    if (!in(accounts, row.account))
      continue;
    if (!row.user.empty() && !in(users, row.user))
      continue;
    if (row.user.empty() && flag_of(request, "users_only"))
      continue;
    out.push_back({&row, &priorities.shares(), &context, minutes.of(row)});
  }
  return out;
}

// --- sprio ---

struct PriorityRow {
  const ReadContext* context = nullptr;
  const Job* job = nullptr;
  PriorityFactors factors;
  PriorityParts parts;
  std::uint32_t shown = 0;
};

std::string tres_points(const std::vector<std::pair<std::string, std::int64_t>>& parts) {
  std::string out;
  for (const auto& [name, points] : parts)
    if (points != 0)
      out += format("{}{}={}", out.empty() ? "" : ",", name, points);
  return out;
}

const std::vector<Column<PriorityRow>>& priority_columns() {
  // The row of the weights is about no job: what says something of one is empty there.
  const auto of_job = [](std::string_view name, auto value) {
    return Column<PriorityRow>{name,
                               [value](const PriorityRow& r) { return r.job ? std::string(value(r)) : std::string(); }};
  };
  const auto number = [](std::string_view name, auto value) {
    return Column<PriorityRow>{name, [value](const PriorityRow& r) { return std::to_string(value(r)); }, true};
  };
  const auto factor = [](std::string_view name, double PriorityFactors::*member) {
    return Column<PriorityRow>{name, [member](const PriorityRow& r) { return format("{:.7f}", r.factors.*member); },
                               true};
  };
  static const std::vector<Column<PriorityRow>> kColumns = {
      of_job("jobid", [](const PriorityRow& r) { return job_label(job_line(*r.context, *r.job)); }),
      of_job("user", [](const PriorityRow& r) { return user_name(*r.context, r.job->spec->user); }),
      of_job("account", [](const PriorityRow& r) { return r.job->spec->account; }),
      of_job("qosname", [](const PriorityRow& r) { return r.job->spec->qos; }),
      of_job("partitionname", [](const PriorityRow& r) { return partition_text(job_line(*r.context, *r.job)); }),
      number("priority", [](const PriorityRow& r) { return r.shown; }),
      number("age", [](const PriorityRow& r) { return r.parts.age; }),
      number("assoc", [](const PriorityRow& r) { return r.parts.assoc; }),
      number("fairshare", [](const PriorityRow& r) { return r.parts.fair_share; }),
      number("jobsize", [](const PriorityRow& r) { return r.parts.job_size; }),
      number("partition", [](const PriorityRow& r) { return r.parts.partition; }),
      number("qos", [](const PriorityRow& r) { return r.parts.qos; }),
      number("site", [](const PriorityRow&) { return 0; }),
      number("nice", [](const PriorityRow& r) { return r.parts.nice; }),
      {"tres", [](const PriorityRow& r) { return tres_points(r.parts.tres); }},
      {"normpriority", [](const PriorityRow& r) { return format("{:.14f}", r.shown / 4294967296.0); }, true},
      factor("normage", &PriorityFactors::age),
      factor("normassoc", &PriorityFactors::assoc),
      factor("normfairshare", &PriorityFactors::fair_share),
      factor("normjobsize", &PriorityFactors::job_size),
      factor("normpartition", &PriorityFactors::partition),
      factor("normqos", &PriorityFactors::qos),
  };
  return kColumns;
}

std::vector<PriorityRow> priority_rows(const ReadContext& context, const PageRequest& request) {
  const Priorities priorities = priorities_of(context.tables, context.now, context.wall_offset);
  const auto users = users_of(context, request), partitions = names_of(request, "partitions");
  const auto jobs = names_of(request, "jobs");
  std::vector<PriorityRow> out;
  for (const auto& [id, job] : context.tables.jobs) {
    if (job->state != JobState::kPending || (job->array && job->array->waiting.empty()))
      continue;
    if (!in(jobs, std::to_string(id.value)) || !in(users, user_name(context, job->spec->user)))
      continue;
    if (!partitions.empty()) {
      const auto names = items_of(partition_text(job_line(context, *job)));
      if (std::none_of(names.begin(), names.end(), [&](const std::string& n) { return in(partitions, n); }))
        continue;
    }
    const Partition* partition = first_partition(context.tables, *job->spec);
    PriorityFactors factors = priorities.factors(*job->spec, partition, job->eligible);
    PriorityParts parts = priority_parts(context.tables.policy(), factors);
    out.push_back(
        {&context, job.get(), std::move(factors), std::move(parts), shown_priority(priorities, context.tables, *job)});
  }
  return out;
}

}  // namespace

PageReply sshare_page(const ReadContext& context, const PageRequest& request) {
  const Priorities priorities = priorities_of(context.tables, context.now, context.wall_offset);
  return rows_page(share_columns(), share_rows(context, priorities, request), request);
}
PageReply sshare_json_page(const ReadContext& context, const PageRequest& request) {
  const Priorities priorities = priorities_of(context.tables, context.now, context.wall_offset);
  return json_page("shares", share_columns(), share_rows(context, priorities, request));
}

namespace {

std::optional<PageReply> refused_priorities(const ReadContext& context, const PageRequest& request) {
  if (const auto unknown = unknown_user(context.tables, items_of(query_of(request, "users"))))
    return refusal(400, "Invalid user: " + *unknown);
  if (const auto named = parse_job_names(query_of(request, "jobs")); !named)
    return refusal(400, named.error().message);
  return std::nullopt;
}

}  // namespace

PageReply sprio_page(const ReadContext& context, const PageRequest& request) {
  if (auto refused = refused_priorities(context, request))
    return std::move(*refused);
  if (!flag_of(request, "weights"))
    return rows_page(priority_columns(), priority_rows(context, request), request);
  const Policy& policy = context.tables.policy();
  PriorityRow weights{&context, nullptr, {}, {}, 0};
  weights.parts = {policy.weight_age,
                   policy.weight_assoc,
                   policy.weight_fair_share,
                   policy.weight_job_size,
                   policy.weight_partition,
                   policy.weight_qos,
                   {},
                   0,
                   1};
  for (const TresWeight& weight : policy.weight_tres) weights.parts.tres.emplace_back(weight.name, weight.milli / 1000);
  return rows_page(priority_columns(), std::vector<PriorityRow>{weights}, request);
}
PageReply sprio_json_page(const ReadContext& context, const PageRequest& request) {
  if (auto refused = refused_priorities(context, request))
    return std::move(*refused);
  return json_page("priorities", priority_columns(), priority_rows(context, request));
}

}  // namespace lockstep::slurm
