// sprio: the parts that the priorities of pending jobs are made of.
#include "base/items.h"
#include "base/text.h"
#include "frontends/slurm/client/command_options.h"
#include "frontends/slurm/client/query_call.h"
#include "frontends/slurm/client/say.h"
#include "frontends/slurm/client/table.h"

namespace lockstep::slurm {

namespace {

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
  std::string clusters = variable_or("SLURM_CLUSTERS");
  bool no_header = false, long_list = false, norm = false, weights = false, json = false;
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
  for (const std::string& part : items_of(text)) {
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
    parameters.insert_or_assign("weights", "1");
  parameters["columns"] = join(ask.names, ",");
  const Rows rows(TRY(query.get("/slurm/v1/sprio", parameters)), ask.names.size());
  if (rows.size() == 0 && wish.filters.contains("jobs"))
    return not_found("Unable to find jobs matching user/id(s) specified");
  TableLook look;
  look.header = !wish.no_header;
  say(write_table(layout, ask, rows, sorted_rows(rows, keys), look));
  return {};
}

// clang-format off
constexpr CommandOption<Wish> kOptions[] = {
  // letter, names, takes, value, help, what it sets
  {'h', "noheader", Takes::kNothing, "", "no header line", &Wish::no_header},
  {'j', "jobs", Takes::kValue, "LIST", "only these jobs", Filter{"jobs"}},
  {'l', "long", Takes::kNothing, "", "more columns", &Wish::long_list},
  {'n', "norm", Takes::kNothing, "", "the factors, 0 to 1, instead of the points they give", &Wish::norm},
  {'o', "format", Takes::kValue, "FORMAT", "\"%.15i %9r %.10Y %.10A ...\"", &Wish::layout},
  {'p', "partition", Takes::kValue, "LIST", "only these partitions", Filter{"partitions"}},
  {'S', "sort", Takes::kValue, "FIELDS", "by format letters: \"-y,i\"", &Wish::sort},
  {'u', "user", Takes::kValue, "LIST", "only these users", Filter{"users"}},
  {'w', "weights", Takes::kNothing, "", "the weights of the factors", &Wish::weights},
  {0, "json", Takes::kMaybe, "", "everything, as JSON", &Wish::json},
  {'V', "version", Takes::kNothing, "", "", Shows::kVersion},
  {0, "help usage", Takes::kNothing, "", "", Shows::kHelp},
  {0, "yaml", Takes::kMaybe, "", "", Refusal{"--yaml is not supported; use --json"}},
  {'M', "clusters cluster", Takes::kValue, "", "", &Wish::clusters},
  {'v', "verbose", Takes::kNothing, "", "", Nothing{}},
  {0, "federation local sibling", Takes::kNothing, "", "", Nothing{}},
};
// clang-format on

constexpr CommandSyntax<Wish> kSyntax = {.head = "Usage: sprio [OPTIONS]\n", .options = kOptions};

}  // namespace

int sprio_main(const ClientContext& context, int argc, char** argv) {
  const Voice voice("sprio");
  Wish wish;
  const CommandWords line = read_options(kSyntax, argc, argv, voice, wish);
  if (line.exit_code)
    return *line.exit_code;
  if (!has_no_words(voice, line.words))
    return 1;
  const auto ask = [&]() -> Result<void> {
    TRY(check_clusters(context, wish.clusters));
    Query query(context);
    return list(query, wish);
  };
  const auto done = ask();
  if (!done && !say_unreached(voice, "Couldn't get priority factors from controller", done.error()))
    voice.error(done.error().message);
  return done ? 0 : 1;
}

}  // namespace lockstep::slurm
