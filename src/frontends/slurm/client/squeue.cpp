// squeue: asks for the columns its format needs, sorts and lays them out.
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "base/items.h"
#include "base/text.h"
#include "frontends/slurm/client/api.h"
#include "frontends/slurm/client/listing_options.h"
#include "frontends/slurm/client/query_call.h"
#include "frontends/slurm/client/query_times.h"
#include "frontends/slurm/client/say.h"
#include "frontends/slurm/client/squeue_fields.h"
#include "frontends/slurm/client/terminal_look.h"

namespace lockstep::slurm {

namespace {

constexpr std::string_view kShort = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R";
constexpr std::string_view kLong = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R";
constexpr std::string_view kStart = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R";
constexpr std::string_view kStates = "%.18i %.2t";
constexpr std::string_view kSteps = "%.15i %.8j %.9P %.8u %.9M %N";

struct Wish {
  std::map<std::string, std::string> filters;
  std::string short_format, long_format, sort;
  std::string clusters = variable_or("SLURM_CLUSTERS");
  bool no_header = false, long_list = false, steps = false, start = false, json = false, only_state = false;
  bool has_own_layout = false;  // -l, -s or --start was given: $SQUEUE_FORMAT does not count
  bool is_list_open = false;    // -j or -s came last without a list: it may be the next word
  std::int64_t every_s = 0;
};

void read_environment(Wish& wish) {
  const std::pair<const char*, const char*> filters[] = {
      {"SQUEUE_ACCOUNT", "account"},     {"SQUEUE_LICENSES", "licenses"}, {"SQUEUE_NAMES", "name"},
      {"SQUEUE_PARTITION", "partition"}, {"SQUEUE_QOS", "qos"},           {"SQUEUE_USERS", "user"}};
  for (const auto& [variable, filter] : filters)
    if (std::string value = variable_or(variable); !value.empty())
      wish.filters[filter] = std::move(value);
  if (const char* states = ::getenv("SQUEUE_STATES"))
    wish.filters["states"] = states;
  wish.sort = variable_or("SQUEUE_SORT");
  if (!variable_or("SQUEUE_ARRAY").empty())
    wish.filters["array"] = "1";
  wish.long_list = !variable_or("SQUEUE_LONG").empty();
}

void want_long(Wish& wish) { wish.long_list = wish.has_own_layout = true; }
void want_start(Wish& wish) { wish.start = wish.has_own_layout = true; }

// What --only-job-state goes together with, as in Slurm: jobs and states, and how they are printed.
Result<void> check_only_state(const Wish& wish) {
  const bool filters = std::any_of(wish.filters.begin(), wish.filters.end(), [](const auto& filter) {
    return filter.first != "jobs" && filter.first != "states" && filter.first != "array";
  });
  if (!wish.only_state || !(filters || wish.steps || wish.start || wish.long_list))
    return {};
  return invalid(
      "Option --only-job-state only works alone, with -j (--jobs) and/or -t (--states) parameters, parameters for "
      "cluster/federation selection, and the printing options.");
}

// Behind the options, of which some have layouts of their own.
void read_formats(Wish& wish) {
  if (wish.has_own_layout || !wish.short_format.empty() || !wish.long_format.empty())
    return;
  wish.short_format = variable_or("SQUEUE_FORMAT");
  wish.long_format = variable_or("SQUEUE_FORMAT2");
}

// The jobs of -j and -s. Without a list: that of a word behind the options.
void take_jobs(Wish& wish, const std::string& list) {
  wish.is_list_open = list.empty();
  if (!list.empty())
    wish.filters["jobs"] = list;
}

Result<void> set_jobs(Wish& wish, const std::string& list) {
  take_jobs(wish, list);
  return {};
}

Result<void> set_steps(Wish& wish, const std::string& list) {
  wish.steps = wish.has_own_layout = true;
  take_jobs(wish, list);
  return {};
}

// clang-format off
constexpr CommandOption<Wish> kOptions[] = {
  // letter, names, takes, value, help, what it sets
  {'A', "account accounts", Takes::kValue, "LIST", "jobs of these accounts", Filter{"account"}},
  {'a', "all", Takes::kNothing, "", "jobs in every partition", Nothing{}},
  {'h', "noheader", Takes::kNothing, "", "no header line", &Wish::no_header},
  {'i', "iterate", Takes::kValue, "SECONDS", "again and again", set_interval<Wish>},
  {'j', "jobs", Takes::kMaybe, "LIST", "these jobs: 12, 12_3, 12+1", set_jobs},
  {0, "json", Takes::kMaybe, "", "everything, as JSON", &Wish::json},
  {'l', "long", Takes::kNothing, "", "more columns", want_long},
  {'L', "licenses", Takes::kValue, "LIST", "jobs that use these licences", Filter{"licenses"}},
  {0, "me", Takes::kNothing, "", "my own jobs", Filter{"me"}},
  {'n', "name", Takes::kValue, "LIST", "jobs of these names", Filter{"name"}},
  {'o', "format", Takes::kValue, "FORMAT", "\"%.18i %.9P %.8j ...\"", set_short_format<Wish>},
  {'O', "Format", Takes::kValue, "FORMAT", "\"jobid:10,partition,name:.20\"", set_long_format<Wish>},
  {0, "only-job-state", Takes::kNothing, "", "of each job its id and its state", &Wish::only_state},
  {'p', "partition partitions", Takes::kValue, "LIST", "jobs in these partitions", Filter{"partition"}},
  {'q', "qos", Takes::kValue, "LIST", "jobs of these QOS", Filter{"qos"}},
  {'R', "reservation", Takes::kValue, "LIST", "jobs in these reservations", Filter{"reservation"}},
  {'r', "array array-unique", Takes::kNothing, "", "a line for each element of an array", Filter{"array"}},
  {'s', "steps", Takes::kMaybe, "", "steps instead of jobs", set_steps},
  {'S', "sort", Takes::kValue, "FIELDS", "by format letters: \"P,t,-p\"", &Wish::sort},
  {0, "start", Takes::kNothing, "", "waiting jobs by expected start", want_start},
  {'t', "states state", Takes::kValue, "LIST", "jobs in these states, or all", Filter{"states"}},
  {'u', "user users", Takes::kValue, "LIST", "jobs of these users", Filter{"user"}},
  {'w', "nodelist node nodes", Takes::kValue, "HOSTS", "jobs on these nodes", Filter{"nodes"}},
  {'V', "version", Takes::kNothing, "", "version", Shows::kVersion},
  {0, "help", Takes::kNothing, "", "", Shows::kHelp},
  {0, "usage", Takes::kNothing, "", "", Shows::kUsage},
  {0, "yaml", Takes::kMaybe, "", "", Refusal{"--yaml is not supported; use --json"}},
  {'M', "clusters cluster", Takes::kValue, "", "", &Wish::clusters},
  {'P', "priority", Takes::kNothing, "", "", Nothing{}},
  {'v', "verbose", Takes::kNothing, "", "", Nothing{}},
  {0, "expand-patterns federation hide local noconvert sibling", Takes::kNothing, "", "", Nothing{}},
};
// clang-format on

constexpr CommandSyntax<Wish> kSyntax = {
    .head = "Usage: squeue [OPTIONS]\n",
    .usage =
        "Usage: squeue [-ahlrsv] [-A list] [-i seconds] [-j list] [-n list] [-o format] [-O format]\n"
        "              [-p list] [-q list] [-S fields] [-t list] [-u list] [-w hosts] [--me] [--json] [--start]\n",
    .options = kOptions};

Result<TableFormat> format_of(const Wish& wish, std::span<const FieldDef> fields) {
  if (!wish.long_format.empty())
    return parse_long_format(wish.long_format, fields);
  if (!wish.short_format.empty())
    return parse_short_format(wish.short_format, fields);
  return parse_short_format(wish.only_state  ? kStates
                            : wish.steps     ? kSteps
                            : wish.start     ? kStart
                            : wish.long_list ? kLong
                                             : kShort,
                            fields);
}

// The users in a list that the cluster says it does not know.
std::vector<std::string> unknown_users_of(const Error& error) {
  constexpr std::string_view kRefusal = "Invalid user: ";
  const bool is_one = error.code == Errc::kInvalid && error.message.starts_with(kRefusal);
  return is_one ? items_of(std::string_view(error.message).substr(kRefusal.size())) : std::vector<std::string>();
}

// As Slurm's squeue does: users that nobody knows are named, and the others' jobs are listed, or nobody's. Nothing: the
// table is that of nobody.
Result<std::optional<std::string>> ask_of_known_users(Query& query, std::string_view path,
                                                      std::map<std::string, std::string>& parameters,
                                                      const Voice& voice) {
  for (;;) {
    auto body = query.get(path, parameters);
    if (body)
      return std::optional(std::move(*body));
    auto users = items_of(parameters["user"]);
    const std::size_t asked = users.size();
    for (const std::string& unknown : unknown_users_of(body.error()))
      if (std::erase(users, unknown) > 0)
        voice.error(format("Invalid user: {}\n", unknown));
    if (users.size() == asked)
      return body.error();
    if (users.empty())
      return std::optional<std::string>();
    parameters["user"] = join(users, ",");
  }
}

// Programs that parse a table choose its columns, or leave its header away; people look at the usual one.
bool is_looked_at(const Wish& wish) { return !wish.no_header && wish.short_format.empty() && wish.long_format.empty(); }

Result<void> list_once(Query& query, const Wish& wish, const std::string& cluster, const Voice& voice) {
  if (wish.json) {
    say(TRY(query.get("/slurm/v1/squeue.json", wish.filters)));
    return {};
  }
  const auto fields = wish.steps ? squeue_step_fields() : squeue_job_fields();
  TableFormat layout = TRY(format_of(wish, fields));
  TableAsk ask = ask_for(layout);
  const std::string_view sort = !wish.sort.empty() ? std::string_view(wish.sort)
                                : wish.steps       ? std::string_view("P,i")
                                : wish.start       ? std::string_view("S,i")
                                                   : std::string_view("P,t,-p");
  const std::vector<SortKey> keys = TRY(squeue_sort_keys(sort, fields, ask));
  std::map<std::string, std::string> parameters = wish.filters;
  parameters["columns"] = join(ask.names, ",");
  if (wish.start)
    parameters["states"] = "PD";
  auto body = TRY(ask_of_known_users(query, wish.steps ? "/slurm/v1/steps" : "/slurm/v1/squeue", parameters, voice));
  const Rows rows(body ? std::move(*body) : std::string(), ask.names.size());
  if (wish.short_format.empty() && wish.long_format.empty())
    widen_names(layout, ask, rows, terminal_columns());
  TableLook look;
  look.colour = is_looked_at(wish) && wants_colour();
  look.header = !wish.no_header;
  look.time_pattern = variable_or("SLURM_TIME_FORMAT");
  look.now = time(nullptr);
  std::string out;
  if (wish.every_s > 0 || (wish.long_list && !wish.no_header))
    out = date_line(look.now);
  out += cluster_line(cluster, wish.no_header);
  say(out + write_table(layout, ask, rows, sorted_rows(rows, keys), look));
  return {};
}

}  // namespace

int squeue_main(const ClientContext& context, int argc, char** argv) {
  const Voice voice("squeue");
  Wish wish;
  read_environment(wish);
  const CommandWords line = read_options(kSyntax, argc, argv, voice, wish);
  if (line.exit_code)
    return *line.exit_code;
  if (const auto fits = check_only_state(wish); !fits) {
    voice.fatal(fits.error().message);
    return 1;
  }
  read_formats(wish);
  const bool is_list = wish.is_list_open && !line.words.empty();
  if (is_list)
    wish.filters["jobs"] = line.words[0];
  if (!has_no_words(voice, line.words, is_list ? 1 : 0))
    return 1;
  const std::string_view what = wish.steps ? "slurm_get_job_steps error" : "slurm_load_jobs error";
  const auto cluster = check_clusters(context, wish.clusters);
  if (!cluster) {
    if (!say_unreached(voice, what, cluster.error()))
      voice.error(cluster.error().message);
    return 1;
  }
  Query query(context);
  for (;;) {
    if (const auto listed = list_once(query, wish, *cluster, voice); !listed) {
      const Error& error = listed.error();
      if (error.code == Errc::kNotFound && wish.filters.contains("jobs"))
        write_all(STDERR_FILENO, "slurm_load_jobs error: Invalid job id specified\n");
      else if (!say_unreached(voice, what, error))
        voice.error(error.message);
      return 1;
    }
    if (wish.every_s <= 0 || unsaid())
      return 0;
    sleep_for(seconds(wish.every_s));
  }
}

}  // namespace lockstep::slurm
