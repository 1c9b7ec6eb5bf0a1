// sacct: accounting rows of the cluster's history.
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "frontends/slurm/client/command_options.h"
#include "frontends/slurm/client/query_call.h"
#include "frontends/slurm/client/query_times.h"
#include "frontends/slurm/client/sacct_fields.h"
#include "frontends/slurm/client/say.h"

namespace lockstep::slurm {

namespace {

constexpr std::string_view kDefault = "jobid,jobname,partition,account,alloccpus,state,exitcode";
constexpr std::string_view kBrief = "jobid,state,exitcode";
constexpr std::string_view kLong =
    "jobid,jobidraw,jobname,partition,maxvmsize,averss,maxrss,ntasks,alloccpus,elapsed,state,exitcode,reqmem,alloctres,"
    "nodelist,submit,start,end";

struct Wish {
  std::map<std::string, std::string> filters;
  std::string format, from, to;
  std::string clusters = variable_or("SLURM_CLUSTERS");
  SacctLook look;
  bool all_users = false, json = false, names_of_fields = false;
};

Result<void> add_jobs(Wish& wish, const std::string& list) {
  std::string& jobs = wish.filters["jobs"];
  jobs += (jobs.empty() ? "" : ",") + list;
  return {};
}

Result<void> set_delimiter(Wish& wish, const std::string& text) {
  wish.look.delimiter = text;
  return {};
}

Result<void> set_unit(Wish& wish, const std::string& text) {
  if (text.size() != 1 || std::string_view("KMGTP").find(text[0]) == std::string_view::npos)
    return invalid(format("Invalid --units type: {}", text));
  wish.look.unit = text[0];
  return {};
}

void want_brief(Wish& wish) { wish.format = kBrief; }
void want_long(Wish& wish) { wish.format = kLong; }

// clang-format off
constexpr CommandOption<Wish> kOptions[] = {
  // letter, names, takes, value, help, what it sets
  {'a', "allusers", Takes::kNothing, "", "jobs of every user", &Wish::all_users},
  {'A', "accounts", Takes::kValue, "LIST", "jobs of these accounts", Filter{"account"}},
  {'b', "brief", Takes::kNothing, "", "JobID, State, ExitCode", want_brief},
  {'D', "duplicates", Takes::kNothing, "", "earlier runs of requeued jobs too", Filter{"duplicates"}},
  {0, "delimiter", Takes::kValue, "TEXT", "between columns, with -p and -P", set_delimiter},
  {'e', "helpformat", Takes::kNothing, "", "the names of all fields", &Wish::names_of_fields},
  {'E', "endtime", Takes::kValue, "TIME", "until then", &Wish::to},
  {'j', "jobs", Takes::kValue, "LIST", "these jobs: 12, 12_3, 12.0, 12.batch", add_jobs},
  {0, "json", Takes::kMaybe, "", "everything, as JSON", &Wish::json},
  {'l', "long", Takes::kNothing, "", "more columns", want_long},
  {0, "name", Takes::kValue, "LIST", "jobs of these names", Filter{"name"}},
  {'n', "noheader", Takes::kNothing, "", "no header line", look_without_header<Wish>},
  {'N', "nodelist", Takes::kValue, "HOSTS", "jobs that ran there", Filter{"nodes"}},
  {'o', "format", Takes::kValue, "LIST", "JobID,State%20,...", &Wish::format},
  {'p', "parsable", Takes::kNothing, "", "columns between '|', one more at the end", look_parsable<Wish>},
  {'P', "parsable2", Takes::kNothing, "", "columns between '|'", look_parsable2<Wish>},
  {'q', "qos", Takes::kValue, "LIST", "jobs of these QOS", Filter{"qos"}},
  {'r', "partition", Takes::kValue, "LIST", "jobs in these partitions", Filter{"partition"}},
  {'s', "state", Takes::kValue, "LIST", "jobs in these states", Filter{"states"}},
  {'S', "starttime", Takes::kValue, "TIME", "from then: 2025-11-21T08:00, now-2days, 1121", &Wish::from},
  {'u', "user uid", Takes::kValue, "LIST", "jobs of these users", Filter{"user"}},
  {0, "units", Takes::kValue, "K|M|G|T", "of memory", set_unit},
  {'X', "allocations", Takes::kNothing, "", "no steps", Filter{"allocations"}},
  {'V', "version", Takes::kNothing, "", "version", Shows::kVersion},
  {'h', "help", Takes::kNothing, "", "", Shows::kHelp},
  {0, "usage", Takes::kNothing, "", "", Shows::kUsage},
  {0, "yaml", Takes::kMaybe, "", "", Refusal{"--yaml is not supported; use --json"}},
  {0, "associations gid group", Takes::kValue, "", "", Refusal{"this filter is not supported"}},
  {'L', "allclusters", Takes::kNothing, "", "", Nothing{}},
  {'M', "clusters cluster", Takes::kValue, "", "", &Wish::clusters},
  {'T', "truncate", Takes::kNothing, "", "", Nothing{}},
  {'v', "verbose", Takes::kNothing, "", "", Nothing{}},
  {0, "whole-hetjob", Takes::kMaybe, "", "", Nothing{}},
  {0, "array expand-patterns federation local noconvert", Takes::kNothing, "", "", Nothing{}},
};
// clang-format on

constexpr CommandSyntax<Wish> kSyntax = {.head = "Usage: sacct [OPTIONS]\n",
                                         .usage = "Usage: sacct [options]\n\tUse --help for help\n",
                                         .options = kOptions};

int print_names_of_fields() {
  std::string out;
  int in_line = 0;
  for (const SacctField& field : sacct_fields()) out += format("{:<19}{}", field.name, ++in_line % 4 == 0 ? "\n" : " ");
  say(out + "\n");
  return 0;
}

// Nothing is both after its beginning and before its end: an empty table would say that nothing ran. Without an end:
// now.
Result<void> check_order(const std::map<std::string, std::string>& filters, const SacctLook& look) {
  const auto given = [&](const char* name) -> std::optional<std::int64_t> {
    const auto found = filters.find(name);
    return found == filters.end() ? std::nullopt : std::optional<std::int64_t>(std::stoll(found->second));
  };
  const std::int64_t to = given("to").value_or(look.now), from = given("from").value_or(to);
  if (from <= to)
    return {};
  return invalid(format("Start time ({}) requested is after end time ({}).", time_text(from, "", "", look.now),
                        time_text(to, "", "", look.now)));
}

// Times, and whose jobs: one's own unless something says otherwise, since midnight unless jobs are named.
Result<void> complete(Wish& wish) {
  std::map<std::string, std::string>& filters = wish.filters;
  const auto seconds_of = [&](const std::string& text) -> Result<std::string> {
    const auto when = parse_date(text, wish.look.now);
    if (!when)
      return invalid(format("Invalid time specification: {}", text));
    return std::to_string(*when);
  };
  if (!wish.from.empty())
    filters["from"] = TRY(seconds_of(wish.from));
  else if (!filters.contains("jobs"))
    filters["from"] = TRY(seconds_of(filters.contains("states") && wish.to.empty() ? "now" : "today"));
  if (!wish.to.empty())
    filters["to"] = TRY(seconds_of(wish.to));
  TRY(check_order(filters, wish.look));
  if (!filters.contains("user") && !wish.all_users && !filters.contains("jobs") && getuid() != 0)
    filters.insert_or_assign("me", "1");  // who we are the cluster knows best
  if (wish.all_users)
    filters.erase("user");
  return {};
}

bool is_about_states(std::string_view refusal) {
  return refusal.starts_with("unrecognized job state") || refusal.ends_with("is not supported / accounted");
}

Result<void> list(Query& query, const Wish& wish) {
  if (wish.json) {
    say(TRY(query.get("/slurm/v1/sacct.json", wish.filters)));
    return {};
  }
  const std::vector<SacctColumn> columns =
      TRY(parse_sacct_format(wish.format.empty() ? kDefault : std::string_view(wish.format)));
  std::map<std::string, std::string> parameters = wish.filters;
  const SacctAsk ask = sacct_ask(columns);
  parameters["columns"] = join(ask.names, ",");
  const Rows rows(TRY(query.get("/slurm/v1/sacct", parameters)), ask.names.size());
  say(write_sacct(columns, rows, wish.look, ask.cell_of));
  return {};
}

}  // namespace

int sacct_main(const ClientContext& context, int argc, char** argv) {
  const Voice voice("sacct");
  Wish wish;
  wish.format = variable_or("SACCT_FORMAT");
  wish.look.time_pattern = variable_or("SLURM_TIME_FORMAT");
  wish.look.now = time(nullptr);
  const CommandWords line = read_options(kSyntax, argc, argv, voice, wish);
  if (line.exit_code)
    return *line.exit_code;
  if (wish.names_of_fields)
    return print_names_of_fields();
  if (!has_no_words(voice, line.words))
    return 1;
  const auto ask = [&]() -> Result<void> {
    TRY(check_clusters(context, wish.clusters));
    TRY(complete(wish));
    Query query(context);
    return list(query, wish);
  };
  const Result<void> done = ask();
  if (!done && is_about_states(done.error().message))
    voice.fatal(done.error().message);
  else if (!done && !say_unreached(voice, "sacct: error: Problem talking to the database", done.error()))
    voice.error(done.error().message);
  return done ? 0 : 1;
}

}  // namespace lockstep::slurm
