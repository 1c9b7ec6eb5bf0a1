// sshare: shares and past use of accounts and users, and what fair share makes of them.
#include "base/text.h"
#include "frontends/slurm/client/listing_options.h"
#include "frontends/slurm/client/query_call.h"
#include "frontends/slurm/client/sacct_fields.h"
#include "frontends/slurm/client/say.h"

namespace lockstep::slurm {

namespace {

constexpr SacctField kFields[] = {
    {"Account", -20, "account"},        {"User", 10, "user"},
    {"Partition", 12, "partition"},     {"RawShares", 10, "rawshares"},
    {"NormShares", 11, "normshares"},   {"RawUsage", 11, "rawusage"},
    {"NormUsage", 11, "normusage"},     {"EffectvUsage", 13, "effectvusage"},
    {"FairShare", 10, "fairshare"},     {"LevelFS", 10, "levelfs"},
    {"GrpTRESMins", 30, "grptresmins"}, {"TRESRunMins", 30, "tresrunmins"},
};

struct Wish {
  std::map<std::string, std::string> filters;
  std::string columns;
  std::string clusters = variable_or("SLURM_CLUSTERS");
  SacctLook look;
  bool long_list = false, partitions = false, json = false;
};

// clang-format off
constexpr CommandOption<Wish> kOptions[] = {
  // letter, names, takes, value, help, what it sets
  {'a', "all", Takes::kNothing, "", "every user", Filter{"all"}},
  {'A', "accounts", Takes::kValue, "LIST", "only these accounts", Filter{"accounts"}},
  {'l', "long", Takes::kNothing, "", "more columns", &Wish::long_list},
  {'m', "partition", Takes::kNothing, "", "with partitions", &Wish::partitions},
  {'n', "noheader", Takes::kNothing, "", "no header line", look_without_header<Wish>},
  {'o', "format", Takes::kValue, "LIST", "Account,User,RawShares,NormShares,RawUsage,NormUsage,EffectvUsage,FairShare,LevelFS,...", &Wish::columns},
  {'p', "parsable", Takes::kNothing, "", "fields between bars, one more at the end", look_parsable<Wish>},
  {'P', "parsable2", Takes::kNothing, "", "fields between bars", look_parsable2<Wish>},
  {'u', "users", Takes::kValue, "LIST", "only these users", Filter{"users"}},
  {'U', "Users", Takes::kNothing, "", "users only", Filter{"users_only"}},
  {0, "json", Takes::kMaybe, "", "everything, as JSON", &Wish::json},
  {'V', "version", Takes::kNothing, "", "", Shows::kVersion},
  {'h', "help usage", Takes::kNothing, "", "", Shows::kHelp},
  {0, "yaml", Takes::kMaybe, "", "", Refusal{"--yaml is not supported; use --json"}},
  {'M', "clusters cluster", Takes::kValue, "", "", &Wish::clusters},
  {'v', "verbose", Takes::kNothing, "", "", Nothing{}},
};
// clang-format on

constexpr CommandSyntax<Wish> kSyntax = {.head = "Usage: sshare [OPTIONS]\n", .options = kOptions, .column = 25};

std::string default_columns(const Wish& wish) {
  return format("Account,User,{}RawShares,NormShares,RawUsage,{}EffectvUsage,FairShare{}",
                wish.partitions ? "Partition," : "", wish.long_list ? "NormUsage," : "",
                wish.long_list ? ",LevelFS,GrpTRESMins,TRESRunMins" : "");
}

Result<void> list(Query& query, const Wish& wish) {
  if (wish.json) {
    say(TRY(query.get("/slurm/v1/sshare.json", wish.filters)) + "\n");
    return {};
  }
  const auto columns = TRY(parse_sacct_format(wish.columns.empty() ? default_columns(wish) : wish.columns, kFields));
  const SacctAsk ask = sacct_ask(columns);
  auto parameters = wish.filters;
  parameters["columns"] = join(ask.names, ",");
  const Rows rows(TRY(query.get("/slurm/v1/sshare", parameters)), ask.names.size());
  say(write_sacct(columns, rows, wish.look, ask.cell_of));
  return {};
}

}  // namespace

int sshare_main(const ClientContext& context, int argc, char** argv) {
  const Voice voice("sshare");
  Wish wish;
  const CommandWords line = read_options(kSyntax, argc, argv, voice, wish);
  if (line.exit_code)
    return *line.exit_code;
  const auto ask = [&]() -> Result<void> {
    const std::string cluster = TRY(check_clusters(context, wish.clusters));
    if (!wish.json)
      say(cluster_line(cluster, !wish.look.header));
    Query query(context);
    return list(query, wish);
  };
  const auto done = ask();
  if (!done && !say_unreached(voice, "sshare: error: Couldn't get shares from controller", done.error()))
    voice.error(done.error().message);
  return done ? 0 : 1;
}

}  // namespace lockstep::slurm
