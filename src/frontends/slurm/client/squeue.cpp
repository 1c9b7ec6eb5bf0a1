// squeue: asks for the columns its format needs, sorts and lays them out.
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.h"
#include "frontends/slurm/client/api.h"
#include "frontends/slurm/client/query_call.h"
#include "frontends/slurm/client/query_times.h"
#include "frontends/slurm/client/say.h"
#include "frontends/slurm/client/squeue_fields.h"
#include "frontends/slurm/client/terminal_look.h"

namespace lockstep {

namespace {

constexpr std::string_view kHelp = R"(Usage: squeue [OPTIONS]
  -A, --account=LIST       jobs of these accounts
  -a, --all                jobs in every partition
  -h, --noheader           no header line
  -i, --iterate=SECONDS    again and again
  -j, --jobs=LIST          these jobs: 12, 12_3, 12+1
      --json               everything, as JSON
  -l, --long               more columns
  -L, --licenses=LIST      jobs that use these licences
      --me                 my own jobs
  -n, --name=LIST          jobs of these names
  -o, --format=FORMAT      "%.18i %.9P %.8j ..."
  -O, --Format=FORMAT      "jobid:10,partition,name:.20"
  -p, --partition=LIST     jobs in these partitions
  -q, --qos=LIST           jobs of these QOS
  -R, --reservation=LIST   jobs in these reservations
  -r, --array              a line for each element of an array
  -s, --steps              steps instead of jobs
  -S, --sort=FIELDS        by format letters: "P,t,-p"
      --start              waiting jobs by expected start
  -t, --states=LIST        jobs in these states, or all
  -u, --user=LIST          jobs of these users
  -w, --nodelist=HOSTS     jobs on these nodes
  -V, --version            version
)";

constexpr std::string_view kShort = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R";
constexpr std::string_view kLong = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R";
constexpr std::string_view kStart = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R";
constexpr std::string_view kSteps = "%.15i %.8j %.9P %.8u %.9M %N";

enum Code : int { kMe = 256, kJson, kYaml, kStartOption, kHelpOption, kUsage, kIgnored };

struct Wish {
  std::map<std::string, std::string> filters;
  std::string short_format, long_format, sort;
  bool header = true, long_list = false, steps = false, start = false, json = false, jobs_given = false;
  std::int64_t every_s = 0;
};

void read_environment(Wish& wish) {
  const std::pair<const char*, const char*> filters[] = {
      {"SQUEUE_ACCOUNT", "account"},     {"SQUEUE_LICENSES", "licenses"}, {"SQUEUE_NAMES", "name"},
      {"SQUEUE_PARTITION", "partition"}, {"SQUEUE_QOS", "qos"},           {"SQUEUE_STATES", "states"},
      {"SQUEUE_USERS", "user"}};
  for (const auto& [variable, filter] : filters)
    if (std::string value = variable_or(variable); !value.empty())
      wish.filters[filter] = std::move(value);
  wish.short_format = variable_or("SQUEUE_FORMAT");
  wish.long_format = variable_or("SQUEUE_FORMAT2");
  wish.sort = variable_or("SQUEUE_SORT");
  if (!variable_or("SQUEUE_ARRAY").empty())
    wish.filters["array"] = "1";
  wish.long_list = !variable_or("SQUEUE_LONG").empty();
}

// An exit code when there is nothing to list.
std::optional<int> read_options(Wish& wish, int argc, char** argv, const Voice& voice) {
  static const std::vector<LongOption> kLongs = {{"account", 1, 'A'},
                                                 {"accounts", 1, 'A'},
                                                 {"all", 0, 'a'},
                                                 {"array", 0, 'r'},
                                                 {"array-unique", 0, 'r'},
                                                 {"clusters", 1, 'M'},
                                                 {"cluster", 1, 'M'},
                                                 {"expand-patterns", 0, kIgnored},
                                                 {"federation", 0, kIgnored},
                                                 {"Format", 1, 'O'},
                                                 {"format", 1, 'o'},
                                                 {"help", 0, kHelpOption},
                                                 {"hide", 0, kIgnored},
                                                 {"iterate", 1, 'i'},
                                                 {"jobs", 2, 'j'},
                                                 {"json", 2, kJson},
                                                 {"licenses", 1, 'L'},
                                                 {"local", 0, kIgnored},
                                                 {"long", 0, 'l'},
                                                 {"me", 0, kMe},
                                                 {"name", 1, 'n'},
                                                 {"noconvert", 0, kIgnored},
                                                 {"node", 1, 'w'},
                                                 {"nodelist", 1, 'w'},
                                                 {"nodes", 1, 'w'},
                                                 {"noheader", 0, 'h'},
                                                 {"partition", 1, 'p'},
                                                 {"partitions", 1, 'p'},
                                                 {"priority", 0, 'P'},
                                                 {"qos", 1, 'q'},
                                                 {"reservation", 1, 'R'},
                                                 {"sibling", 0, kIgnored},
                                                 {"sort", 1, 'S'},
                                                 {"start", 0, kStartOption},
                                                 {"states", 1, 't'},
                                                 {"state", 1, 't'},
                                                 {"steps", 2, 's'},
                                                 {"usage", 0, kUsage},
                                                 {"user", 1, 'u'},
                                                 {"users", 1, 'u'},
                                                 {"verbose", 0, 'v'},
                                                 {"version", 0, 'V'},
                                                 {"yaml", 2, kYaml}};
  std::optional<int> exit_code;
  bool jobs_open = false, steps_open = false;  // -j and -s without a value take the next word
  const auto take = [&](int code, const char* value) {
    switch (code) {
      case 'A': wish.filters["account"] = value; break;
      case 'L': wish.filters["licenses"] = value; break;
      case 'n': wish.filters["name"] = value; break;
      case 'p': wish.filters["partition"] = value; break;
      case 'q': wish.filters["qos"] = value; break;
      case 'R': wish.filters["reservation"] = value; break;
      case 't': wish.filters["states"] = value; break;
      case 'u': wish.filters["user"] = value; break;
      case 'w': wish.filters["nodes"] = value; break;
      case 'r': wish.filters["array"] = "1"; break;
      case 'j':
        wish.jobs_given = true;
        jobs_open = value == nullptr;
        if (value)
          wish.filters["jobs"] = value;
        break;
      case 's':
        wish.steps = true;
        steps_open = value == nullptr;
        if (value)
          wish.filters["jobs"] = value;
        break;
      case 'o': wish.short_format = value, wish.long_format.clear(); break;
      case 'O': wish.long_format = value, wish.short_format.clear(); break;
      case 'S': wish.sort = value; break;
      case 'h': wish.header = false; break;
      case 'l': wish.long_list = true; break;
      case 'i':
        wish.every_s = parse_int(value).value_or(0);
        if (wish.every_s <= 0) {
          voice.error(format("invalid entry for --iterate={}", value));
          exit_code = 1;
        }
        break;
      case kMe: wish.filters["me"] = "1"; break;
      case kJson: wish.json = true; break;
      case kYaml:
        voice.error("--yaml is not supported; use --json");
        exit_code = 1;
        break;
      case kStartOption: wish.start = true; break;
      case kHelpOption: say(kHelp), exit_code = 0; break;
      case kUsage:
        say("Usage: squeue [-ahlrsv] [-A list] [-i seconds] [-j list] [-n list] [-o format] [-O format]\n"
            "              [-p list] [-q list] [-S fields] [-t list] [-u list] [-w hosts] [--me] [--json] [--start]\n"),
            exit_code = 0;
        break;
      case 'V': exit_code = print_version(); break;
      default: break;  // -a, -M, -P, -v and the like change nothing here
    }
  };
  const ParsedOptions parsed = parse_options(argc, argv, "A:ahi:j::lL:M:n:O:o:p:Pq:R:rs::S:t:u:vVw:", kLongs, take);
  if (!parsed.ok)
    return 1;
  if (exit_code)
    return exit_code;
  std::size_t used = 0;
  if ((jobs_open || steps_open) && !parsed.words.empty())
    wish.filters["jobs"] = parsed.words[used++];
  if (used < parsed.words.size()) {
    voice.error(format("Unrecognized option: {}", parsed.words[used]));
    return 1;
  }
  return std::nullopt;
}

Result<TableFormat> format_of(const Wish& wish, std::span<const FieldDef> fields) {
  if (!wish.long_format.empty())
    return parse_long_format(wish.long_format, fields);
  if (!wish.short_format.empty())
    return parse_short_format(wish.short_format, fields);
  return parse_short_format(wish.steps ? kSteps : wish.start ? kStart : wish.long_list ? kLong : kShort, fields);
}

// The users in a list that the cluster says it does not know.
std::vector<std::string> unknown_users_of(const Error& error) {
  constexpr std::string_view kRefusal = "Invalid user: ";
  const bool is_one = error.code == Errc::kInvalid && error.message.starts_with(kRefusal);
  return is_one ? split(std::string_view(error.message).substr(kRefusal.size()), ',') : std::vector<std::string>();
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
    auto users = split(parameters["user"], ',');
    std::erase(users, "");  // with them alone everybody's would be listed
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

Result<void> list_once(Query& query, const Wish& wish, const Voice& voice) {
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
  look.colour = wants_colour();
  look.header = wish.header;
  look.time_pattern = variable_or("SLURM_TIME_FORMAT");
  look.now = time(nullptr);
  std::string out;
  if (wish.every_s > 0 || (wish.long_list && wish.header))
    out = date_line(look.now);
  say(out + write_table(layout, ask, rows, sorted_rows(rows, keys), look));
  return {};
}

}  // namespace

int squeue_main(const ClientContext& context, int argc, char** argv) {
  const Voice voice("squeue");
  Wish wish;
  read_environment(wish);
  if (const auto exit_code = read_options(wish, argc, argv, voice))
    return *exit_code;
  Query query(context);
  for (;;) {
    if (const auto listed = list_once(query, wish, voice); !listed) {
      const Error& error = listed.error();
      if (error.code == Errc::kNotFound && wish.filters.contains("jobs"))
        write_all(STDERR_FILENO, "slurm_load_jobs error: Invalid job id specified\n");
      else
        voice.error(error.message);
      return 1;
    }
    if (wish.every_s <= 0 || unsaid())
      return 0;
    sleep_for(seconds(wish.every_s));
  }
}

}  // namespace lockstep
