// sprio: the parts that the priorities of pending jobs are made of.
#include "base/text.h"
#include "frontends/slurm/client/query_call.h"
#include "frontends/slurm/client/say.h"
#include "frontends/slurm/client/table.h"

namespace lockstep {

namespace {

constexpr std::string_view kHelp = R"(Usage: sprio [OPTIONS]
  -h, --noheader           no header line
  -j, --jobs=LIST          only these jobs
  -l, --long               more columns
  -n, --norm               the factors, 0 to 1, instead of the points they give
  -o, --format=FORMAT      "%.15i %9r %.10Y %.10A ..."
  -p, --partition=LIST     only these partitions
  -S, --sort=FIELDS        by format letters: "-y,i"
  -u, --user=LIST          only these users
  -w, --weights            the weights of the factors
      --json               everything, as JSON
)";

constexpr FieldDef kFields[] = {
    {'a', "", "AGE", "normage"},
    {'A', "", "AGE", "age", FieldKind::kNumber},
    {'b', "", "ASSOC", "normassoc"},
    {'B', "", "ASSOC", "assoc", FieldKind::kNumber},
    {'f', "", "FAIRSHARE", "normfairshare"},
    {'F', "", "FAIRSHARE", "fairshare", FieldKind::kNumber},
    {'i', "", "JOBID", "jobid"},
    {'j', "", "JOBSIZE", "normjobsize"},
    {'J', "", "JOBSIZE", "jobsize", FieldKind::kNumber},
    {'N', "", "NICE", "nice", FieldKind::kNumber},
    {'n', "", "QOSNAME", "qosname"},
    {'o', "", "ACCOUNT", "account"},
    {'p', "", "PARTITION", "normpartition"},
    {'P', "", "PARTITION", "partition", FieldKind::kNumber},
    {'q', "", "QOS", "normqos"},
    {'Q', "", "QOS", "qos", FieldKind::kNumber},
    {'r', "", "PARTITION", "partitionname"},
    {'S', "", "SITE", "site", FieldKind::kNumber},
    {'T', "", "TRES", "tres"},
    {'u', "", "USER", "user"},
    {'y', "", "PRIORITY", "normpriority"},
    {'Y', "", "PRIORITY", "priority", FieldKind::kNumber},
};

struct Wish {
  std::map<std::string, std::string> filters;
  std::string layout, sort;
  bool header = true, long_list = false, norm = false, weights = false, json = false;
};

std::string_view default_layout(const Wish& wish) {
  if (wish.weights)
    return wish.long_list ? "%.15i %9r %.8u %.10Y %.10S %.10A %.10B %.10F %.10J %.10P %.10Q %.11N %.20T"
                          : "%.15i %9r %.10Y %.10S %.10A %.10F %.10J %.10P %.10Q";
  if (wish.norm)
    return wish.long_list ? "%.15i %9r %.8u %10y %10a %10b %10f %10j %10p %10q %20T"
                          : "%.15i %9r %16y %10a %10f %10j %10p %10q";
  return wish.long_list ? "%.15i %9r %.8u %.10Y %.10S %.10A %.10B %.10F %.10J %.10P %.10Q %.11N %.20T"
                        : "%.15i %9r %.10Y %.10S %.10A %.10F %.10J %.10P %.10Q";
}

Result<std::vector<SortKey>> sort_keys(std::string_view text, TableAsk& ask) {
  std::vector<SortKey> out;
  for (const std::string& part : split(text, ',')) {
    std::string_view word = part;
    SortKey key;
    if (word.starts_with('-') || word.starts_with('+')) {
      key.descending = word[0] == '-';
      word.remove_prefix(1);
    }
    const FieldDef* found = nullptr;
    for (const FieldDef& field : kFields)
      if (word.size() == 1 && field.letter == word[0])
        found = &field;
    if (!found)
      return invalid(format("Invalid sort specification: {}", part));
    key.numeric = found->kind == FieldKind::kNumber;
    key.cell = ask.add(found->column);
    out.push_back(key);
  }
  return out;
}

Result<void> list(Query& query, const Wish& wish) {
  if (wish.json) {
    say(TRY(query.get("/slurm/v1/sprio.json", wish.filters)) + "\n");
    return {};
  }
  const TableFormat layout =
      TRY(parse_short_format(wish.layout.empty() ? default_layout(wish) : std::string_view(wish.layout), kFields));
  TableAsk ask = ask_for(layout);
  const auto keys = TRY(sort_keys(wish.sort.empty() ? "i" : wish.sort, ask));
  auto parameters = wish.filters;
  if (wish.weights)
    parameters["weights"] = "1";
  parameters["columns"] = join(ask.names, ",");
  const Rows rows(TRY(query.get("/slurm/v1/sprio", parameters)), ask.names.size());
  if (rows.size() == 0 && wish.filters.contains("jobs"))
    return not_found("Unable to find jobs matching user/id(s) specified");
  TableLook look;
  look.header = wish.header;
  say(write_table(layout, ask, rows, sorted_rows(rows, keys), look));
  return {};
}

}  // namespace

int sprio_main(const ClientContext& context, int argc, char** argv) {
  const Voice voice("sprio");
  Wish wish;
  std::optional<int> exit_code;
  static const std::vector<LongOption> kLongs = {
      {"cluster", 1, 'M'}, {"clusters", 1, 'M'},  {"federation", 0, 'M'}, {"format", 1, 'o'},  {"help", 0, 258},
      {"jobs", 1, 'j'},    {"json", 2, 256},      {"local", 0, 'L'},      {"long", 0, 'l'},    {"noheader", 0, 'h'},
      {"norm", 0, 'n'},    {"partition", 1, 'p'}, {"sibling", 0, 'L'},    {"sort", 1, 'S'},    {"usage", 0, 258},
      {"user", 1, 'u'},    {"verbose", 0, 'v'},   {"version", 0, 'V'},    {"weights", 0, 'w'}, {"yaml", 2, 257}};
  const auto take = [&](int code, const char* value) {
    switch (code) {
      case 'h': wish.header = false; break;
      case 'j': wish.filters["jobs"] = value; break;
      case 'l': wish.long_list = true; break;
      case 'n': wish.norm = true; break;
      case 'o': wish.layout = value; break;
      case 'p': wish.filters["partitions"] = value; break;
      case 'S': wish.sort = value; break;
      case 'u': wish.filters["users"] = value; break;
      case 'w': wish.weights = true; break;
      case 'V': exit_code = print_version(); break;
      case 256: wish.json = true; break;
      case 257: voice.error("--yaml is not supported; use --json"), exit_code = 1; break;
      case 258: say(kHelp), exit_code = 0; break;
      default: break;
    }
  };
  const ParsedOptions parsed = parse_options(argc, argv, "hj:lM:no:p:S:u:vVw", kLongs, take);
  if (!parsed.ok)
    return 1;
  if (exit_code)
    return *exit_code;
  Query query(context);
  const auto done = list(query, wish);
  if (!done)
    voice.error(done.error().message);
  return done ? 0 : 1;
}

}  // namespace lockstep
