// sacct: accounting rows of the cluster's history.
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "frontends/slurm/client/query_call.h"
#include "frontends/slurm/client/query_times.h"
#include "frontends/slurm/client/sacct_fields.h"
#include "frontends/slurm/client/say.h"

namespace lockstep {

namespace {

constexpr std::string_view kHelp = R"(Usage: sacct [OPTIONS]
  -a, --allusers           jobs of every user
  -A, --accounts=LIST      jobs of these accounts
  -b, --brief              JobID, State, ExitCode
  -D, --duplicates         earlier runs of requeued jobs too
      --delimiter=TEXT     between columns, with -p and -P
  -e, --helpformat         the names of all fields
  -E, --endtime=TIME       until then
  -j, --jobs=LIST          these jobs: 12, 12_3, 12.0, 12.batch
      --json               everything, as JSON
  -l, --long               more columns
      --name=LIST          jobs of these names
  -n, --noheader           no header line
  -N, --nodelist=HOSTS     jobs that ran there
  -o, --format=LIST        JobID,State%20,...
  -p, --parsable           columns between '|', one more at the end
  -P, --parsable2          columns between '|'
  -q, --qos=LIST           jobs of these QOS
  -r, --partition=LIST     jobs in these partitions
  -s, --state=LIST         jobs in these states
  -S, --starttime=TIME     from then: 2025-11-21T08:00, now-2days, 1121
  -u, --user=LIST          jobs of these users
      --units=K|M|G|T      of memory
  -X, --allocations        no steps
  -V, --version            version
)";

constexpr std::string_view kDefault = "jobid,jobname,partition,account,alloccpus,state,exitcode";
constexpr std::string_view kBrief = "jobid,state,exitcode";
constexpr std::string_view kLong =
    "jobid,jobidraw,jobname,partition,maxvmsize,averss,maxrss,ntasks,alloccpus,elapsed,state,exitcode,reqmem,alloctres,"
    "nodelist,submit,start,end";

enum Code : int { kName = 256, kDelimiter, kJson, kYaml, kUnits, kUsage, kIgnored, kUnsupported };

struct Wish {
  std::map<std::string, std::string> filters;
  std::string format, from, to;
  SacctLook look;
  bool all_users = false, json = false;
};

std::optional<int> read_options(Wish& wish, int argc, char** argv, const Voice& voice) {
  static const std::vector<LongOption> kLongs = {{"accounts", 1, 'A'},
                                                 {"allclusters", 0, 'L'},
                                                 {"allocations", 0, 'X'},
                                                 {"allusers", 0, 'a'},
                                                 {"array", 0, kIgnored},
                                                 {"associations", 1, kUnsupported},
                                                 {"brief", 0, 'b'},
                                                 {"clusters", 1, 'M'},
                                                 {"cluster", 1, 'M'},
                                                 {"delimiter", 1, kDelimiter},
                                                 {"duplicates", 0, 'D'},
                                                 {"endtime", 1, 'E'},
                                                 {"expand-patterns", 0, kIgnored},
                                                 {"federation", 0, kIgnored},
                                                 {"format", 1, 'o'},
                                                 {"gid", 1, kUnsupported},
                                                 {"group", 1, kUnsupported},
                                                 {"help", 0, 'h'},
                                                 {"helpformat", 0, 'e'},
                                                 {"jobs", 1, 'j'},
                                                 {"json", 2, kJson},
                                                 {"local", 0, kIgnored},
                                                 {"long", 0, 'l'},
                                                 {"name", 1, kName},
                                                 {"noconvert", 0, kIgnored},
                                                 {"nodelist", 1, 'N'},
                                                 {"noheader", 0, 'n'},
                                                 {"parsable", 0, 'p'},
                                                 {"parsable2", 0, 'P'},
                                                 {"partition", 1, 'r'},
                                                 {"qos", 1, 'q'},
                                                 {"starttime", 1, 'S'},
                                                 {"state", 1, 's'},
                                                 {"truncate", 0, 'T'},
                                                 {"uid", 1, 'u'},
                                                 {"units", 1, kUnits},
                                                 {"usage", 0, kUsage},
                                                 {"user", 1, 'u'},
                                                 {"verbose", 0, 'v'},
                                                 {"version", 0, 'V'},
                                                 {"whole-hetjob", 2, kIgnored},
                                                 {"yaml", 2, kYaml}};
  std::optional<int> exit_code;
  const auto fail = [&](std::string_view message) {
    voice.error(message);
    exit_code = 1;
  };
  const auto take = [&](int code, const char* value) {
    switch (code) {
      case 'a': wish.all_users = true; break;
      case 'A': wish.filters["account"] = value; break;
      case 'b': wish.format = kBrief; break;
      case 'D': wish.filters["duplicates"] = "1"; break;
      case 'e': {
        std::string out;
        int in_line = 0;
        for (const SacctField& field : sacct_fields())
          out += format("{:<19}{}", field.name, ++in_line % 4 == 0 ? "\n" : " ");
        say(out + "\n");
        exit_code = 0;
        break;
      }
      case 'E': wish.to = value; break;
      case 'j': {
        std::string& jobs = wish.filters["jobs"];
        jobs += (jobs.empty() ? "" : ",") + std::string(value);
        break;
      }
      case 'l': wish.format = kLong; break;
      case 'n': wish.look.header = false; break;
      case 'N': wish.filters["nodes"] = value; break;
      case 'o': wish.format = value; break;
      case 'p': wish.look.parsable = wish.look.trailing = true; break;
      case 'P': wish.look.parsable = true, wish.look.trailing = false; break;
      case 'q': wish.filters["qos"] = value; break;
      case 'r': wish.filters["partition"] = value; break;
      case 's': wish.filters["states"] = value; break;
      case 'S': wish.from = value; break;
      case 'u': wish.filters["user"] = value; break;
      case 'X': wish.filters["allocations"] = "1"; break;
      case kName: wish.filters["name"] = value; break;
      case kDelimiter: wish.look.delimiter = value; break;
      case kJson: wish.json = true; break;
      case kUnits:
        if (std::string_view("KMGTP").find(value[0]) == std::string_view::npos || value[1] != '\0')
          fail(format("Invalid --units type: {}", value));
        wish.look.unit = value[0];
        break;
      case kYaml: fail("--yaml is not supported; use --json"); break;
      case kUnsupported: fail("this filter is not supported"); break;
      case 'h': say(kHelp), exit_code = 0; break;
      case kUsage: say("Usage: sacct [options]\n\tUse --help for help\n"), exit_code = 0; break;
      case 'V': exit_code = print_version(); break;
      default: break;  // -L, -M, -T, -v and the like change nothing here
    }
  };
  const ParsedOptions parsed = parse_options(argc, argv, "aA:bDeE:hj:lLM:nN:o:pPq:r:s:S:Tu:vVX", kLongs, take);
  if (!parsed.ok)
    return 1;
  if (exit_code)
    return exit_code;
  if (!parsed.words.empty()) {
    voice.error(format("Unrecognized option: {}", parsed.words[0]));
    return 1;
  }
  return std::nullopt;
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
    filters["me"] = "1";  // who we are the cluster knows best
  if (wish.all_users)
    filters.erase("user");
  return {};
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
  if (const auto exit_code = read_options(wish, argc, argv, voice))
    return *exit_code;
  Query query(context);
  Result<void> done = complete(wish);
  if (done)
    done = list(query, wish);
  if (!done)
    voice.error(done.error().message);
  return done ? 0 : 1;
}

}  // namespace lockstep
