// sinfo: the cluster groups the nodes, this lays the rows out.
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.h"
#include "frontends/slurm/client/api.h"
#include "frontends/slurm/client/listing_options.h"
#include "frontends/slurm/client/query_call.h"
#include "frontends/slurm/client/query_times.h"
#include "frontends/slurm/client/say.h"
#include "frontends/slurm/client/sinfo_fields.h"
#include "frontends/slurm/client/terminal_look.h"
#include "views/shown_text.h"

namespace lockstep::slurm {

namespace {

struct Wish {
  std::map<std::string, std::string> filters;
  std::string short_format, long_format, env_format, sort;
  std::string clusters = variable_or("SLURM_CLUSTERS");
  bool no_header = false, long_list = false, nodes = false, reasons = false, summary = false, reservations = false,
       json = false;
  std::int64_t every_s = 0;
};

void want_nodes(Wish& wish) {
  wish.nodes = true;
  wish.filters.insert_or_assign("each_node", "1");
}

void want_reasons(Wish& wish) {
  wish.reasons = true;
  wish.filters.insert_or_assign("reasons", "1");
}

// clang-format off
constexpr CommandOption<Wish> kOptions[] = {
  // letter, names, takes, value, help, what it sets
  {'a', "all", Takes::kNothing, "", "every partition", Nothing{}},
  {'d', "dead", Takes::kNothing, "", "only nodes that do not answer", Filter{"dead"}},
  {'e', "exact", Takes::kNothing, "", "group only nodes that are equal", Filter{"exact"}},
  {'h', "noheader", Takes::kNothing, "", "no header line", &Wish::no_header},
  {'i', "iterate", Takes::kValue, "SECONDS", "again and again", set_interval<Wish>},
  {0, "json", Takes::kMaybe, "", "everything, as JSON", &Wish::json},
  {'l', "long", Takes::kNothing, "", "more columns", &Wish::long_list},
  {'n', "nodes node nod", Takes::kValue, "HOSTS", "only these nodes", Filter{"nodes"}},
  {'N', "Node node-centric", Takes::kNothing, "", "a line for each node", want_nodes},
  {'o', "format", Takes::kValue, "FORMAT", "\"%P %.5a %.10l ...\"", set_short_format<Wish>},
  {'O', "Format", Takes::kValue, "FORMAT", "\"partition:20,nodelist:30\"", set_long_format<Wish>},
  {'p', "partition", Takes::kValue, "LIST", "only these partitions", Filter{"partition"}},
  {'r', "responding", Takes::kNothing, "", "only nodes that answer", Filter{"responding"}},
  {'R', "list-reasons", Takes::kNothing, "", "why nodes are down or drained", want_reasons},
  {'s', "summarize", Takes::kNothing, "", "counts of nodes by partition", &Wish::summary},
  {'S', "sort", Takes::kValue, "FIELDS", "by format letters: \"P,-t\"", &Wish::sort},
  {'T', "reservation", Takes::kNothing, "", "reservations instead of nodes", &Wish::reservations},
  {'t', "states state", Takes::kValue, "LIST", "only nodes in these states", Filter{"states"}},
  {'V', "version", Takes::kNothing, "", "version", Shows::kVersion},
  {0, "help", Takes::kNothing, "", "", Shows::kHelp},
  {0, "usage", Takes::kNothing, "", "", Shows::kUsage},
  {0, "yaml", Takes::kMaybe, "", "", Refusal{"--yaml is not supported; use --json"}},
  {'M', "clusters cluster", Takes::kValue, "", "", &Wish::clusters},
  {'F', "future", Takes::kNothing, "", "", Nothing{}},
  {'v', "verbose", Takes::kNothing, "", "", Nothing{}},
  {0, "federation hide local noconvert", Takes::kNothing, "", "", Nothing{}},
};
// clang-format on

constexpr CommandSyntax<Wish> kSyntax = {
    .head = "Usage: sinfo [OPTIONS]\n",
    .usage =
        "Usage: sinfo [-adelNRrsv] [-i seconds] [-t states] [-p partition] [-n nodes] [-S fields] [-o format]\n"
        "             [-O format] [--json]\n",
    .options = kOptions};

std::string_view default_format(const Wish& wish) {
  if (wish.summary)
    return wish.long_list ? "%#P %.5a %.10l %.10s %.4r %.8h %.10g %.16F  %N" : "%#P %.5a %.10l %.16F  %N";
  if (wish.reasons)
    return wish.long_list ? "%20E %12U %19H %6t %N" : "%20E %9u %19H %N";
  if (wish.nodes)
    return wish.long_list ? "%#N %.6D %#P %.11T %.4c %.8z %.6m %.8d %.6w %.8f %20E" : "%#N %.6D %#P %6t ";
  if (!wish.env_format.empty())
    return wish.env_format;
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

bool is_read_by_eye(const Wish& wish) {
  return !wish.no_header && wish.short_format.empty() && wish.long_format.empty() && wish.env_format.empty();
}

Result<void> list_once(Query& query, const Wish& wish, const std::string& cluster) {
  if (wish.json) {
    say(TRY(query.get("/slurm/v1/sinfo.json", wish.filters)));
    return {};
  }
  if (wish.reservations) {
    const std::string listed =
        TRY(query.get("/slurm/v1/sinfo.reservations", {{"noheader", wish.no_header ? "1" : ""}, {"times", "marked"}}));
    say(cluster_line(cluster, wish.no_header));
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
  look.colour = is_read_by_eye(wish) && wants_colour();
  look.header = !wish.no_header;
  look.time_pattern = variable_or("SLURM_TIME_FORMAT");
  look.now = time(nullptr);
  look.unlimited = "infinite";
  look.no_time = "Unknown";
  look.no_limit = "n/a";
  std::string out;
  if (wish.every_s > 0 || (wish.long_list && !wish.no_header))
    out = date_line(look.now);
  out += cluster_line(cluster, wish.no_header);
  say(out + write_table(layout, ask, rows, sorted_rows(rows, keys), look));
  return {};
}

}  // namespace

int sinfo_main(const ClientContext& context, int argc, char** argv) {
  const Voice voice("sinfo");
  Wish wish;
  wish.env_format = variable_or("SINFO_FORMAT");
  wish.sort = variable_or("SINFO_SORT");
  if (std::string partition = variable_or("SINFO_PARTITION"); !partition.empty())
    wish.filters["partition"] = std::move(partition);
  const CommandWords line = read_options(kSyntax, argc, argv, voice, wish);
  if (line.exit_code)
    return *line.exit_code;
  if (!has_no_words(voice, line.words))
    return 1;
  const auto fail = [&](const Error& error) {
    if (!say_unreached(voice, wish.reservations ? "slurm_load_reservations" : "slurm_load_partitions", error))
      voice.error(error.message);
    return 1;
  };
  const auto cluster = check_clusters(context, wish.clusters);
  if (!cluster)
    return fail(cluster.error());
  Query query(context);
  for (;;) {
    if (const auto listed = list_once(query, wish, *cluster); !listed)
      return fail(listed.error());
    if (wish.every_s <= 0 || unsaid())
      return 0;
    sleep_for(seconds(wish.every_s));
  }
}

}  // namespace lockstep::slurm
