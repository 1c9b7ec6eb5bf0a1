// sinfo: the cluster groups the nodes, this lays the rows out.
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.h"
#include "frontends/slurm/client/api.h"
#include "frontends/slurm/client/query_call.h"
#include "frontends/slurm/client/query_times.h"
#include "frontends/slurm/client/say.h"
#include "frontends/slurm/client/sinfo_fields.h"
#include "frontends/slurm/client/terminal_look.h"
#include "views/shown_text.h"

namespace lockstep {

namespace {

constexpr std::string_view kHelp = R"(Usage: sinfo [OPTIONS]
  -a, --all                every partition
  -d, --dead               only nodes that do not answer
  -e, --exact              group only nodes that are equal
  -h, --noheader           no header line
  -i, --iterate=SECONDS    again and again
      --json               everything, as JSON
  -l, --long               more columns
  -n, --nodes=HOSTS        only these nodes
  -N, --Node               a line for each node
  -o, --format=FORMAT      "%P %.5a %.10l ..."
  -O, --Format=FORMAT      "partition:20,nodelist:30"
  -p, --partition=LIST     only these partitions
  -r, --responding         only nodes that answer
  -R, --list-reasons       why nodes are down or drained
  -s, --summarize          counts of nodes by partition
  -S, --sort=FIELDS        by format letters: "P,-t"
  -T, --reservation        reservations instead of nodes
  -t, --states=LIST        only nodes in these states
  -V, --version            version
)";

enum Code : int { kJson = 256, kYaml, kHelpOption, kUsage, kIgnored };

struct Wish {
  std::map<std::string, std::string> filters;
  std::string short_format, long_format, sort;
  bool header = true, long_list = false, nodes = false, reasons = false, summary = false, reservations = false,
       json = false;
  std::int64_t every_s = 0;
};

std::optional<int> read_options(Wish& wish, int argc, char** argv, const Voice& voice) {
  static const std::vector<LongOption> kLongs = {
      {"all", 0, 'a'},          {"cluster", 1, 'M'},        {"clusters", 1, 'M'},
      {"dead", 0, 'd'},         {"exact", 0, 'e'},          {"federation", 0, kIgnored},
      {"Format", 1, 'O'},       {"format", 1, 'o'},         {"future", 0, 'F'},
      {"help", 0, kHelpOption}, {"hide", 0, kIgnored},      {"iterate", 1, 'i'},
      {"json", 2, kJson},       {"list-reasons", 0, 'R'},   {"local", 0, kIgnored},
      {"long", 0, 'l'},         {"noconvert", 0, kIgnored}, {"Node", 0, 'N'},
      {"node-centric", 0, 'N'}, {"nodes", 1, 'n'},          {"node", 1, 'n'},
      {"nod", 1, 'n'},          {"noheader", 0, 'h'},       {"partition", 1, 'p'},
      {"reservation", 0, 'T'},  {"responding", 0, 'r'},     {"sort", 1, 'S'},
      {"states", 1, 't'},       {"state", 1, 't'},          {"summarize", 0, 's'},
      {"usage", 0, kUsage},     {"verbose", 0, 'v'},        {"version", 0, 'V'},
      {"yaml", 2, kYaml}};
  std::optional<int> exit_code;
  const auto take = [&](int code, const char* value) {
    switch (code) {
      case 'd': wish.filters["dead"] = "1"; break;
      case 'r': wish.filters["responding"] = "1"; break;
      case 'e': wish.filters["exact"] = "1"; break;
      case 'n': wish.filters["nodes"] = value; break;
      case 'p': wish.filters["partition"] = value; break;
      case 't': wish.filters["states"] = value; break;
      case 'o': wish.short_format = value, wish.long_format.clear(); break;
      case 'O': wish.long_format = value, wish.short_format.clear(); break;
      case 'S': wish.sort = value; break;
      case 'h': wish.header = false; break;
      case 'l': wish.long_list = true; break;
      case 'N': wish.nodes = true, wish.filters["each_node"] = "1"; break;
      case 'R': wish.reasons = true, wish.filters["reasons"] = "1"; break;
      case 's': wish.summary = true; break;
      case 'T': wish.reservations = true; break;
      case 'i':
        wish.every_s = parse_int(value).value_or(0);
        if (wish.every_s <= 0) {
          voice.error(format("invalid entry for --iterate={}", value));
          exit_code = 1;
        }
        break;
      case kJson: wish.json = true; break;
      case kYaml:
        voice.error("--yaml is not supported; use --json");
        exit_code = 1;
        break;
      case kHelpOption: say(kHelp), exit_code = 0; break;
      case kUsage:
        say("Usage: sinfo [-adelNRrsv] [-i seconds] [-t states] [-p partition] [-n nodes] [-S fields] [-o format]\n"
            "             [-O format] [--json]\n");
        exit_code = 0;
        break;
      case 'V': exit_code = print_version(); break;
      default: break;  // -a, -F, -M, -v change nothing here
    }
  };
  const ParsedOptions parsed = parse_options(argc, argv, "adeFhi:lM:n:No:O:p:rRsS:t:TvV", kLongs, take);
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

std::string_view default_format(const Wish& wish) {
  if (wish.summary)
    return wish.long_list ? "%#P %.5a %.10l %.10s %.4r %.8h %.10g %.16F  %N" : "%#P %.5a %.10l %.16F  %N";
  if (wish.reasons)
    return wish.long_list ? "%20E %12U %19H %6t %N" : "%20E %9u %19H %N";
  if (wish.nodes)
    return wish.long_list ? "%#N %.6D %#P %.11T %.4c %.8z %.6m %.8d %.6w %.8f %20E" : "%#N %.6D %#P %6t ";
  return wish.long_list ? "%#P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %.11i %N" : "%#P %.5a %.10l %.6D %.6t %N";
}

Result<std::vector<SortKey>> sort_keys(std::string_view text, TableAsk& ask) {
  std::vector<SortKey> keys;
  bool descending = false;
  for (const char c : text) {
    if (c == ',' || c == '#' || c == ' ')
      continue;
    if (c == '-' || c == '+') {
      descending = c == '-';
      continue;
    }
    SortKey key;
    key.descending = descending;
    descending = false;
    const FieldDef* found = nullptr;
    for (const FieldDef& field : sinfo_fields())
      if (field.letter == c)
        found = &field;
    if (!found)
      return invalid(std::string("Invalid sort specification: ") + c, "sort");
    const bool by_state = c == 't' || c == 'T';
    key.cell = ask.add(by_state ? "stateorder" : found->column);
    key.numeric = by_state || found->kind != FieldKind::kText;
    keys.push_back(key);
  }
  return keys;
}

Result<void> list_once(Query& query, const Wish& wish) {
  if (wish.json) {
    say(TRY(query.get("/slurm/v1/sinfo.json", wish.filters)));
    return {};
  }
  if (wish.reservations) {
    const std::string listed =
        TRY(query.get("/slurm/v1/sinfo.reservations", {{"noheader", wish.header ? "" : "1"}, {"times", "marked"}}));
    say(shown_lines(with_times(listed, variable_or("SLURM_TIME_FORMAT"), time(nullptr))));
    return {};
  }
  const TableFormat layout =
      !wish.long_format.empty()
          ? TRY(parse_long_format(wish.long_format, sinfo_fields()))
          : TRY(parse_short_format(
                wish.short_format.empty() ? default_format(wish) : std::string_view(wish.short_format),
                sinfo_fields()));
  TableAsk ask = ask_for(layout);
  const std::vector<SortKey> keys = TRY(sort_keys(wish.sort, ask));
  std::map<std::string, std::string> parameters = wish.filters;
  parameters["columns"] = join(ask.names, ",");
  const Rows rows(TRY(query.get("/slurm/v1/sinfo", parameters)), ask.names.size());
  TableLook look;
  look.colour = wants_colour();
  look.header = wish.header;
  look.time_pattern = variable_or("SLURM_TIME_FORMAT");
  look.now = time(nullptr);
  look.unlimited = "infinite";
  look.no_time = "Unknown";
  look.no_limit = "n/a";
  std::string out;
  if (wish.every_s > 0 || (wish.long_list && wish.header))
    out = date_line(look.now);
  say(out + write_table(layout, ask, rows, sorted_rows(rows, keys), look));
  return {};
}

}  // namespace

int sinfo_main(const ClientContext& context, int argc, char** argv) {
  const Voice voice("sinfo");
  Wish wish;
  wish.short_format = variable_or("SINFO_FORMAT");
  wish.sort = variable_or("SINFO_SORT");
  if (std::string partition = variable_or("SINFO_PARTITION"); !partition.empty())
    wish.filters["partition"] = std::move(partition);
  if (const auto exit_code = read_options(wish, argc, argv, voice))
    return *exit_code;
  Query query(context);
  for (;;) {
    if (const auto listed = list_once(query, wish); !listed) {
      voice.error(listed.error().message);
      return 1;
    }
    if (wish.every_s <= 0 || unsaid())
      return 0;
    sleep_for(seconds(wish.every_s));
  }
}

}  // namespace lockstep
